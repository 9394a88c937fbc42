"""Finds scale sets that create too many runners, because the demand that GitHub reports to ARC is inflated. Pure.

ARC wants `minRunners` and a runner for each assigned job. The number of assigned jobs is the Actions service's own
statistic (`TotalAssignedJobs`), and after an incident it may count jobs for good that are long over: ARC #4397, 34
assigned jobs with 19 running ones. ARC deletes idle runners within seconds once it wants fewer. So runners that stay
idle for long, beyond `minRunners` and the jobs that wait, while the set wants that many, show the inflated number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from ghapp.health.job import Job, is_over
from ghapp.health.pods.phantom_kinds import ADVICE, Phantom, PhantomKind, PhantomReason, is_assigned
from ghapp.health.pods.pod import EphemeralRunner, is_in
from ghapp.health.runner.evidence import Survey, covered_seconds

IDLE_SECONDS = 600.0
"""A runner without a job for this long is not about to get one: GitHub assigns a waiting job within seconds."""

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
    objects: Collection[EphemeralRunner],
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
    found = []
    for scale_set in scale_sets:
        own = [each for each in objects if each.scale_set == scale_set.name and is_in(org, each.org)]
        long_idle = sum(covered_seconds(survey, each.created_at - ahead, now) >= IDLE_SECONDS for each in _idle(own))
        assigned = sum(is_assigned(each) for each in own)
        queued, running = _jobs_of(scale_set, jobs, now)
        needed = scale_set.min_runners + queued + max(0, running - assigned)
        excess = min(long_idle - needed, scale_set.replicas - assigned - needed)
        if excess > 0:
            reason = PhantomReason.DEMAND_INFLATED
            detail = f"at least {_rough(excess)} more than its jobs and minRunners need"
            phantom = Phantom(PhantomKind.DEMAND_INFLATED, scale_set.name, reason, ADVICE[reason])
            found.append(phantom._replace(scale_set=scale_set.name, namespace=scale_set.namespace, detail=detail))
    return found


def _idle(own: Collection[EphemeralRunner]) -> list[EphemeralRunner]:
    free = [each for each in own if not is_assigned(each) and each.deleting_since is None]
    return [each for each in free if each.phase in WAITING_PHASES]


def _jobs_of(scale_set: ScaleSet, jobs: Collection[Job], now: float) -> tuple[int, int]:
    """Returns how many queued and running jobs may be the set's: they name it, or no label, as jobs of a group do."""
    unfinished = [job for job in jobs if not is_over(job, now)]
    name = scale_set.label.lower()
    own = [job for job in unfinished if not job.labels or name in {label.lower() for label in job.labels}]
    return sum(job.status == "queued" for job in own), sum(job.status == "running" for job in own)


def _rough(count: int) -> int:
    """Rounds down to 1, 2, 5, 10, …, so that a report changes only when much does."""
    power = 1
    while power * 10 <= count:
        power *= 10
    return next(step * power for step in (5, 2, 1) if step * power <= count)
