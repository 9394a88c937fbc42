"""Histogram of how long healing takes: from the loss of a runner to its successor online, by org, pool and shard."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from ghapp.gate.shard_status import shard_of
from ghapp.installations.installation import Installation
from ghapp.installations.pool_matching import metric_pool, rule_named, runner_pool
from ghapp.remediation.successors import heals
from ghapp.report.metrics import HEAL_SECONDS
from ghapp.runners.evidence import Evidence
from ghapp.runners.observations import succeeded_by, succeeding
from jobs.context import JobContext
from jobs.history.job_times import pool_labels


async def count_heals(
    context: JobContext, installation: Installation, runners: Collection[Evidence], now: float
) -> dict[int, Evidence]:
    """Counts each loss once, when its successor was first observed online; returns the records that it changed."""
    if not any(each.replaced_at is not None and each.successor is None for each in runners):
        return {}
    rules = context.settings.pools_of(installation.org)
    by_pool: dict[str, list[Evidence]] = defaultdict(list)
    changed: dict[int, Evidence] = {}
    for each in runners:
        by_pool[runner_pool(each, rules)].append(each)
    for pool, members in by_pool.items():
        found = heals(members, now)
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
