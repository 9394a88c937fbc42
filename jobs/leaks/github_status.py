"""Queries GitHub about the few stamped pods that nothing else keeps. Without an answer they are kept."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from ghapp.errors import GitHubError, NotFoundError
from ghapp.github.installation_client import InstallationClient
from ghapp.github.wire import JobEnd
from ghapp.installations.installation import Installation
from ghapp.installations.pacing import Purpose
from ghapp.leaks.github_queries import is_due, is_worth_a_query, with_answer, without_proof
from ghapp.leaks.guards import TickMemory
from ghapp.leaks.runner_activity import RunnerActivity
from ghapp.log import logger
from ghapp.pods.pod import Pod
from ghapp.pods.pod_claim import claim_on
from ghapp.runners import observations
from ghapp.runners.evidence import Evidence
from ghapp.workflow_jobs.job import Job
from jobs.context import JobContext
from jobs.leaks.snapshot import RecordedRunners, Snapshot, names_of

log = logger(__name__)

MOST_RUNNERS = 100
"""Queries for runners in one tick, however many pods wait for an answer."""

MOST_JOBS = 25
"""Queries for jobs in one tick, the oldest jobs first."""


class GitHubStatus(NamedTuple):
    """The status of runners by GitHub's answers.

    Attributes:
        runners: the activity of all runners, with GitHub's answers for those that were queried.
        unasked: pods that look like leaks and were not queried this time.
    """

    runners: Mapping[str, RunnerActivity]
    unasked: tuple[Pod, ...] = ()


async def query_runners(
    context: JobContext,
    installation: Installation,
    at: Snapshot,
    waiting: Sequence[Pod],
    names: Mapping[str, str],
    enough: int,
) -> GitHubStatus:
    """Queries GitHub for the runners of candidate pods, oldest pod first, until `enough` have no session there.

    Args:
        context: the stores and GitHub.
        installation: the installation of the pods.
        at: the snapshot that found them.
        waiting: pods that nothing else keeps, GitHub's last list included.
        names: the name of each pod's runner, by the pod's uid.
        enough: how many pods may be reaped in this tick.
    """
    activity, runners_by_name = at.look.runners, at.known.runners_by_name
    answered = {name: each._replace(busy=None) for name, each in activity.items()}
    answered |= {name: activity[name] for pod in waiting if activity[name := names[pod.uid]].has_session}
    worth = [
        pod for pod in waiting if is_worth_a_query(activity[names[pod.uid]], runners_by_name.get(names[pod.uid], ()))
    ]
    left = sorted(worth, key=lambda pod: (pod.created_at, pod.uid))
    asked = 0
    try:
        installation_client = await context.installation_client(installation, Purpose.REPORT)
        while left and enough > 0 and asked < MOST_RUNNERS:
            several, left = left[: min(enough, MOST_RUNNERS - asked)], left[min(enough, MOST_RUNNERS - asked) :]
            asked += len(several)
            answers = await _answers(
                context, installation_client, {names[pod.uid] for pod in several}, activity, runners_by_name
            )
            answered |= answers
            enough -= sum(each.has_session is False for each in answers.values())
    except GitHubError as error:
        log.info("GitHub unavailable, leaks deferred", org=installation.org, why=str(error))
        return GitHubStatus(answered)
    return GitHubStatus(answered, tuple(pod for pod in left if activity[names[pod.uid]].has_session is False))


async def _answers(
    context: JobContext,
    installation_client: InstallationClient,
    names: set[str],
    activity: Mapping[str, RunnerActivity],
    runners_by_name: Mapping[str, Sequence[Evidence]],
) -> dict[str, RunnerActivity]:
    """Queries GitHub for each name, and returns the activity with the answers.

    Raises:
        GitHubError: one query failed, and then no answer counts.
    """
    slots = asyncio.Semaphore(context.settings.of(installation_client.installation.org).sweep.concurrency)

    async def ask(name: str) -> RunnerActivity:
        records = runners_by_name.get(name, ())
        async with slots:
            named = await installation_client.runners_named(name)
            if not named:
                found = [await installation_client.runner(each.id) for each in without_proof(records)]
                named = [each for each in found if each is not None]
            return with_answer(activity[name], records, named)

    order = sorted(names)
    answers = await asyncio.gather(*(ask(name) for name in order), return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return {name: answer for name, answer in zip(order, answers, strict=True) if not isinstance(answer, BaseException)}


async def query_jobs(context: JobContext, installation: Installation, at: Snapshot, memory: TickMemory) -> bool:
    """Queries jobs that look finished without a delivery; returns True if one is."""
    if not installation.may("actions", "read"):
        return False
    due = sorted(
        await _due(context, installation, at, memory), key=lambda job: (job.started_at or job.queued_at, job.id)
    )
    learned = False
    try:
        installation_client = await context.installation_client(installation, Purpose.REPORT) if due else None
        for job in due[:MOST_JOBS]:
            end = None if installation_client is None else await _end_of(installation_client, job)
            if end is not None:
                await _record_end(context, installation, job, end, context.clock())
                learned = True
    except GitHubError as error:
        log.info("GitHub unavailable, leaks deferred", org=installation.org, why=str(error))
    return learned


async def _end_of(installation_client: InstallationClient, job: Job) -> JobEnd | None:
    """Returns the end of a job; None if GitHub does not show the job, which may be in progress all the same."""
    try:
        return await installation_client.job_end(job.repository, job.id)
    except NotFoundError:
        return None


async def _due(context: JobContext, installation: Installation, at: Snapshot, memory: TickMemory) -> list[Job]:
    now = context.clock()
    due: dict[int, Job] = {}
    for pod in at.look.pods:
        names = names_of(pod, at.known.claims, memory)
        if any(claim_on(at.known.claims, name, now) for name in names):
            continue
        has_ended = pod.runner is not None and pod.runner.ended is not None
        for name in names:
            looks_over = has_ended or at.look.runners[name].busy is False
            for job in await _running(context, installation.id, at.known, name):
                if is_due(job.started_at or job.queued_at, memory.at, now, looks_over=looks_over):
                    due[job.id] = job
    return list(due.values())


async def _running(context: JobContext, installation: int, known: RecordedRunners, name: str) -> list[Job]:
    """Returns the jobs in progress under a name, as far as their repository is known."""
    jobs = {job.id: job for job in known.jobs.get(name, ())}
    for evidence in known.runners_by_name.get(name, ()):
        job_id = evidence.running_job
        if job_id is not None and job_id not in jobs:
            job = await context.demand.one(installation, job_id)
            if job is not None:
                jobs[job_id] = job._replace(runner_id=evidence.id, started_at=evidence.job_started_at)
    return list(jobs.values())


async def _record_end(context: JobContext, installation: Installation, job: Job, end: JobEnd, at: float) -> None:
    """Records the end as its delivery would have: on the runner, and among the jobs."""
    if job.runner_id is not None:
        fold = partial(observations.job_found_over, job_id=job.id, at=at, completed_at=end.completed_at)
        await context.runners.revise(installation.id, {job.runner_id: fold})
    await context.demand.record(installation.id, [job._replace(status="over")], now=context.clock())
