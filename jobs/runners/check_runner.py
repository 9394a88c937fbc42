"""Checks one runner now, on request."""

from __future__ import annotations

from ghapp.errors import GitHubError
from ghapp.installations.installation import Installation
from ghapp.installations.pacing import Purpose
from ghapp.log import logger
from ghapp.runners import absence
from ghapp.store.presses import check_topic
from ghapp.untrusted_text import one_line
from ghapp.wording import time_of
from jobs.context import JobContext, configured, open_context
from jobs.runners.confirm import ask_to_confirm

log = logger(__name__)

LONGEST_WHY = 200


async def check(installation_id: int, runner_id: int) -> None:
    """The job: one GET on behalf of a controller."""
    async with open_context(configured()) as context:
        await check_runner(context, installation_id, runner_id)


async def check_runner(context: JobContext, installation_id: int, runner_id: int) -> None:
    """Queries GitHub for one runner and records the answer; a 404 starts the confirmation.

    The request uses the budget's share for reports, so that frequent checks cannot starve the sweeps.
    """
    installation = await context.installations.one(installation_id)
    if installation is None:
        return
    outcome = await _look(context, installation, runner_id)
    await context.presses.conclude(installation_id, check_topic(runner_id), lambda _: outcome)


async def _look(context: JobContext, installation: Installation, runner_id: int) -> str:
    """Records what GitHub says of a runner; returns it in words."""
    installation_id = installation.id
    try:
        installation_client = await context.installation_client(installation, Purpose.REPORT)
        answer = await installation_client.runner(runner_id)
    except GitHubError as error:
        log.info("runner check failed", installation=installation_id, runner=runner_id, why=str(error))
        return f"GitHub gave no usable answer: {one_line(str(error), LONGEST_WHY)}"
    at = context.clock()
    limits, survey = context.settings.of(installation.org).evidence, await context.runners.survey(installation_id)
    revised = await context.runners.revise(installation_id, {runner_id: absence.folds_of_get(answer, at, survey)})
    ask_to_confirm(context, installation_id, absence.confirm_at(revised.values(), survey, at, limits))
    log.info("checked", installation=installation_id, runner=runner_id, there=answer is not None)
    known = (await context.runners.some(installation_id, [runner_id])).get(runner_id)
    if answer is None and known is not None and known.confirmed_at is not None:
        return f"GitHub answered 404, as before: the runner counts as lost since {time_of(known.confirmed_at, at)}"
    if answer is None:
        return "GitHub answered 404: the runner is asked for again before it counts as lost"
    return f"GitHub lists it as {'online' if answer.online else 'offline'}{' and busy' if answer.busy else ''}"
