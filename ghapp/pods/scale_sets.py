"""Finds scale sets that create too many runners, because the demand that GitHub reports to ARC is inflated. Pure.

ARC wants `minRunners` and a runner for each assigned job. The number of assigned jobs is the Actions service's own
statistic (`TotalAssignedJobs`), and after an incident it may count jobs for good that are long over: ARC #4397, 34
assigned jobs with 19 running ones. ARC deletes idle runners within seconds once it wants fewer. So runners that stay
idle for long, beyond `minRunners` and the jobs that wait, while the set wants that many, show the inflated number.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from typing import NamedTuple

from ghapp.pods.phantom_kinds import ADVICE, Phantom, PhantomKind, PhantomReason, is_assigned
from ghapp.pods.pod import EphemeralRunner, is_in
from ghapp.runners.evidence import Survey, covered_seconds
from ghapp.workflow_jobs.job import Job, is_over

IDLE_SECONDS = 600.0
"""A runner without a job for this long is not about to get one: GitHub assigns a waiting job within seconds."""

ANY = ""
"""Stands for the labels of a job without labels, which any set may get."""

WAITING_PHASES = frozenset({"Pending", "Running"})


class ScaleSet(NamedTuple):
    """An AutoscalingRunnerSet, and what its EphemeralRunnerSets want. Fields are only ever appended.

    Attributes:
        name: of the object; EphemeralRunners have it as a label.
        label: the scale set's name at GitHub, which jobs name in `runs-on`.
        min_runners: runners that are kept without a job.
        replicas: runners that it wants now, from its listener.
    """

    namespace: str
    name: str
    label: str
    min_runners: int
    replicas: int


def inflated_demand(
    org: str,
    scale_sets: Iterable[ScaleSet],
    objects: Iterable[EphemeralRunner],
    jobs: Collection[Job],
    survey: Survey,
    now: float,
    ahead: float = 0.0,
) -> list[Phantom]:
    """Returns a phantom for each scale set of the org that wants more runners than its jobs and `minRunners` need.

    Args:
        org: login of the org.
        scale_sets: the sets of one namespace.
        objects: all EphemeralRunners of that namespace.
        jobs: all unfinished jobs of the org, known in time; those that wait for an approval count, too.
        survey: results of the last sweeps: time in which GitHub does not answer is not idle time.
        now: time of the check.
        ahead: seconds by which the cluster's clock is ahead of ours.
    """
    by_set: defaultdict[str, list[EphemeralRunner]] = defaultdict(list)
    for each in objects:
        if is_in(org, each.org):
            by_set[each.scale_set].append(each)
    queued, running = (_by_label(jobs, status, now) for status in ("queued", "running"))
    found = []
    for scale_set in scale_sets:
        own = by_set[scale_set.name]
        long_idle = sum(covered_seconds(survey, each.created_at - ahead, now) >= IDLE_SECONDS for each in _idle(own))
        assigned = sum(is_assigned(each) for each in own)
        unnamed = max(0, _count(running, scale_set) - assigned)  # of an ARC whose objects name no job
        needed = scale_set.min_runners + _count(queued, scale_set) + unnamed
        excess = min(long_idle - needed, scale_set.replicas - assigned - needed)
        if excess > 0:
            reason = PhantomReason.DEMAND_INFLATED
            detail = f"at least {_rough(excess)} more than its jobs and minRunners need"
            phantom = Phantom(PhantomKind.DEMAND_INFLATED, scale_set.name, reason, ADVICE[reason])
            found.append(phantom._replace(scale_set=scale_set.name, namespace=scale_set.namespace, detail=detail))
    return found


def _idle(own: Iterable[EphemeralRunner]) -> list[EphemeralRunner]:
    free = [each for each in own if not is_assigned(each) and each.deleting_since is None]
    return [each for each in free if each.phase in WAITING_PHASES]


def _by_label(jobs: Iterable[Job], status: str, now: float) -> Counter[str]:
    """Counts jobs by each of their labels, in lower case; those of a runner group, which have none, by `ANY`."""
    counts: Counter[str] = Counter()
    for job in jobs:
        if job.status == status and not is_over(job, now):
            counts.update({label.lower() for label in job.labels} or {ANY})
    return counts


def _count(counts: Counter[str], scale_set: ScaleSet) -> int:
    """Returns how many of the counted jobs may be the set's."""
    return counts[scale_set.label.lower()] + counts[ANY]


def _rough(count: int) -> int:
    """Rounds down to 1, 2, 5, 10, …, so that a report changes only when much does."""
    power = 1
    while power * 10 <= count:
        power *= 10
    return next(step * power for step in (5, 2, 1) if step * power <= count)
