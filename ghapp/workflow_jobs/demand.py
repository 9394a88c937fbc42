"""Demand on the pools, from GitHub's side: jobs queued and running, and jobs that no online runner can take.

GitHub sends deliveries for jobs on GitHub-hosted runners, too. Once such a job has started, its runner group shows
that. A queued job is ignored if its labels request a GitHub-hosted image, not `self-hosted`, and no known runner could
take it, and if it has no labels. A job that GitHub holds back, as for an approval, is not demand yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ghapp.installations.pool_matching import ScaledRule, pool_of, rule_named
from ghapp.pods.phantom_kinds import is_assigned
from ghapp.pods.pod import EphemeralRunner, is_in
from ghapp.remediation.job_proof import KnownJob, KnownJobs
from ghapp.workflow_jobs.job import Job, is_over
from ghapp.workflow_jobs.job_queue import JobQueue
from ghapp.workflow_jobs.reason import QueueReason

NO_POOL = "no pool"
"""Instead of the name of a pool, for jobs whose labels no pool has."""

NONE_ASSIGNED: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class PoolDemand:
    """A pool's jobs and runners.

    Attributes:
        pool: its name; empty for jobs whose labels no pool has.
        queued: number of queued jobs.
        running: number of running jobs.
        online: number of online runners.
        idle: of these, the ones without a job.
        assigned: number of ARC's objects that name a job; None without a cluster.
        unserved: queued jobs that no online runner can take.
        oldest_queued_at: when the oldest queued job was queued (epoch seconds); None if none is queued.
    """

    pool: str
    queued: int
    running: int
    online: int
    idle: int
    assigned: int | None = None
    unserved: int = 0
    oldest_queued_at: float | None = None

    @property
    def shown_name(self) -> str:
        """The pool's name for people."""
        return self.pool or NO_POOL


@dataclass(frozen=True, slots=True)
class UnservedJob:
    """A queued job that no online runner can take.

    Attributes:
        job: the job.
        reason: why.
        pool: that it waits for; empty if no pool has its labels.
        meant_label: of a runner or a pool, if its workflow probably misspelt it; else empty.
    """

    job: Job
    reason: QueueReason
    pool: str
    meant_label: str = ""


def demand(
    queue: JobQueue,
    assigned: Mapping[str, int] = NONE_ASSIGNED,
    pool_name: Callable[[Job], str] | None = None,
) -> tuple[list[PoolDemand], list[UnservedJob]]:
    """Counts jobs and runners by pool. Pools are sorted by name, unserved jobs by age.

    Args:
        queue: the jobs and runners.
        assigned: from `assigned_by_pool`: a pool known only from the cluster is counted, too.
        pool_name: returns the pool of a job (default: its existing pool; all other jobs are counted together).
    """
    name = pool_name or queue.existing_pool
    running: Counter[str] = Counter()
    queued: dict[str, list[float]] = {}
    for job in queue.inputs.jobs:
        if is_over(job, queue.now) or not queue.is_ours(job) or job.waiting:
            continue
        if job.status == "running":
            running[name(job)] += 1
        else:
            queued.setdefault(name(job), []).append(job.queued_at)
    unserved = [UnservedJob(job, reason, name(job), queue.meant_label(job)) for job, reason in queue.unserved()]
    without_runner = Counter(each.pool for each in unserved)
    online, idle = (Counter[str](), Counter[str]())
    for each in queue.capacities:
        online[each.pool] += each.online
        idle[each.pool] += each.idle
    pools = {each.pool for each in queue.capacities} | assigned.keys() | running.keys() | queued.keys()
    rows = [
        PoolDemand(
            pool=pool,
            queued=len(queued.get(pool, ())),
            running=running[pool],
            online=online[pool],
            idle=idle[pool],
            assigned=assigned.get(pool),
            unserved=without_runner[pool],
            oldest_queued_at=min(queued.get(pool, ()), default=None),
        )
        for pool in sorted(pools, key=lambda each: (not each, each))
    ]
    return rows, unserved


def known_jobs(jobs: Iterable[Job], now: float) -> KnownJobs:
    """Returns the jobs that wait for a self-hosted runner, and those that one took, as remediation counts them.

    A job that GitHub holds back, as for an approval, waits for no runner, and one without labels for a runner group
    that may be GitHub's own. A date in the future is no date: such a job overtakes none.
    """
    queued, taken = list[KnownJob](), list[KnownJob]()
    for job in jobs:
        labels = frozenset(label.lower() for label in job.labels)
        found = KnownJob(labels, job.queued_at, job.repository, job.runner_id, job.started_at)
        if job.status == "queued" and labels and not job.waiting and not is_over(job, now):
            queued.append(found._replace(runner_id=None, started_at=None))
        elif job.runner_id is not None and job.queued_at <= now:
            taken.append(found)
    return KnownJobs(queued, taken)


def assigned_by_pool(
    org: str, objects: Mapping[str, Iterable[EphemeralRunner]], rules: Sequence[ScaledRule]
) -> dict[str, int]:
    """Returns the number of ARC's objects that name a job, by pool: for ARC's pools, and others that have any.

    A count above the pool's running jobs has failed objects that still name a job. It is not the number of assigned
    jobs that GitHub reports to ARC, which no object shows.

    A namespace of one pool belongs to it alone. If several pools share one, an object's scale set selects the pool:
    ARC's runners have the scale set's name as their label.

    Args:
        org: name of the org or another scope; objects of others are not counted.
        objects: ARC's objects by namespace, from fresh views only.
        rules: the org's configured pools.
    """
    counted: dict[str, int] = {}
    for namespace, found in objects.items():
        sharing = [rule for rule in rules if rule.namespace == namespace]
        counted |= {rule.name: counted.get(rule.name, 0) for rule in sharing if rule.replacer == "arc"}
        for each in found:
            if not is_in(org, each.org):
                continue
            pool = _pool_of_object(each, sharing)
            if pool is not None:
                counted[pool] = counted.get(pool, 0) + is_assigned(each)
    return counted


def _pool_of_object(found: EphemeralRunner, sharing: Sequence[ScaledRule]) -> str | None:
    if len(sharing) == 1:
        return sharing[0].name
    pool = pool_of([found.scale_set], [], sharing)
    rule = rule_named(pool, sharing) or rule_named(found.scale_set, sharing)
    return None if rule is None else rule.name
