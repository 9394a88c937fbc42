"""Demand on the pools, from GitHub's side: jobs queued and running, and jobs that no online runner can take.

GitHub sends deliveries for jobs on GitHub-hosted runners, too. Once such a job has started, its runner group shows
that. A queued job is ignored if its labels request a GitHub-hosted image, not `self-hosted`, and no known runner could
take it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from ghapp.health.job import Job, asks_for_hosted, is_over
from ghapp.health.pods.phantom_kinds import is_assigned
from ghapp.health.pods.pod import EphemeralRunner
from ghapp.health.pool_matching import PoolRule, ScaledRule, pool_of

NONE_ASSIGNED: Mapping[str, int] = MappingProxyType({})


class UnservedReason(StrEnum):
    """Why no online runner can take a queued job."""

    NO_RUNNER_WITH_LABELS = "NoRunnerWithLabels"
    RUNNERS_OFFLINE = "RunnersOffline"


class AvailableRunner(NamedTuple):
    """A runner that may take jobs."""

    pool: str
    labels: tuple[str, ...]
    online: bool
    busy: bool


@dataclass(frozen=True, slots=True)
class PoolDemand:
    """A pool's jobs and runners. `assigned` is ARC's own count; None without a cluster."""

    pool: str
    queued: int
    running: int
    online: int
    idle: int
    assigned: int | None = None


@dataclass(frozen=True, slots=True)
class UnservedJob:
    """A queued job that no online runner can take, and why."""

    job: Job
    reason: UnservedReason


def demand(
    jobs: Iterable[Job],
    runners: Sequence[AvailableRunner],
    rules: Sequence[PoolRule],
    now: float,
    assigned: Mapping[str, int] = NONE_ASSIGNED,
) -> tuple[list[PoolDemand], list[UnservedJob]]:
    """Counts jobs and runners by pool. Pools are sorted by name, unserved jobs by age.

    `assigned` is from `assigned_by_pool`: a pool known only from the cluster is counted, too.
    """
    pools = {runner.pool for runner in runners} | assigned.keys()
    pool_labels = _labels_by_pool(runners)
    queued: Counter[str] = Counter()
    running: Counter[str] = Counter()
    unserved: list[UnservedJob] = []
    for job in jobs:
        if is_over(job, now):
            continue
        pool, reason = _served_by(job, pool_labels, rules)
        if reason is UnservedReason.NO_RUNNER_WITH_LABELS and asks_for_hosted(job):
            continue
        pools.add(pool)
        if job.status == "running":
            running[pool] += 1
            continue
        queued[pool] += 1
        if reason is not None:
            unserved.append(UnservedJob(job, reason))
    online = Counter(runner.pool for runner in runners if runner.online)
    idle = Counter(runner.pool for runner in runners if runner.online and not runner.busy)
    rows = [
        PoolDemand(pool, queued[pool], running[pool], online[pool], idle[pool], assigned.get(pool))
        for pool in sorted(pools)
    ]
    return rows, sorted(unserved, key=lambda row: (row.job.queued_at, row.job.id))


def assigned_by_pool(
    org: str, objects: Mapping[str, Iterable[EphemeralRunner]], rules: Sequence[ScaledRule]
) -> dict[str, int]:
    """Returns the number of jobs that ARC counts as assigned, by pool: for ARC's pools, and others that have any.

    A count above the pool's running jobs is inflated by failed objects that still name a job.

    A namespace of one pool belongs to it alone. If several pools share one, an object's scale set selects the pool:
    ARC's runners have the scale set's name as their label.

    Args:
        org: login of the org; objects of other orgs are not counted.
        objects: ARC's objects by namespace, from fresh views only.
        rules: the org's configured pools.
    """
    counted: dict[str, int] = {}
    for namespace, found in objects.items():
        sharing = [rule for rule in rules if rule.namespace == namespace]
        counted |= {rule.name: counted.get(rule.name, 0) for rule in sharing if rule.replacer == "arc"}
        for each in found:
            if each.org and each.org.lower() != org.lower():
                continue
            pool = _pool_of_object(each, sharing)
            if pool is not None:
                counted[pool] = counted.get(pool, 0) + is_assigned(each)
    return counted


def _pool_of_object(found: EphemeralRunner, sharing: Sequence[ScaledRule]) -> str | None:
    if len(sharing) == 1:
        return sharing[0].name
    pool = pool_of([found.scale_set], [found.scale_set], sharing)
    return pool if any(rule.name == pool for rule in sharing) else None


def _labels_by_pool(runners: Iterable[AvailableRunner]) -> dict[tuple[str, frozenset[str]], bool]:
    """Returns each distinct (pool, lower-cased labels), and whether any of its runners is online."""
    spelled: dict[tuple[str, tuple[str, ...]], bool] = {}
    for runner in runners:
        key = (runner.pool, runner.labels)
        spelled[key] = spelled.get(key, False) or runner.online
    found: dict[tuple[str, frozenset[str]], bool] = {}
    for (pool, labels), online in spelled.items():
        folded = (pool, frozenset(label.lower() for label in labels))
        found[folded] = found.get(folded, False) or online
    return found


def _served_by(
    job: Job, pools: dict[tuple[str, frozenset[str]], bool], rules: Sequence[PoolRule]
) -> tuple[str, UnservedReason | None]:
    wanted = {label.lower() for label in job.labels}
    able = [(online, pool) for (pool, labels), online in pools.items() if wanted <= labels]
    if not able:
        custom = [label for label in job.labels if label.lower() != "self-hosted"]
        return pool_of(job.labels, custom, rules), UnservedReason.NO_RUNNER_WITH_LABELS
    online, pool = max(able, key=lambda row: row[0])
    return pool, None if online else UnservedReason.RUNNERS_OFFLINE
