"""Histograms of how long jobs waited and ran, and of how long healing took, by org, pool and shard.

A job's times are those of the deliveries of its start and end; healing lasts from the loss of a runner to its successor
online. A delivery has one effect, so each start and each end is counted once; without its delivery it is not counted.
Only configured pools have a label of their own: labels of jobs and runners could make any number of series.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from ghapp.gate.shard_status import shard_of
from ghapp.incidents.history import pool_of_job
from ghapp.installations.installation import Installation
from ghapp.installations.pool_matching import metric_pool, rule_named, runner_pool
from ghapp.remediation.healing import heals, hidden_successors, may_be_succeeded
from ghapp.report.metrics import HEAL_SECONDS
from ghapp.runners.evidence import Evidence, Survey
from ghapp.runners.observations import succeeded_by, succeeding, successor_hidden
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


async def count_heals(
    context: JobContext, installation: Installation, runners: Collection[Evidence], survey: Survey, now: float
) -> dict[int, Evidence]:
    """Counts each loss once, when its successor was first observed online, and ends those whose successors are hidden.

    Returns:
        The records that it changed.
    """
    if not any(may_be_succeeded(each, now) for each in runners):
        return {}
    rules = context.settings.pools_of(installation.org)
    by_pool: dict[str, list[Evidence]] = defaultdict(list)
    changed: dict[int, Evidence] = {}
    for each in runners:
        by_pool[runner_pool(each, rules)].append(each)
    for pool, members in by_pool.items():
        found = heals(members, now)
        hidden = {} if found else {each: successor_hidden(now) for each in hidden_successors(members, survey, now)}
        if hidden:
            changed |= await context.runners.revise(installation.id, hidden)
        if not found:
            continue
        folds = {each.lost: succeeded_by(each.successor, each.at) for each in found}
        folds |= {each.successor: succeeding(each.lost) for each in found}
        changed |= await context.runners.revise(installation.id, folds)
        rule, lost = rule_named(pool, rules), {each.id: each for each in members}
        seconds: dict[str, list[float]] = defaultdict(list)
        for heal in found:
            seconds[shard_of(lost[heal.lost], rule) or ""].append(heal.seconds)
        for shard, values in seconds.items():
            labels = await pool_labels(context, installation, metric_pool(pool, rules), shard)
            await context.counters.observe(HEAL_SECONDS, values, **labels)
    return changed
