"""Queries GitHub for the job of a lost runner whose delivery is lost or never comes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from ghapp.errors import GitHubError
from ghapp.github.jobs import Jobs
from ghapp.installations.installation import Installation
from ghapp.installations.pacing import Purpose
from ghapp.log import logger
from ghapp.pods.assigned_job import JobOfRun, job_observed, job_of_runner, run_of
from ghapp.pods.observed_remains import by_namespace
from ghapp.pods.pod import EphemeralRunner, is_fresh
from ghapp.runners import absence, observations
from ghapp.runners.evidence import Evidence
from ghapp.runners.remains import RemainsKind
from ghapp.runners.verdict import may_run_an_unknown_job
from jobs.context import JobContext

log = logger(__name__)

MOST_ASKED = 25
"""Jobs that one call of `look_up_jobs` queries; the others follow in the next call."""


async def look_up_known_job(context: JobContext, installation: Installation, evidence: Evidence) -> None:
    """Queries GitHub for the job that a delivery reported, and records its end. Any doubt changes nothing.

    Does nothing while GitHub has lately answered that the job is not over.
    """
    job_id = evidence.running_job if absence.is_job_lookup_due(evidence, context.clock()) else None
    job = None if job_id is None else await context.demand.one(installation.id, job_id)
    if job is None or not installation.may("actions", "read"):
        return
    installation_client = await context.installation_client(installation, Purpose.ACT)
    try:
        end = await installation_client.job_end(job.repository, job.id)
    except GitHubError as error:
        log.info("job lookup failed", org=installation.org, job=job.id, why=str(error))
        return
    found = observations.job_looked_up(job.id, context.clock(), end)
    await context.runners.revise(installation.id, {evidence.id: found})


async def look_up_unknown_job(
    context: JobContext, installation: Installation, evidence: Evidence, found: EphemeralRunner
) -> None:
    """Queries GitHub for the job that ARC's object names, and records its start and end as deliveries would.

    Any doubt changes nothing: the object names no run, the App may not read it, or no job of it names this runner.
    """
    run = run_of(found, installation)
    if run is None or not installation.may("actions", "read"):
        return
    installation_client = await context.installation_client(installation, Purpose.ACT)
    try:
        jobs = await Jobs(installation_client, run.repository).of_run(run.id)
    except GitHubError as error:
        log.info("job lookup failed", org=installation.org, run=run.id, why=str(error))
        return
    job = job_of_runner(jobs, evidence)
    if job is None:
        log.info("no job of the run names the runner", org=installation.org, run=run.id, runner=evidence.name)
        return
    # Record the job first: a runner with a running job also needs the repository in which to query that job.
    await context.demand.record(installation.id, [job.job], now=context.clock())
    learned = partial(_learned, job=job, at=context.clock())
    await context.runners.revise(installation.id, {evidence.id: learned})


async def look_up_jobs(context: JobContext, installation: Installation, absent: Iterable[Evidence]) -> None:
    """Queries the jobs of absent runners that nothing else queries, at most `MOST_ASKED` in one call.

    These are runners that were busy when last listed and whose job no delivery reported: without an answer they are
    kept for as long as the longest job, and are never granted, so that no deletion queries them. And runners whose
    object is being deleted under a job: they are no suspects, so that no confirmation queries them.

    Args:
        context: the context of the job.
        installation: the installation of the runners.
        absent: runners that the last list lacked, with what the views show of them.
    """
    asked, runners = 0, list(absent)
    for each in runners:
        is_going = each.remains is not None and each.remains.kind is RemainsKind.TERMINATING
        if is_going and each.running_job is not None and asked < MOST_ASKED:
            asked += 1
            await look_up_known_job(context, installation, each)
    for each, found in await _objects_of(context, installation, filter(may_run_an_unknown_job, runners)):
        if asked < MOST_ASKED:
            asked += 1
            await look_up_unknown_job(context, installation, each, found)


async def _objects_of(
    context: JobContext, installation: Installation, runners: Iterable[Evidence]
) -> list[tuple[Evidence, EphemeralRunner]]:
    """Returns runners with their ARC objects, by the current view of the watch."""
    store, now = context.pods, context.clock()
    found: list[tuple[Evidence, EphemeralRunner]] = []
    for namespace, group in by_namespace(runners, context.settings.pools_of(installation.org)).items():
        view = await store.some(namespace, [each.name for each in group])
        if view is not None and is_fresh(view.seen_at, now):
            objects = {each.runner_name or each.name: each for each in view.objects.values()}
            found += [(each, objects[each.name]) for each in group if each.name in objects]
    return found


def _learned(evidence: Evidence | None, job: JobOfRun, at: float) -> Evidence | None:
    return None if evidence is None else job_observed(evidence, job, at)
