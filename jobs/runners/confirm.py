"""Confirms lost runners: two 404s, for an unchanged installation, with a control list that lacks the runner."""

from __future__ import annotations

import asyncio
from asyncio import sleep
from collections.abc import Collection, Iterable
from contextlib import suppress

from ghapp.errors import BudgetSpentError, GhappError, GitHubError, GitHubUnavailableError, RateLimitedError
from ghapp.github.installation_client import InstallationClient
from ghapp.github.response import PER_PAGE
from ghapp.github.runner_list import first_page, get_each, list_runners
from ghapp.github.wire import JobEnd
from ghapp.installations.installation import Installation
from ghapp.installations.pacing import Purpose
from ghapp.installations.store import MEMORY_SECONDS, InstallationState
from ghapp.log import logger
from ghapp.queue.jobs import JOBS_FAILED, JobName
from ghapp.runners import absence, observations
from ghapp.runners.absence import GetResult, RunnerList
from ghapp.runners.evidence import Evidence, Fold, Registration, Survey, is_absent
from ghapp.workflow_jobs.job import RUNNING_TOO_LONG_SECONDS, Job, is_over
from jobs.context import JobContext, configured, open_context
from jobs.delivery_gaps import without_deferred
from jobs.failed_calls import record_failed_calls
from jobs.installations.discover import discover_soon, list_repositories_again
from jobs.installations.enrol import present_state
from jobs.remediation.plan_remediation import plan_remediation

log = logger(__name__)

LEAD_SECONDS = 0.5
"""A job begins so long before the confirmation is due: it takes that to start, and to read the control list."""

CLOCK_SLACK_SECONDS = 0.01
"""A wait by one clock may end a moment early by the other."""


def ask_to_confirm(context: JobContext, installation_id: int, times: Iterable[float]) -> None:
    """Enqueues a job for each of these times (epoch seconds), at most one for each second."""
    for due in times:
        key, wait = f"confirm-{installation_id}-{int(due)}", due - context.clock() - LEAD_SECONDS
        context.ask(JobName.CONFIRM, installation_id, key=key, after_seconds=wait)


async def confirm(installation_id: int) -> None:
    """The job: confirms missing runners and plans their remediation."""
    async with open_context(configured()) as context:
        await confirm_installation(context, installation_id)


async def confirm_installation(context: JobContext, installation_id: int) -> int:
    """Confirms each suspect whose first 404 is `confirm_seconds` old, now or in a moment; returns how many are lost.

    The checks run in this order, and any doubt ends them with nothing confirmed: the installation is the same account,
    not suspended, and holds the permission (GitHub's answer may be seconds old, see `absence.may_rely_on`); the runner
    runs no job; no delivery is missing or late that may explain its absence; a control list with the same token lacks
    the runner; its own GET still answers 404; and no delivery reported a job of the runner in between.
    """
    confirmed = await _confirm_due(context, installation_id)
    if confirmed is None:
        return 0
    installation, lost = confirmed
    await plan_remediation(context, installation)
    return lost


async def _confirm_due(context: JobContext, installation_id: int) -> tuple[Installation, int] | None:
    """Confirms; returns the installation and how many are lost, None if there is nothing to plan.

    The runners that it reads are freed before the plan reads them as they are then.
    """
    async with context.locks.acquire("confirm", installation_id, context.locks.outliving_seconds) as acquired:
        installation = await context.installations.one(installation_id)
        if not acquired or installation is None:
            return None
        runners = await context.runners.all(installation_id)
        survey = await context.runners.survey(installation_id)
        soon = context.clock() + absence.AHEAD_SECONDS
        suspects = absence.due(runners.values(), survey, soon, context.settings.of(installation.org).evidence)
        if not suspects and not absence.awaits_plan(runners.values()):
            return None  # a sweep has confirmed them
        absent = {each.id for each in runners.values() if is_absent(each)} - suspects.keys()
        revised = await _confirm_or_log(context, installation, suspects, absent=absent)
        return installation, sum(each.confirmed_at is not None for each in revised.values())


async def confirm_listed(
    context: JobContext, installation: Installation, suspects: dict[int, Evidence], control: RunnerList
) -> dict[int, Evidence]:
    """Confirms suspects that are due with the list of a sweep as the control list, which saves another one.

    Does nothing while another process confirms.

    Args:
        context: the context of the job.
        installation: the installation.
        suspects: from `absence.due_in_sweep`.
        control: the complete list.

    Returns:
        The records that were changed.
    """
    if not suspects:
        return {}
    async with context.locks.acquire("confirm", installation.id) as acquired:
        return await _confirm_or_log(context, installation, suspects, control) if acquired else {}


async def prepare_confirmation(context: JobContext, installation: Installation, suspects: Collection[Evidence]) -> None:
    """Asks GitHub about the installation, so that the confirmation of these suspects need not wait for the answer."""
    if suspects:
        with suppress(GitHubError):  # the confirmation asks again
            await _verify_installation(context, installation, suspects, context.clock())


async def _confirm_or_log(
    context: JobContext,
    installation: Installation,
    suspects: dict[int, Evidence],
    control: RunnerList | None = None,
    absent: Collection[int] = (),
) -> dict[int, Evidence]:
    """Confirms suspects; errors confirm nothing.

    After an answer that is missing, or that contradicts the installation, the next try waits: the control list of
    hundreds of suspects costs as many calls. After an error of `ghapp` itself, sweeps and plans continue without this
    confirmation, and later ones repeat it.
    """
    if not suspects:
        return {}
    try:
        return await _confirm_suspects(context, installation, suspects, control, absent)
    except Exception as error:
        if isinstance(error, GhappError) and not isinstance(error, GitHubError):
            raise
        if not isinstance(error, BudgetSpentError | GitHubUnavailableError | RateLimitedError):
            await context.installation_states.contradict(installation.id)
        log.warning(
            "not confirmed",
            installation=installation.id,
            org=installation.org,
            error=type(error).__name__,
            why=str(error),
            exc_info=None if isinstance(error, GitHubError) else error,
        )
        if not isinstance(error, GitHubError):
            await context.counters.add(JOBS_FAILED, work="confirm")
            return {}
        return await record_failed_calls(context, installation, dict.fromkeys(suspects, error))


async def _confirm_suspects(
    context: JobContext,
    installation: Installation,
    suspects: dict[int, Evidence],
    control: RunnerList | None,
    absent: Collection[int],
) -> dict[int, Evidence]:
    """Returns the records that were changed. Without a control list, one is read.

    What that list shows of other runners that are recorded as absent (`absent`) is recorded, too.
    """
    if not await _verify_installation(context, installation, suspects.values(), context.clock()):
        log.warning("installation changed, confirmation skipped", org=installation.org)
        return {}
    installation_client = await context.installation_client(installation, Purpose.ACT)
    suspects = await _without_ended_jobs(context, installation_client, suspects)
    suspects = {each.id: each for each in suspects.values() if each.running_job is None}
    survey = await context.runners.survey(installation.id)
    suspects = await without_deferred(context, installation, suspects, survey)
    if not suspects:
        return {}
    concurrency = context.settings.of(installation.org).sweep.concurrency
    listed_at = context.clock()  # read again: GitHub may have been queried, and an answer counts from its request
    control = await _control(context, installation_client, suspects.values(), survey, control)
    control = absence.as_last_read(control, suspects)
    if doubt := absence.why_unusable(control, survey):
        log.warning("control list unusable", org=installation.org, reason=doubt)
        return {}
    listed = {each: GetResult(control.runners[each], listed_at) for each in suspects if each in control.runners}
    due = await _once_due(context, installation, suspects, survey)
    unproven = [each.id for each in absence.needs_own_get(due.values(), control)]
    failures: dict[int, GitHubError] = {}
    queried = await get_each(installation_client, unproven, concurrency, context.clock, failures)
    results = listed | queried
    folds = {runner_id: absence.confirmed(suspects[runner_id], *result) for runner_id, result in results.items()}
    folds |= absence.folds_of_control(control, absent, listed_at)
    revised = await context.runners.revise(installation.id, folds)
    revised |= await record_failed_calls(context, installation, failures)
    lost = sum(revised[each].confirmed_at is not None for each in results)
    log.info("confirmed", installation=installation.id, org=installation.org, lost=lost, of=len(due))
    return revised


async def _once_due(
    context: JobContext, installation: Installation, suspects: dict[int, Evidence], survey: Survey
) -> dict[int, Evidence]:
    """Waits until the first 404s are old enough; returns the suspects for which that is true by our clock, too."""
    limits = context.settings.of(installation.org).evidence
    wait = absence.ready_in(suspects.values(), context.clock(), limits)
    if wait > 0:
        await sleep(min(wait, absence.AHEAD_SECONDS) + CLOCK_SLACK_SECONDS)
    return absence.due(suspects.values(), survey, context.clock(), limits)


async def _verify_installation(
    context: JobContext, installation: Installation, suspects: Collection[Evidence], now: float
) -> bool:
    """Returns True if a 404 of this installation can be believed: GitHub answers that it is as it was.

    Only an answer that confirms the installation is cached; one that contradicts it has the scopes discovered again.
    """
    states = context.installation_states
    known = await states.last(installation.id)
    if (
        known is not None
        and absence.may_rely_on(known.asked_at, suspects, now, MEMORY_SECONDS)
        and absence.is_sane(installation, known.installation)
    ):
        return True
    state = InstallationState(await present_state(context, installation), now)
    if not absence.is_sane(installation, state.installation):
        await states.contradict(installation.id)
        if installation.parent and state.installation.called != installation.called:
            await list_repositories_again(context, installation.parent)
            await discover_soon(context)
        return False
    await states.remember(state)
    return True


async def _control(
    context: JobContext,
    installation_client: InstallationClient,
    suspects: Collection[Evidence],
    survey: Survey,
    listed: RunnerList | None,
) -> RunnerList:
    """Returns the list that must lack the suspects.

    It is the whole list, of a sweep or read for this, or the lists of runners with each suspect's name.
    """
    concurrency = context.settings.of(installation_client.installation.org).sweep.concurrency
    if listed is not None:
        control = listed
    elif absence.wants_whole_list(suspects, survey, PER_PAGE):
        control = absence.allow_for_churn(
            (await list_runners(installation_client, context.pages, concurrency)).runner_list
        )
    else:
        control = await first_page(installation_client, context.pages)
    if not control.churned:
        return control
    slots = asyncio.Semaphore(concurrency)

    async def named(name: str) -> list[Registration]:
        async with slots:
            return await installation_client.runners_named(name)

    found = await asyncio.gather(*(named(each.name) for each in suspects))
    return control._replace(runners={**control.runners, **{each.id: each for several in found for each in several}})


async def _without_ended_jobs(
    context: JobContext, installation_client: InstallationClient, suspects: dict[int, Evidence]
) -> dict[int, Evidence]:
    """Queries the jobs of suspects that still run one, for the delivery of a job's end may be lost."""
    ended: dict[int, Fold] = {}
    for each, job_id in absence.jobs_to_look_up(suspects.values(), context.clock()):
        end = await _end_of(context, installation_client, job_id, each.job_started_at)
        ended[each.id] = observations.job_looked_up(job_id, context.clock(), end)
    return suspects | await context.runners.revise(installation_client.installation.id, ended)


async def _end_of(
    context: JobContext, installation_client: InstallationClient, job_id: int, started_at: float | None
) -> JobEnd | None:
    """Returns the end of a job: by a delivery without its runner, by GitHub's answer, or because no job runs that long.

    Only GitHub's answer has a date. None if the job may still run.
    """
    now, job = context.clock(), await context.demand.one(installation_client.installation.id, job_id)
    if job is None:  # its repository is unknown, so GitHub cannot be queried
        is_too_long = started_at is not None and now - started_at > RUNNING_TOO_LONG_SECONDS
        return JobEnd() if is_too_long else None
    if is_over(job, now):
        return JobEnd()
    return (
        await _github_end(installation_client, job) if installation_client.installation.may("actions", "read") else None
    )


async def _github_end(installation_client: InstallationClient, job: Job) -> JobEnd | None:
    """Returns the end by GitHub's answer. Any doubt returns None: the runner stays a suspect and is kept."""
    try:
        return await installation_client.job_end(job.repository, job.id)
    except GitHubError as error:
        log.info("job lookup failed", org=installation_client.installation.org, job=job.id, why=str(error))
        return None
