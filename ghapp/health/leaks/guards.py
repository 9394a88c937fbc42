"""Is this stamped pod nobody's: bears the owner label, no live claim backs it, and nothing says that it is at work.

"Stamped and unclaimed is a leak" was believed elsewhere, and killed live jobs within days: a claim can be gone while
the job runs. So a pod must stay unclaimed, and more than claims can speak for it. `jobs.leaks.reap` reads, in the
order that guard 1 wants, and deletes what is returned, on the condition of the pods' uids and versions. Pure; times are
epoch seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from ghapp.health.leaks.fuse_limit import held_back
from ghapp.health.leaks.runner_activity import RunnerActivity
from ghapp.health.leaks.tick import FuseView, Guard, LeakLimits, TickInputs, TickMemory, TickResult
from ghapp.health.pods.pod import ARC_KIND, Pod, lasted
from ghapp.health.pods.pod_claim import claim_on

__all__ = [
    "TERMINAL_SECONDS",
    "FuseView",
    "Guard",
    "LeakLimits",
    "TickInputs",
    "TickMemory",
    "TickResult",
    "has_started",
    "leaks",
]

TERMINAL_SECONDS = 900.0
"""A job that has been over for this long shields nobody."""

FINAL_PHASES = ("Succeeded", "Failed")
"""Of a pod none of whose containers runs, or will run again."""

MOST_GAP_SECONDS = 150.0
"""Between two good looks. After a longer gap nobody knows whether a pod was claimed meanwhile."""


def leaks(look: TickInputs, now: float, limits: LeakLimits, memory: TickMemory) -> TickResult:
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
       word that it is busy or online is believed of every container but one that has ended for good.
    8. A job that has been over for `TERMINAL_SECONDS` overrules 5 to 7 and 13 to 17, for they kept leaks for hours:
       the runner's latest, in this very run of its container, and only where GitHub says that the runner is ephemeral,
       or its container has ended.
    9. At most `per_tick`, oldest first; the others are deferred, and reported.
    10. The kill switch: `off` judges nothing, `dry-run` only tells.
    11. A pod that is being deleted already is left alone, and so is one of ARC's: ARC would start it again.
    12. It is a runner's pod: it has a container called `runner`, or GitHub, a delivery or a claim once knew its name.
        The label may mean something else in that namespace.
    13. Registered is not gone. While GitHub shows a registration of its runner, online or offline, the pod is kept,
        unless its container has ended. Only a pool that sets `replace_offline_after_seconds` gives up a registered
        runner, when it has been offline for longer than that.
    14. An unknown name is not idle. A pod whose container may run is kept until GitHub has shown a registration of its
        runner's name since the container started. Without that, the runner may be registered under another name, or
        with a repository, which no list shows; and it may be busy. A controller's claim says which name to look for.
    15. A container that never started is not a leak: the pod waits for a node, a volume or an image.
    16. Time and absence count only while GitHub can be seen: nothing is reaped while its last complete list is older
        than `stale_seconds`, or sweeps fail. A list without any runner proves the absence of none whose container may
        run, and a registration must have been gone for `grace_seconds` of time that complete lists cover.
    17. A runner that was busy when GitHub last showed it, and the end of whose job is not known, may be working.
    18. Its deletions count for the fuse. When the leaks of a pool, or of the installation, together with what was
        reaped there within the fuse's window, reach the fuse's threshold, at most `first_batch` are reaped within a
        window. While the fuse of the pool or of the installation is not closed, none is. The others are reported.

    A container has ended for good when its pod's phase is final, or when it has stood terminated for `grace_seconds`:
    one that updated itself is started again before that.
    """
    if limits.mode == "off":
        return TickResult(skipped=Guard.OFF)
    stamped = [pod for pod in look.pods if limits.owner_label in pod.labels]
    claims = len({id(claim) for claim in look.claims.values() if claim.is_live(now)})
    claims += sum(each.running for each in look.runners.values())
    if flaw := _flaw(look, now, memory, pods=len(stamped), claims=claims):
        counted = memory if flaw is not Guard.READ_EMPTY else memory._replace(pods=len(stamped), claims=claims)
        return TickResult(memory=counted, skipped=flaw)
    is_whole = memory.at is not None and 0.0 <= now - memory.at <= MOST_GAP_SECONDS
    before, there_before = (memory.since, memory.since_there) if is_whole else ({}, {})
    names = {pod.uid: _runner_name(pod, look, memory) for pod in stamped}
    runners = {uid: look.runners.get(name, RunnerActivity()) for uid, name in names.items()}
    unclaimed = [pod for pod in stamped if not _is_claimed(pod, runners[pod.uid], look, now)]
    since = {pod.uid: before.get(pod.uid, now) for pod in unclaimed}
    there = {pod.uid: there_before.get(pod.uid, pod.read_at) for pod in unclaimed if pod.read_at is not None}
    alone = {pod.uid: min(now - since[pod.uid], lasted(there.get(pod.uid, 0.0), pod.read_at)) for pod in unclaimed}
    ours = frozenset(pod.uid for pod in stamped if _is_runners(pod, runners[pod.uid], look, memory))
    named = _named(names, runners, memory)
    judged = dict[str, Guard | None]()
    for pod in stamped:
        runner, started_at = runners[pod.uid], _started_at(pod, now)
        seen_at = max(named.get(pod.uid, 0.0), runner.seen_at or 0.0)
        told = _Told(pod, runner, alone.get(pod.uid), is_named=seen_at >= started_at)
        judged[pod.uid] = _others_business(pod, ours) or _guard(told, look, now, limits)
    oldest = sorted(stamped, key=lambda pod: (pod.created_at, pod.uid))
    found = [pod for pod in oldest if judged[pod.uid] is None]
    likely = [pod for pod in oldest if judged[pod.uid] is Guard.GITHUB_UNKNOWN and pod.uid in look.unasked]
    there_now = [pod for pod in stamped if pod.uid in ours and pod.deleting_since is None]
    held = held_back([*found, *likely], there_now, look.fuse)
    free = [pod for pod in found if pod.uid not in held]
    chosen = tuple(free[: limits.per_tick])
    is_leak = {pod.uid for pod in (*found, *likely)}
    return TickResult(
        reap=chosen if limits.mode == "act" else (),
        told=chosen if limits.mode == "dry-run" else (),
        deferred=(*free[limits.per_tick :], *(pod for pod in likely if pod.uid not in held)),
        kept=tuple(
            (pod, guard) for pod in stamped if (guard := judged[pod.uid]) is not None and pod.uid not in is_leak
        ),
        memory=TickMemory(since, len(stamped), claims, now, names, there, ours, named),
        held=tuple((pod, held[pod.uid]) for pod in oldest if pod.uid in held),
    )


def _flaw(look: TickInputs, now: float, memory: TickMemory, *, pods: int, claims: int) -> Guard | None:
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


class _Told(NamedTuple):
    """One pod and what speaks for it. `unclaimed_for` is None for a claimed one (seconds)."""

    pod: Pod
    runner: RunnerActivity
    unclaimed_for: float | None
    is_named: bool


def _guard(told: _Told, look: TickInputs, now: float, limits: LeakLimits) -> Guard | None:
    """Guards 3 to 8 and 13 to 17: what keeps this pod; None for a leak."""
    if told.unclaimed_for is None:
        return Guard.CLAIMED
    if told.pod.age < limits.grace_seconds:
        return Guard.WITHIN_GRACE
    if told.unclaimed_for < limits.grace_seconds:
        return Guard.UNCLAIMED_BRIEFLY
    if not has_started(told.pod):
        return Guard.NEVER_STARTED
    if look.github_stale:
        return Guard.GITHUB_STALE
    if _is_long_over(told, now, limits):
        return None
    return _shield(told, look, limits)


def _shield(told: _Told, look: TickInputs, limits: LeakLimits) -> Guard | None:
    """Guards 5 to 7, 13, 14, 16 and 17."""
    pod, runner, has_ended = told.pod, told.runner, _has_ended(told.pod, limits)
    if runner.running:
        return Guard.JOB_BY_DELIVERY
    if pod.container_age is not None and pod.container_age < limits.grace_seconds:
        return Guard.JUST_STARTED
    if not has_ended and not told.is_named:
        return Guard.UNNAMED
    if runner.has_session is None:
        return Guard.GITHUB_UNKNOWN
    if has_ended:
        return None
    if runner.has_session:
        return Guard.SESSION_OPEN
    if runner.registered:
        return None if runner.offline_too_long else Guard.REGISTERED
    if look.list_empty:
        return Guard.LIST_EMPTY
    if runner.absent_seconds is not None and runner.absent_seconds < limits.grace_seconds:
        return Guard.ABSENT_BRIEFLY
    return Guard.BUSY_WHEN_LAST_SEEN if runner.last_busy else None


def has_started(pod: Pod) -> bool:
    """Whether its runner's container ever ran, as far as the kubelet has told; a pod whose phase is final waits not."""
    runner = pod.runner
    has_run = runner is not None and (runner.running_since is not None or runner.restarts > 0)
    return has_run or pod.ended is not None or pod.phase in FINAL_PHASES


def _has_ended(pod: Pod, limits: LeakLimits) -> bool:
    """Whether its runner's container has ended, and is not started again."""
    if pod.phase in FINAL_PHASES:
        return True
    ended = None if pod.runner is None else pod.runner.ended
    if ended is None:
        return False
    return ended.finished_at is None or lasted(ended.finished_at, pod.read_at) >= limits.grace_seconds


def _is_long_over(told: _Told, now: float, limits: LeakLimits) -> bool:
    """Guard 8. A job that ended before the container started, by either clock, was another's, of the same name."""
    pod, over_at = told.pod, told.runner.over_at
    if over_at is None or over_at < _started_at(pod, now) or now - over_at < TERMINAL_SECONDS:
        return False
    return told.runner.ephemeral is True or (told.runner.ephemeral is None and _has_ended(pod, limits))


def _started_at(pod: Pod, now: float) -> float:
    """When its container started, or else its pod was made, by our clock or the cluster's, whichever is later."""
    made_at = max(pod.created_at, now - pod.age)
    if pod.runner is None or pod.runner.running_since is None or pod.container_age is None:
        return made_at
    return max(made_at, pod.runner.running_since, now - pod.container_age)


def _named(names: Mapping[str, str], runners: Mapping[str, RunnerActivity], memory: TickMemory) -> dict[str, float]:
    """When GitHub last showed a registration of each pod's runner's name, now or at an earlier tick.

    One that may be working on a job of which nothing tells (guard 17) is not named any more: when its record is
    forgotten, its pod is kept as one whose runner nobody knows.
    """
    named = dict[str, float]()
    for uid, name in names.items():
        before = memory.named.get(uid) if memory.names.get(uid) == name else None
        times = [at for at in (before, runners[uid].seen_at) if at is not None]
        if times and not runners[uid].last_busy:
            named[uid] = max(times)
    return named


def _is_runners(pod: Pod, runner: RunnerActivity, look: TickInputs, memory: TickMemory) -> bool:
    """Guard 12."""
    return pod.is_runners or pod.uid in memory.runners or runner.is_known or pod.name in look.claims


def _is_claimed(pod: Pod, runner: RunnerActivity, look: TickInputs, now: float) -> bool:
    """Whether a controller's claim holds it, or a job that began and is not known to be over."""
    return claim_on(look.claims, pod.name, now) is not None or (runner.running and runner.over_at is None)


def _runner_name(pod: Pod, look: TickInputs, memory: TickMemory) -> str:
    """What its runner is called: as the pod is, unless its controller said otherwise, now or before."""
    claim = look.claims.get(pod.name)
    if claim is not None and claim.pod == pod.name:
        return claim.runner_name
    return memory.names.get(pod.uid, pod.name)
