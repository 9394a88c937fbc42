"""Is this stamped pod nobody's: bears the owner label, no live claim backs it, and nothing says that it is at work.

"Stamped and unclaimed is a leak" was believed elsewhere, and killed live jobs within days: a claim can be gone while
the job runs. So a pod must stay unclaimed, and more than claims can speak for it. `jobs.reap` reads, in the order that
guard 1 wants, and deletes what is returned, on the condition of the pods' uids and versions. Pure; times are epoch
seconds.
"""

from __future__ import annotations

from collections.abc import Collection

from ghapp.health.cluster.pod import ARC_KIND, Pod, lasted
from ghapp.health.cluster.podclaim import claim_on
from ghapp.health.leaks.heard import Heard
from ghapp.health.leaks.reaping import Guard, LeakLimits, Look, Memory, Reaping

__all__ = ["TERMINAL_SECONDS", "Guard", "LeakLimits", "Look", "Memory", "Reaping", "leaks"]

TERMINAL_SECONDS = 900.0
"""A job that has been over for this long shields nobody."""

MOST_GAP_SECONDS = 150.0
"""Between two good looks. After a longer gap nobody knows whether a pod was claimed meanwhile."""


def leaks(look: Look, now: float, limits: LeakLimits, memory: Memory) -> Reaping:
    """Which stamped pods are nobody's. Each of these guards keeps one, or all.

    1. Pods are listed before claims are read: who is claimed between the two reads is not taken for unclaimed.
    2. Complete and fresh reads only. No pods, or no claims, where there were some a tick before: a bad read.
    3. The pod is older than `grace_seconds`, by the clock of the API server that also wrote when it was created.
    4. It has been unclaimed for that long without a gap: a claim that comes back starts its clock anew, and so does
       a gap of more than `MOST_GAP_SECONDS` between two good looks, or a clock that goes back. Both our clock and the
       cluster's must say so. Claims are those of controllers, while they last, and jobs that deliveries show in
       progress.
    5. No job of its runner is in progress by delivery.
    6. Nor by GitHub, and it has no session there: a runner that is online works, or may be given a job at any moment,
       however unclaimed its pod is. GitHub says so, and freshly: no answer is not "idle".
    7. The container agrees: one that started less than `grace_seconds` ago has had no time to be claimed, and GitHub's
       word that it is busy or online is believed of every container but one that has ended.
    8. A job that has been over for `TERMINAL_SECONDS` overrules 5 to 7, for they kept leaks for hours: the runner's
       latest, in this very pod, and not where the runner is known to take further jobs.
    9. At most `per_tick`, oldest first; the others are deferred, and reported.
    10. The kill switch: `off` judges nothing, `dry-run` only tells.
    11. A pod that is being deleted already is left alone, and so is one of ARC's: ARC would start it again.
    12. It is a runner's pod: it has a container called `runner`, or GitHub, a delivery or a claim once knew its name.
        The label may mean something else in that namespace.
    """
    if limits.mode == "off":
        return Reaping(skipped=Guard.OFF)
    stamped = [pod for pod in look.pods if limits.owner_label in pod.labels]
    claims = len({id(claim) for claim in look.claims.values() if claim.is_live(now)})
    claims += sum(each.running for each in look.runners.values())
    if flaw := _flaw(look, now, memory, pods=len(stamped), claims=claims):
        counted = memory if flaw is not Guard.READ_EMPTY else memory._replace(pods=len(stamped), claims=claims)
        return Reaping(memory=counted, skipped=flaw)
    is_whole = memory.at is not None and 0.0 <= now - memory.at <= MOST_GAP_SECONDS
    before, there_before = (memory.since, memory.since_there) if is_whole else ({}, {})
    names = {pod.uid: _runner_name(pod, look, memory) for pod in stamped}
    runners = {uid: look.runners.get(name, Heard()) for uid, name in names.items()}
    unclaimed = [pod for pod in stamped if not _is_claimed(pod, runners[pod.uid], look, now)]
    since = {pod.uid: before.get(pod.uid, now) for pod in unclaimed}
    there = {pod.uid: there_before.get(pod.uid, pod.read_at) for pod in unclaimed if pod.read_at is not None}
    alone = {pod.uid: min(now - since[pod.uid], lasted(there.get(pod.uid, 0.0), pod.read_at)) for pod in unclaimed}
    ours = frozenset(pod.uid for pod in stamped if _is_runners(pod, runners[pod.uid], look, memory))
    judged = [
        (pod, _others_business(pod, ours) or _guard(pod, runners[pod.uid], alone.get(pod.uid), now, limits))
        for pod in stamped
    ]
    found = sorted((pod for pod, guard in judged if guard is None), key=lambda pod: (pod.created_at, pod.uid))
    chosen = tuple(found[: limits.per_tick])
    return Reaping(
        reap=chosen if limits.mode == "act" else (),
        told=chosen if limits.mode == "dry-run" else (),
        deferred=tuple(found[limits.per_tick :]),
        kept=tuple((pod, guard) for pod, guard in judged if guard is not None),
        memory=Memory(since, len(stamped), claims, now, names, there, ours),
    )


def _flaw(look: Look, now: float, memory: Memory, *, pods: int, claims: int) -> Guard | None:
    """Guards 1 and 2: why nothing can be judged by this look."""
    if look.pods_at > look.claims_at:
        return Guard.CLAIMS_READ_FIRST
    if not look.complete:
        return Guard.READ_INCOMPLETE
    if now - look.pods_at > MOST_GAP_SECONDS:
        return Guard.READ_STALE
    is_emptied = (memory.pods > 0 and pods == 0) or (memory.claims > 0 and claims == 0)
    return Guard.READ_EMPTY if is_emptied else None


def _others_business(pod: Pod, runners: Collection[str]) -> Guard | None:
    """Guards 11 and 12."""
    if pod.deleting_since is not None:
        return Guard.DELETING
    if any(owner.kind == ARC_KIND for owner in pod.owners):
        return Guard.POD_OF_ARC
    return None if pod.uid in runners else Guard.NO_RUNNER


def _guard(pod: Pod, runner: Heard, unclaimed_for: float | None, now: float, limits: LeakLimits) -> Guard | None:
    """Guards 3 to 8: what keeps this pod; None for a leak. `unclaimed_for` is None for a claimed one."""
    if unclaimed_for is None:
        return Guard.CLAIMED
    if pod.age < limits.grace_seconds:
        return Guard.WITHIN_GRACE
    if unclaimed_for < limits.grace_seconds:
        return Guard.UNCLAIMED_BRIEFLY
    return None if _is_long_over(runner, pod, now) else _shield(pod, runner, limits)


def _shield(pod: Pod, runner: Heard, limits: LeakLimits) -> Guard | None:
    """Guards 5 to 7."""
    if runner.running:
        return Guard.JOB_BY_DELIVERY
    if runner.has_session is None:
        return Guard.GITHUB_UNKNOWN
    has_ended = pod.runner is not None and pod.runner.ended is not None
    if runner.has_session and not has_ended:
        return Guard.SESSION_OPEN
    if pod.container_age is not None and pod.container_age < limits.grace_seconds:
        return Guard.JUST_STARTED
    return None


def _is_long_over(runner: Heard, pod: Pod, now: float) -> bool:
    """Guard 8. A job that ended before the pod was made, by either clock, was another's, of the same name."""
    if runner.over_at is None or runner.ephemeral is False:
        return False
    made_at = max(pod.created_at, now - pod.age)
    return runner.over_at >= made_at and now - runner.over_at >= TERMINAL_SECONDS


def _is_runners(pod: Pod, runner: Heard, look: Look, memory: Memory) -> bool:
    """Guard 12."""
    return pod.is_runners or pod.uid in memory.runners or runner.is_known or pod.name in look.claims


def _is_claimed(pod: Pod, runner: Heard, look: Look, now: float) -> bool:
    """Whether a controller's claim holds it, or a job that began and is not known to be over."""
    return claim_on(look.claims, pod.name, now) is not None or (runner.running and runner.over_at is None)


def _runner_name(pod: Pod, look: Look, memory: Memory) -> str:
    """What its runner is called: as the pod is, unless its controller said otherwise, now or before."""
    claim = look.claims.get(pod.name)
    if claim is not None and claim.pod == pod.name:
        return claim.runner_name
    return memory.names.get(pod.uid, pod.name)
