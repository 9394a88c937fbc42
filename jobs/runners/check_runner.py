"""Checks one runner now, on request."""

from __future__ import annotations

from ghapp.errors import GitHubError
from ghapp.health.pacing import Purpose
from ghapp.health.runner import absence
from ghapp.log import logger
from jobs.context import JobContext, configured, open_context
from jobs.runners.confirm import ask_to_confirm

log = logger(__name__)


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
    try:
        installation_client = await context.installation_client(installation, Purpose.REPORT)
        answer = await installation_client.runner(runner_id)
    except GitHubError as error:
        log.info("runner check failed", installation=installation_id, runner=runner_id, why=str(error))
        return
    at = context.clock()
    limits, survey = context.settings.of(installation.org).evidence, await context.runners.survey(installation_id)
    revised = await context.runners.revise(installation_id, {runner_id: absence.folds_of_get(answer, at, survey)})
    ask_to_confirm(context, installation_id, absence.confirm_at(revised.values(), survey, at, limits))
    log.info("checked", installation=installation_id, runner=runner_id, there=answer is not None)
