"""Histograms of how long jobs waited and ran, by org, pool and shard, from the deliveries of their start and end.

A delivery has one effect, so each start and each end is counted once; without its delivery it is not counted. Only
configured pools have a label of their own: labels of jobs and runners could make any number of series.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from ghapp.gate.shard_status import shard_of
from ghapp.incidents.history import pool_of_job
from ghapp.installations.installation import Installation
from ghapp.installations.pool_matching import rule_named
from ghapp.runners.evidence import Evidence
from ghapp.settings import PoolSettings
from ghapp.store.metric_counters import CounterBatch
from ghapp.workflow_jobs.job import Job, configured_pool, was_hosted
from ghapp.workflow_jobs.metrics import QUEUE_SECONDS, RUN_SECONDS
from jobs.context import JobContext


def taken_jobs(jobs: Iterable[Job]) -> list[Job]:
    """Returns the jobs that a self-hosted runner took."""
    return [job for job in jobs if job.runner_id is not None and job.started_at is not None and not was_hosted(job)]


async def count_job_times(
    context: JobContext,
    installation: Installation,
    taken: Iterable[Job],
    runners: Mapping[int, Evidence],
    counters: CounterBatch,
) -> None:
    """Counts the waits of jobs that started, and the durations of jobs that ended.

    Args:
        context: the stores.
        installation: of the jobs.
        taken: by `taken_jobs`.
        runners: the records of their runners, by id.
        counters: what is counted is added to it.
    """
    rules = context.settings.pools_of(installation.org)
    waits: dict[tuple[str, str], list[float]] = defaultdict(list)
    runs: dict[tuple[str, str], list[float]] = defaultdict(list)
    for job in taken:
        runner, started_at = runners.get(job.runner_id or 0), job.started_at or 0.0
        pool = configured_pool(job, runner, rules)
        place = pool, "" if runner is None else shard_of(runner, rule_named(pool, rules)) or ""
        if job.status == "running":
            waits[place].append(max(0.0, started_at - job.queued_at))
        elif job.ended_at is not None:
            runs[place].append(max(0.0, job.ended_at - started_at))
    for place, values in waits.items():
        labels = await pool_labels(context, installation, *place)
        counters.observe(QUEUE_SECONDS, values, **labels)
    for place, values in runs.items():
        labels = await pool_labels(context, installation, *place)
        counters.observe(RUN_SECONDS, values, **labels)


def history_pools(
    taken: Iterable[Job], runners: Mapping[int, Evidence], rules: Sequence[PoolSettings]
) -> dict[int, str]:
    """Returns the pools under which the history counts these jobs, by job id; see `Demand.record`."""
    return {job.id: pool_of_job(job, runners.get(job.runner_id or 0), rules) for job in taken}


async def pool_labels(context: JobContext, installation: Installation, pool: str, shard: str) -> dict[str, str]:
    """Returns the labels of a histogram's series; `shard` is empty for a pool without shards, and left out then."""
    labels = {"org": installation.org, "pool": pool}
    if not shard:
        return labels
    return {**labels, "shard": await context.counters.shard_label(installation.id, pool, shard.lower())}
