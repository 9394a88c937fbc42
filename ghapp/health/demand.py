"""What is asked of the pools, from GitHub's side: jobs queued and running, and those nobody online can take.

GitHub tells of its own machines' jobs, too. Once such a job has a runner, its runner group says so. Before that its
labels must: a queued job that asks for one of GitHub's images, not for `self-hosted`, and that no runner known here
could take, is none of ours and is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

from ghapp.health.pools import PoolRule, pool_of

QUEUED_TOO_LONG_SECONDS = 24 * 3600.0
"""GitHub fails a job that nobody took for a day; a later word about it was lost."""

RUNNING_TOO_LONG_SECONDS = 5 * 24 * 3600.0
"""GitHub's longest job on a self-hosted runner."""


HOSTED_IMAGES = ("ubuntu-", "windows-", "macos-")
"""How the labels of GitHub's own machines begin."""


class Job(NamedTuple):
    """A workflow job as its deliveries told of it. Fields are only ever appended. Times are epoch seconds."""

    id: int
    status: Literal["queued", "running", "over"]
    labels: tuple[str, ...]
    repository: str
    queued_at: float
    runner_id: int | None = None
    runner_name: str | None = None
    started_at: float | None = None


class Unserved(StrEnum):
    """Why no online runner can take a queued job."""

    NO_RUNNER_WITH_LABELS = "NoRunnerWithLabels"
    RUNNERS_OFFLINE = "RunnersOffline"


class Worker(NamedTuple):
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
    reason: Unserved


def is_over(job: Job, now: float) -> bool:
    """Whether a job has ended, or must have: its last delivery was lost."""
    if job.status == "queued":
        return now - job.queued_at > QUEUED_TOO_LONG_SECONDS
    if job.status == "running":
        return now - (job.started_at or job.queued_at) > RUNNING_TOO_LONG_SECONDS
    return True


def asks_for_hosted(job: Job) -> bool:
    """Whether a job's labels name one of GitHub's own machines."""
    labels = [label.lower() for label in job.labels]
    return "self-hosted" not in labels and any(label.startswith(HOSTED_IMAGES) for label in labels)


def demand(
    jobs: Iterable[Job], workers: Sequence[Worker], rules: Sequence[PoolRule], now: float
) -> tuple[list[PoolDemand], list[UnservedJob]]:
    """Count jobs and runners by pool, pools in the order of their names, unserved jobs by age."""
    pools = {worker.pool for worker in workers}
    pool_labels = _labels_by_pool(workers)
    queued: Counter[str] = Counter()
    running: Counter[str] = Counter()
    unserved: list[UnservedJob] = []
    for job in jobs:
        if is_over(job, now):
            continue
        pool, reason = _served_by(job, pool_labels, rules)
        if reason is Unserved.NO_RUNNER_WITH_LABELS and asks_for_hosted(job):
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
    rows = [PoolDemand(pool, queued[pool], running[pool], online[pool], idle[pool]) for pool in sorted(pools)]
    return rows, sorted(unserved, key=lambda row: (row.job.queued_at, row.job.id))


def _labels_by_pool(workers: Iterable[Worker]) -> dict[tuple[str, frozenset[str]], bool]:
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
) -> tuple[str, Unserved | None]:
    wanted = {label.lower() for label in job.labels}
    able = [(online, pool) for (pool, labels), online in pools.items() if wanted <= labels]
    if not able:
        custom = [label for label in job.labels if label.lower() != "self-hosted"]
        return pool_of(job.labels, custom, rules), Unserved.NO_RUNNER_WITH_LABELS
    online, pool = max(able, key=lambda row: row[0])
    return pool, None if online else Unserved.RUNNERS_OFFLINE
