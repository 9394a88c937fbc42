"""Finds runners that died without a cluster, by the jobs that they left unfinished.

A delivery of a job that ended badly is examined once, some time after it: by then a sweep has missed the runner, and
the watch has recorded the end of a pod. Within the budget's share for reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ghapp.deaths.cause import Cause
from ghapp.deaths.death import Death
from ghapp.deaths.github_words import JobWords, read_words
from ghapp.deaths.job_death import (
    EXAMINED_AFTER_SECONDS,
    completed_by_job,
    death_of_job,
    is_same_end,
    is_suspicious,
    job_death,
    needs_words,
)
from ghapp.deaths.job_outcome import NOTHING_KNOWN, other_attempts
from ghapp.deaths.metrics import DEATHS
from ghapp.deaths.post_mortem import APART_UNSEEN_SECONDS, UNFINISHED
from ghapp.deaths.rerun import APP_SUFFIX, as_requested
from ghapp.deaths.store import identity
from ghapp.errors import GitHubUnavailableError, NotFoundError, PermissionMissingError
from ghapp.github.jobs import Jobs
from ghapp.installations.installation import Installation
from ghapp.installations.pacing import Purpose
from ghapp.installations.pool_matching import OTHER_POOL
from ghapp.loading.job_outcomes import load_job_outcomes
from ghapp.log import logger
from ghapp.notifications.event_ids import death_id
from ghapp.queue.jobs import JobName
from ghapp.runners.evidence import Evidence
from ghapp.workflow_jobs.job import Job, JobSearch, configured_pool
from jobs.context import JobContext, configured, open_context
from jobs.events.publish import publish_death

log = logger(__name__)


async def enqueue_suspicious(
    context: JobContext, installation_id: int, jobs: Iterable[Job], runners: Mapping[int, Evidence]
) -> None:
    """Enqueue a look at each delivered job of a watched pool that may have lost its runner."""
    suspicious = [job for job in jobs if is_suspicious(job, runners.get(job.runner_id or 0))]
    installation = await context.installations.one(installation_id) if suspicious else None
    if installation is None:
        return
    rules = context.settings.pools_of(installation.org)
    for job in suspicious:
        if configured_pool(job, runners.get(job.runner_id or 0), rules) != OTHER_POOL:
            key = f"job-death-{installation_id}-{job.id}"
            context.ask(JobName.JOB_DEATH, installation_id, job.id, key=key, after_seconds=EXAMINED_AFTER_SECONDS)


async def enqueue_ended(context: JobContext, installation_id: int, jobs: Iterable[Job]) -> None:
    """Has the post-mortem of each job completed that GitHub ended because of a death: the next look may be far off."""
    ended = [job for job in jobs if job.status == "over" and job.conclusion in UNFINISHED]
    installation = await context.installations.one(installation_id) if ended else None
    if installation is None:
        return
    outcomes = await load_job_outcomes(context, installation, ended)
    for job in ended:
        if (death := outcomes.get(job.id, NOTHING_KNOWN).death) is not None:
            key = f"post-mortem-{death_id(installation, death)}-ended-{job.id}"
            context.ask(JobName.POST_MORTEM, installation_id, identity(death), key=key)


async def enqueue_run_again(context: JobContext, installation_id: int, jobs: Iterable[Job]) -> None:
    """Has the post-mortem of each job updated that was run again, by whomever: a delivery shows the later attempt.

    It names where that attempt is when it is queued, and how it ended.
    """
    for job in jobs:
        if job.attempt <= 1 or job.status == "running":
            continue
        ended = await context.demand.find_ended(installation_id, JobSearch(run_id=job.run_id))
        earlier = [each for each in other_attempts(job, ended) if each.attempt < job.attempt]
        if not earlier or (installation := await context.installations.one(installation_id)) is None:
            continue
        outcome = (await load_job_outcomes(context, installation, earlier[-1:])).get(earlier[-1].id, NOTHING_KNOWN)
        if outcome.death is not None:
            key = f"post-mortem-{death_id(installation, outcome.death)}-attempt-{job.attempt}-{job.status}"
            context.ask(JobName.POST_MORTEM, installation_id, identity(outcome.death), key=key)


async def with_requesters(context: JobContext, installation_id: int, jobs: Iterable[Job]) -> list[Job]:
    """Returns delivered jobs; those that ghapp ran again are of who requested that."""
    found: list[Job] = []
    for job in jobs:
        if job.attempt > 1 and job.run_id is not None and job.actor.endswith(APP_SUFFIX):
            of_run = await context.demand.find_ended(installation_id, JobSearch(run_id=job.run_id))
            known = await context.reruns.of_jobs(installation_id, [each.id for each in of_run])
            found.append(as_requested(job, of_run, [rerun for rerun, _ in known.values() if rerun is not None]))
        else:
            found.append(job)
    return found


async def examine_job(installation_id: int, job_id: int) -> None:
    """The job: look whether the runner of one job died."""
    async with open_context(configured()) as context:
        await examine_job_of(context, installation_id, job_id)


async def examine_job_of(context: JobContext, installation_id: int, job_id: int) -> Death | None:
    """Record the death of a job's runner, and have a post-mortem made; None if the runner did not die, or is on record.

    Raises:
        GitHubError: GitHub gave no answer, or the budget is spent; the queue repeats the look.
    """
    installation = await context.installations.one(installation_id)
    job = await context.demand.one(installation_id, job_id)
    if installation is None or installation.suspended or job is None or job.runner_id is None:
        return None
    evidence = (await context.runners.some(installation_id, [job.runner_id])).get(job.runner_id)
    if not is_suspicious(job, evidence):
        return None
    known = await _recorded_end(context, installation_id, job)
    if known is not None and known.cause is not Cause.CLEAN_EXIT:
        _have_post_mortem(context, installation, known)  # GitHub has ended the job: its conclusion completes it
        return None
    words, missing = JobWords(), None
    if needs_words(job, evidence):
        words, missing = await _words(context, installation, job)
    found = job_death(job, evidence, words)
    if found is None and missing is not None:
        raise missing
    if found is None:
        return None
    pool = configured_pool(job, evidence, context.settings.pools_of(installation.org))
    death = death_of_job(job, evidence, found, pool)
    if known is not None:
        # One death: its event was a clean exit, so that the cause needs an event of its own. It comes first, because
        # after a crash the record alone would end the next look.
        event = completed_by_job(known, death)._replace(id=death.id)
        await publish_death(context, installation, event, context.clock())
        death = completed_by_job(known, death)
        await context.deaths.enrich(installation_id, death)
    elif not await context.deaths.record(installation_id, death):
        _have_post_mortem(context, installation, death)  # the process that recorded it may have crashed
        return None
    log.warning(
        "runner died during its job",
        installation=installation_id,
        org=installation.org,
        runner=death.runner_name,
        pool=pool,
        cause=death.cause.value,
        reason=death.reason,
        repository=job.repository,
        job=job.id,
    )
    await context.counters.add(DEATHS, org=installation.org, pool=pool, cause=death.cause.value)
    _have_post_mortem(context, installation, death)
    return death


async def _recorded_end(context: JobContext, installation_id: int, job: Job) -> Death | None:
    """Returns the recorded death of this job's runner, though a later one of its name may have died since."""
    name = job.runner_name or ""
    latest = await context.deaths.of(installation_id, name)
    if latest is None or is_same_end(latest, job):
        return latest
    since = (job.started_at or 0.0) - APART_UNSEEN_SECONDS  # a cluster's clock may be behind
    others = await context.deaths.namesakes(installation_id, name, since)
    return next((each for each in others if is_same_end(each, job)), None)


def _have_post_mortem(context: JobContext, installation: Installation, death: Death) -> None:
    key = f"post-mortem-{death_id(installation, death)}"
    context.ask(JobName.POST_MORTEM, installation.id, identity(death), key=key)


async def _words(
    context: JobContext, installation: Installation, job: Job
) -> tuple[JobWords, GitHubUnavailableError | None]:
    """GitHub's texts on the end of a job: its annotations and, where these do not decide, the end of its raw log.

    The error is why the log could not be read: GitHub's storage may be blocked for us, and the rest may decide.
    """
    if not installation.may("actions", "read"):
        return JobWords(), None
    client = await context.installation_client(installation, Purpose.REPORT)
    jobs = Jobs(client, installation.at_github(job.repository))
    try:
        annotations = await jobs.annotations(job.id)
    except (NotFoundError, PermissionMissingError):
        annotations = ()
    words = read_words(annotations)
    if words.of_runner:
        return words, None
    try:
        return read_words(annotations, await jobs.log_tail(job.id)), None
    except (NotFoundError, PermissionMissingError):
        return words, None
    except GitHubUnavailableError as error:
        return words, error
