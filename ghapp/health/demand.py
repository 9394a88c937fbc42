"""What is asked of the pools, from GitHub's side: jobs queued and running, and those nobody online can take.

GitHub tells of its own machines' jobs, too. Once such a job has a runner, its runner group says so. Before that its
labels must: a queued job that asks for one of GitHub's images, not for `self-hosted`, and that no runner known here
could take, is none of ours and is left out.
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
    """A runner that demand may be met by."""

    pool: str
    labels: tuple[str, ...]
    online: bool
    busy: bool


@dataclass(frozen=True, slots=True)
class PoolDemand:
    """A pool's jobs and runners. `assigned` is the cluster's own count, None where there is no cluster."""

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
    workers: Sequence[AvailableRunner],
    rules: Sequence[PoolRule],
    now: float,
    assigned: Mapping[str, int] = NONE_ASSIGNED,
) -> tuple[list[PoolDemand], list[UnservedJob]]:
    """Count jobs and runners by pool, pools in the order of their names, unserved jobs by age.

    `assigned` is from `assigned_by_pool`: a pool that the cluster alone knows of is counted, too.
    """
    pools = {worker.pool for worker in workers} | assigned.keys()
    pool_labels = _labels_by_pool(workers)
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
    online = Counter(worker.pool for worker in workers if worker.online)
    idle = Counter(worker.pool for worker in workers if worker.online and not worker.busy)
    rows = [
        PoolDemand(pool, queued[pool], running[pool], online[pool], idle[pool], assigned.get(pool))
        for pool in sorted(pools)
    ]
    return rows, sorted(unserved, key=lambda row: (row.job.queued_at, row.job.id))


def assigned_by_pool(
    org: str, objects: Mapping[str, Iterable[EphemeralRunner]], rules: Sequence[ScaledRule]
) -> dict[str, int]:
    """How many jobs ARC counts as assigned, by pool: those of ARC's pools, and others that have any.

    Above a pool's running jobs the count is inflated: failed objects that still name a job are in it.

    A namespace of one pool is all its own. Where several share one, an object's scale set says whose it is: ARC's
    runners bear its name as their label.

    Args:
        org: whose; an object that names another org is not counted.
        objects: ARC's objects by namespace, of fresh views alone.
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


def _labels_by_pool(workers: Iterable[AvailableRunner]) -> dict[tuple[str, frozenset[str]], bool]:
    """Each distinct (pool, lower-cased labels), and whether any runner of it is online."""
    seen: dict[tuple[str, tuple[str, ...]], bool] = {}
    for worker in workers:
        key = (worker.pool, worker.labels)
        seen[key] = seen.get(key, False) or worker.online
    found: dict[tuple[str, frozenset[str]], bool] = {}
    for (pool, labels), online in seen.items():
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
