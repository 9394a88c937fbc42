"""The context of a death: its runner's job, what GitHub reports about the job, and the logs around the end."""

from __future__ import annotations

from ghapp.deaths.cause import Cause
from ghapp.deaths.death import DeadJob, Death, is_of, with_context, with_more_lines
from ghapp.deaths.post_mortem import JobFacts, job_at_death, wants_lines
from ghapp.errors import PermissionMissingError
from ghapp.github.jobs import Jobs
from ghapp.installations.installation import Installation
from ghapp.installations.pacing import Purpose
from ghapp.installations.pool_matching import runner_pool
from ghapp.loki.client import LogStore
from ghapp.pods.degraded_sources import HOST_LINES, RUNNER_LINES
from jobs.context import JobContext


async def with_job(context: JobContext, installation: Installation, death: Death) -> Death:
    """Returns the death with its job, by the runner's id; a later runner of its name is another one.

    A job that is known already gives way to a later one of the same runner: the delivery of its start may be late.
    """
    known = death.job
    if known is not None and known.repository and (death.id or death.runner_id is None):
        return death
    runner_id = death.runner_id
    if runner_id is None:
        runner_id = (await context.runners.ids_of(installation.id, [death.runner_name])).get(death.runner_name)
    evidence = None if runner_id is None else (await context.runners.some(installation.id, [runner_id])).get(runner_id)
    if evidence is None or not is_of(death, evidence):
        return death
    death = death._replace(runner_id=evidence.id)
    if not death.pool and evidence.registered:  # deliveries alone lack the runner's labels
        pool = runner_pool(evidence, context.settings.pools_of(installation.org))
        death = death._replace(pool=pool)
    job_id = job_at_death(evidence, death)
    if job_id is None or (known is not None and known.repository and known.id == job_id):
        return death
    job = await context.demand.one(installation.id, job_id)
    found = DeadJob(job_id)
    if job is not None:  # only GitHub itself has the conclusion that the judgement rests on
        found = DeadJob(job_id, job.repository, job.name, job.head_sha, html_url=job.html_url, deploys=job.deploys)
    return death if job is None and known is not None else death._replace(job=found)


async def with_runner_lines(context: JobContext, death: Death) -> Death:
    """Returns the death with the runner's last log lines and the cause that they indicate.

    Lines that were recorded before stay if they are more.

    Raises:
        LogStoreUnavailableError: the log store does not answer.
    """
    url = context.settings.loki_url
    if url is None or not wants_lines(death):
        return death
    async with LogStore.open(url, context.left_out_rows) as logs:
        lines = await logs.runner_lines(death.namespace, death.pod, death.at)
    await context.degraded_sources.over(RUNNER_LINES)
    return with_more_lines(death, lines) if len(lines) >= len(death.runner_log) else death


async def with_host_lines(context: JobContext, death: Death) -> Death:
    """Returns the death with the log of its node around its end.

    Raises:
        LogStoreUnavailableError: the log store does not answer.
    """
    url = context.settings.loki_url
    if url is None or death.cause is Cause.CLEAN_EXIT:
        return death
    async with LogStore.open(url, context.left_out_rows) as logs:
        lines = await logs.host_lines(death.node, death.at)
    await context.degraded_sources.over(HOST_LINES)
    return with_context(death, death.job, lines or death.host_log)


async def facts_of(context: JobContext, installation: Installation, death: Death) -> JobFacts | None:
    """Returns the job as GitHub shows it; None if no job is known."""
    if death.cause is Cause.CLEAN_EXIT or death.job is None or not death.job.repository:
        return None
    if not installation.may("actions", "read"):
        raise PermissionMissingError("the installation has not granted actions: read", accepted="actions=read")
    installation_client = await context.installation_client(installation, Purpose.REPORT)
    return await Jobs(installation_client, death.job.repository).facts(death.job.id)


def with_facts(death: Death, facts: JobFacts) -> Death:
    """Returns the death with its job as GitHub shows it."""
    known = death.job or DeadJob(facts.id)
    return death._replace(
        job=known._replace(
            name=facts.name, head_sha=facts.head_sha, conclusion=facts.conclusion, html_url=facts.html_url
        )
    )
