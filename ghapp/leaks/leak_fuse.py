"""The reaper's fuse: of many leaks at once, a batch is deleted, and must prove that the judgement is right. Pure.

Many leaks at once are more likely a wrong judgement than real leaks: a network partition, a controller that lost its
claims, an update of all agents. A wrong judgement may cost at most the first batch. There is a fuse for each pool, and
one for the installation.

closed → proving   too many leaks, together with the pods reaped within the window
proving → proving  the batch is deleted, and proven: the next one is twice as large
proving → stopped  a deleted pod was in use (`StopReason`): the judgement is wrong, and an admin must investigate
proving → closed   no leak is left, and no deleted pod turned out to be in use for `prove_seconds`
stopped → proving  an admin resumed it
stopped → closed   no pod has looked like a leak for a window

Time counts only while complete lists cover it. Times are epoch seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from ghapp.leaks.runner_activity import RunnerActivity
from ghapp.pods.pod import Pod
from ghapp.remediation.fuse import FuseLimits, Position, threshold
from ghapp.runners.evidence import Survey, covered_seconds

PROVEN_SHARE = 0.4
"""The next batch begins after this share of `prove_seconds`: 120 s by default, in which GitHub notices that a runner
has lost its connection, and a new pod registers. So batches of 3, 6, 12 and 24 pods take ten minutes. Each pod that was
deleted since the fuse left `closed` is watched until it closes."""


class StopReason(StrEnum):
    """Why a batch of deletions was wrong."""

    NONE = ""
    RUNNER_RETURNED = "RunnerReturned"
    """GitHub or a delivery names the runner of a deleted pod since its deletion: the runner was in use."""
    RECREATED = "Recreated"
    """So it does, and a pod of that name exists again: a controller wants it."""
    UNREADABLE = "Unreadable"
    """The fuse's record cannot be read."""


class ReapedPod(NamedTuple):
    """A pod that the reaper deleted.

    Attributes:
        pool: its pool; empty if unknown.
        runner_name: its runner's name at GitHub.
        was_registered: GitHub listed that runner when the pod was deleted, offline.
        at: when the deletion was recorded.
        reason: why it was a leak, in a sentence.
    """

    uid: str
    pool: str
    namespace: str
    pod: str
    runner_name: str
    was_registered: bool
    at: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class LeakFuse:
    """The reaper's fuse of a pool, or of an installation.

    Attributes:
        position: closed, proving or stopped.
        since: deletions after this time count against `allowed`.
        batch: size of the current batch.
        allowed: number of deletions since `since` that all batches allow together.
        reason: why it is stopped.
        pod: `namespace/name` of the deleted pod that was in use.
        stopped_at: when it stopped; None if it is not stopped.
        calm_since: since when no pod has looked like a leak, while it is stopped; None while there are leaks.
        by: who last resumed it; empty without one.
    """

    position: Position = Position.CLOSED
    since: float | None = None
    batch: int = 0
    allowed: int = 0
    reason: StopReason = StopReason.NONE
    pod: str = ""
    stopped_at: float | None = None
    calm_since: float | None = None
    by: str = ""


class LeakCounts(NamedTuple):
    """What one tick found of a pool, or of an installation.

    Attributes:
        leaks: number of leaks, deleted in this tick or not.
        expected: number of stamped pods of runners.
        reaped: the pods that were reaped lately.
        in_use: why those of them that were in use count as wrong, by their uids.
        is_judged: False if leaks may be hidden at this tick: their pool is paused, or a namespace was not read.
    """

    leaks: int
    expected: int
    reaped: Sequence[ReapedPod] = ()
    in_use: Mapping[str, StopReason] = {}
    is_judged: bool = True

    def since(self, at: float) -> list[ReapedPod]:
        """Returns the pods that were reaped after that time."""
        return [each for each in self.reaped if each.at > at]


def next_leak_fuse(fuse: LeakFuse, counts: LeakCounts, survey: Survey, now: float, limits: FuseLimits) -> LeakFuse:
    """Returns the fuse after a tick; the same object if nothing changes. Repeating it changes nothing."""
    match fuse.position:
        case Position.CLOSED:
            since = now - limits.window_seconds
            together = counts.leaks + len(counts.since(since))
            if counts.leaks == 0 or together < threshold(counts.expected, limits):
                return fuse
            return LeakFuse(Position.PROVING, since, limits.first_batch, limits.first_batch)
        case Position.PROVING:
            return _next_proving(fuse, counts, survey, now, limits)
        case Position.STOPPED:
            return _next_stopped(fuse, counts, survey, now, limits)


def room(fuse: LeakFuse, counts: LeakCounts) -> int | None:
    """Returns how many more pods the fuse allows to delete now; None for no limit."""
    match fuse.position:
        case Position.CLOSED:
            return None
        case Position.PROVING:
            return max(0, fuse.allowed - len(counts.since(fuse.since or 0.0)))
        case Position.STOPPED:
            return 0


def resume(now: float, limits: FuseLimits, by: str) -> LeakFuse:
    """Returns a stopped fuse after an admin (`by`) resumed it: it proves again from the first batch."""
    return LeakFuse(Position.PROVING, now, limits.first_batch, limits.first_batch, by=by)


def reason_in_use(reaped: ReapedPod, runner: RunnerActivity, pods: Sequence[Pod]) -> StopReason:
    """Returns why the deletion of a pod was wrong; `NONE` while nothing indicates that.

    Args:
        reaped: the deleted pod.
        runner: the activity now of the runners of its runner's name.
        pods: the stamped pods now.
    """
    dates = (runner.seen_at, runner.delivered_at)
    is_back = runner.busy is not None and runner.registered and not reaped.was_registered
    is_seen = runner.running or bool(runner.has_session) or any(at is not None and at > reaped.at for at in dates)
    if not (is_back or is_seen):
        return StopReason.NONE
    same_name = (each for each in pods if (each.namespace, each.name) == (reaped.namespace, reaped.pod))
    return StopReason.RECREATED if any(each.uid != reaped.uid for each in same_name) else StopReason.RUNNER_RETURNED


def _next_proving(fuse: LeakFuse, counts: LeakCounts, survey: Survey, now: float, limits: FuseLimits) -> LeakFuse:
    deleted = counts.since(fuse.since or 0.0)
    for each in deleted:
        if reason := counts.in_use.get(each.uid):
            place = f"{each.namespace}/{each.pod}"
            return replace(fuse, position=Position.STOPPED, reason=reason, pod=place, stopped_at=now)
    last_at = max((each.at for each in deleted), default=None)
    if counts.leaks == 0:
        is_over = last_at is None or covered_seconds(survey, last_at, now) >= limits.prove_seconds
        return LeakFuse() if is_over and counts.is_judged else fuse
    if last_at is None or len(deleted) < fuse.allowed or not _is_proven(last_at, survey, now, limits):
        return fuse
    return replace(fuse, batch=2 * fuse.batch, allowed=len(deleted) + 2 * fuse.batch)


def _is_proven(last_at: float, survey: Survey, now: float, limits: FuseLimits) -> bool:
    """True if complete lists cover enough time since the batch's last deletion, the latest of them its second half."""
    seconds = PROVEN_SHARE * limits.prove_seconds
    is_listed = survey.swept_at is not None and survey.swept_at >= last_at + seconds / 2
    return is_listed and covered_seconds(survey, last_at, now) >= seconds


def _next_stopped(fuse: LeakFuse, counts: LeakCounts, survey: Survey, now: float, limits: FuseLimits) -> LeakFuse:
    if counts.leaks > 0:
        return fuse if fuse.calm_since is None else replace(fuse, calm_since=None)
    if not counts.is_judged or fuse.reason is StopReason.UNREADABLE:
        return fuse
    if fuse.calm_since is None:
        return replace(fuse, calm_since=now)
    return LeakFuse() if covered_seconds(survey, fuse.calm_since, now) >= limits.window_seconds else fuse
