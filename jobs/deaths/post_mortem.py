"""Completes a death: adds its job and the logs around its end, publishes the event and the check run.

Each death is examined several times: GitHub reports a lost job ten minutes late, and the host's log arrives after the
end. Every examination may be repeated: the record only grows, the event has a stable id, and the check run is created
once and updated.
"""

from __future__ import annotations

from ghapp.deaths.cause import Cause
from ghapp.deaths.death import Death
from ghapp.deaths.post_mortem import (
    EARLY_LOOK_SECONDS,
    JobFacts,
    facts_on_record,
    failed_for_it,
    has_full_context,
    is_interrupted,
    may_have_failed_for_it,
    may_have_undelivered_job,
    next_look_after,
    wants_lines,
)
from ghapp.deaths.rerun import RerunRefusal
from ghapp.deaths.store import identity
from ghapp.errors import (
    CreationsSpentError,
    GhappError,
    GitHubError,
    GitHubUnavailableError,
    LogStoreUnavailableError,
    PermissionMissingError,
)
from ghapp.github.jobs import Jobs
from ghapp.installations.installation import Installation
from ghapp.installations.pacing import Purpose
from ghapp.log import logger
from ghapp.loki.client import LogStoreUnreachableError
from ghapp.notifications.event_ids import death_id
from ghapp.pods.degraded_sources import HOST_LINES, RUNNER_LINES
from ghapp.queue.jobs import JobName
from jobs.checks.publisher import CheckRunOutcome
from jobs.context import JobContext, configured, open_context
from jobs.deaths.death_context import facts_of, with_facts, with_host_lines, with_job, with_runner_lines
from jobs.deaths.post_mortem_check import post_check_run
from jobs.deaths.rerun import job_words, refusal_of, request_if_automatic, rerun_facts
from jobs.events.publish import publish_death
from jobs.versions.end_dates import record_refusal

log = logger(__name__)

COMPLETE_AT_LOOK = 1
"""This examination finds all logs. Later ones wait for GitHub, and read logs only where there are none."""


async def post_mortem(installation_id: int, death_id: str, look: int = 0) -> None:
    """The job: examine one death, and enqueue the next examination while something is missing."""
    async with open_context(configured()) as context:
        await look_into(context, installation_id, death_id, look)


async def look_into(context: JobContext, installation_id: int, which: str, look: int = 0) -> CheckRunOutcome:
    """One examination: its findings are recorded and published at once, the check run of a running job, too.

    Args:
        context: the stores and GitHub.
        installation_id: of the runner.
        which: the death's `deaths.store.identity`; a later end of the same pod, or of its name, is another one.
        look: how many examinations came before.

    Raises:
        GitHubUnavailableError: after all the rest is done; the queue repeats this examination.
    """
    async with context.locks.acquire(
        "post-mortem", f"{installation_id}:{which}", context.locks.outliving_seconds
    ) as is_mine:
        installation = await context.installations.one(installation_id)
        known = await context.deaths.one(installation_id, which)
        if not is_mine or installation is None or known is None:
            return CheckRunOutcome.NOTHING_TO_DO
        await record_refusal(context, installation, known)
        return await _look(context, installation, known, look)


async def _look(context: JobContext, installation: Installation, death: Death, look: int) -> CheckRunOutcome:
    deaths = context.deaths
    death, lacks_lines = await _with_lines(context, installation, await with_job(context, installation, death), look)
    facts: JobFacts | None = None
    trouble: GitHubError | None = None
    outcome = CheckRunOutcome.RECORDED
    try:
        facts = await facts_of(context, installation, death)
    except GitHubError as error:
        trouble = error
    if facts is not None:
        death = with_facts(death, facts)
    await deaths.enrich(installation.id, death)
    now = context.clock()  # after the questions to GitHub and to the log store
    await publish_death(context, installation, death, now)
    await deaths.mark_published(installation.id, death)
    try:
        if facts is not None:
            outcome = await _publish(context, installation, death, facts)
        elif trouble is not None and refusal_of(trouble) is RerunRefusal.UNKNOWN_JOB:
            outcome = await _take_button(context, installation, death)
    except GitHubError as error:
        trouble = error
    if isinstance(trouble, CreationsSpentError):
        _post_later(context, installation, death, look, trouble.after_seconds)
    elif trouble is not None:
        await _log_once(context, installation, trouble)
    if isinstance(trouble, GitHubUnavailableError):
        raise trouble
    if look == 0 and may_have_undelivered_job(death, now) and _look_again_early(context, installation, death):
        return CheckRunOutcome.WAITS
    if (lacks_lines or _is_open(context, death, facts, trouble, now)) and _ask_for_next(
        context, installation, death, look
    ):
        return CheckRunOutcome.WAITS if outcome is CheckRunOutcome.RECORDED else outcome
    return outcome


async def _publish(context: JobContext, installation: Installation, death: Death, job: JobFacts) -> CheckRunOutcome:
    """Posts the check run of a job that the death interrupted, at once, and completes it when GitHub has ended the job.

    A job that failed because of the death is run again where its pool says so. That comes first, because it needs no
    right to write checks. A job that came to another result after all has its check run corrected.
    """
    if death.job is None:
        return CheckRunOutcome.RECORDED
    if is_interrupted(death, job):
        facts = await rerun_facts(context, installation, death, job, "")
        return await post_check_run(context, installation, facts, death.job)
    if not job.over:
        return CheckRunOutcome.RECORDED
    if not may_have_failed_for_it(death, job):
        return await _correct(context, installation, death, job)
    client = await context.installation_client(installation, Purpose.REPORT)
    words = await job_words(Jobs(client, installation.at_github(death.job.repository)), job.id)
    if not failed_for_it(death, job, words):
        return await _correct(context, installation, death, job)
    facts = (await rerun_facts(context, installation, death, job, ""))._replace(words=words)
    await request_if_automatic(context, facts, installation)
    return await post_check_run(context, installation, facts, death.job)


async def _correct(context: JobContext, installation: Installation, death: Death, job: JobFacts) -> CheckRunOutcome:
    """Updates a check run that was posted before GitHub had ended the job, which the death did not decide."""
    posted = await context.post_mortems.posted(death_id(installation, death))
    if posted is None or death.job is None or death.cause is Cause.CLEAN_EXIT:
        return CheckRunOutcome.RECORDED
    facts = await rerun_facts(context, installation, death, job, "")
    return await post_check_run(context, installation, facts, death.job, is_cause=False)


async def _take_button(context: JobContext, installation: Installation, death: Death) -> CheckRunOutcome:
    """Updates the check run of a job that GitHub does not know any more, as a press of its button found out."""
    posted = await context.post_mortems.posted(death_id(installation, death))
    if posted is None or not posted.has_button or death.job is None:
        return CheckRunOutcome.RECORDED
    note = await context.reruns.noted(installation.id, death.job.id)
    if note is None or not note.is_final:
        return CheckRunOutcome.RECORDED
    facts = await rerun_facts(context, installation, death, facts_on_record(death.job), "")
    return await post_check_run(context, installation, facts, death.job)


async def _with_lines(context: JobContext, installation: Installation, death: Death, look: int) -> tuple[Death, bool]:
    """With the logs around it; and whether the log store failed to answer."""
    if look > COMPLETE_AT_LOOK and death.host_log:
        return death, False
    post_mortems, degraded, lacks = context.post_mortems, context.degraded_sources, False
    for source, with_more in ((RUNNER_LINES, with_runner_lines), (HOST_LINES, with_host_lines)):
        if await post_mortems.is_log_store_backed_off():
            return death, context.settings.loki_url is not None and wants_lines(death)
        try:
            death = await with_more(context, death)
        except LogStoreUnreachableError as error:
            lacks = True
            await post_mortems.back_off_log_store()
            for each in (RUNNER_LINES, HOST_LINES):
                await degraded.record(each, "it gives no answer; `ghapp doctor` says why")
            await _log_once(context, installation, error)
        except LogStoreUnavailableError as error:
            lacks = True
            await degraded.record(source, "it does not take our questions; `ghapp doctor` says why")
            await _log_once(context, installation, error)
    return death, lacks


async def _log_once(context: JobContext, installation: Installation, error: GhappError) -> None:
    """Log each kind of failure once a day: after an outage many deaths have the same."""
    lacking = error.accepted if isinstance(error, PermissionMissingError) else ""
    if await context.post_mortems.mark_published(installation.id, f"{type(error).__name__}:{lacking}"):
        log.warning("post-mortem incomplete", installation=installation.id, org=installation.org, why=str(error))


def _is_open(
    context: JobContext, death: Death, facts: JobFacts | None, trouble: GitHubError | None, now: float
) -> bool:
    """True if a later examination could find more."""
    if context.settings.loki_url is not None and wants_lines(death) and not has_full_context(death, now):
        return True
    if death.cause is Cause.CLEAN_EXIT or isinstance(trouble, PermissionMissingError):
        return False
    return facts is None or not facts.over or trouble is not None


def _post_later(context: JobContext, installation: Installation, death: Death, look: int, after_seconds: float) -> None:
    """Enqueue the same look again for when a check run may be created; many jobs may have died at once.

    The key has the time, because the job that asks may have waited itself, and its own key blocks the same one.
    """
    turn = round(context.clock() + after_seconds)
    key = f"post-mortem-{death_id(installation, death)}-later-{turn}"
    context.ask(JobName.POST_MORTEM, installation.id, identity(death), look, key=key, after_seconds=after_seconds)


def _look_again_early(context: JobContext, installation: Installation, death: Death) -> bool:
    """Enqueues the first look once more; False if this is that repetition, whose key is taken while it runs."""
    key = f"post-mortem-{death_id(installation, death)}-job"
    return context.ask(JobName.POST_MORTEM, installation.id, identity(death), key=key, after_seconds=EARLY_LOOK_SECONDS)


def _ask_for_next(context: JobContext, installation: Installation, death: Death, look: int) -> bool:
    """False when this was the last."""
    after = next_look_after(look)
    if after is None:
        return False
    key = f"post-mortem-{death_id(installation, death)}-{look + 1}"
    args = (installation.id, identity(death), look + 1)
    context.ask(JobName.POST_MORTEM, *args, key=key, after_seconds=after)
    return True
