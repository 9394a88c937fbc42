"""Inputs, memory and result of one tick of the reaper. Values."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

from ghapp.leaks.leak_fuse import LeakFuse, ReapedPod, StopReason
from ghapp.leaks.runner_activity import RunnerActivity
from ghapp.pods.pod import Pod
from ghapp.pods.pod_claim import Claimed
from ghapp.remediation.fuse import FuseLimits
from ghapp.runners.delivery_lag import DeliveryGap
from ghapp.runners.evidence import Survey


class Guard(StrEnum):
    """Why a pod is kept, or a whole tick is skipped."""

    OFF = "Off"
    CLAIMS_READ_FIRST = "ClaimsReadFirst"
    READ_INCOMPLETE = "ReadIncomplete"
    READ_STALE = "ReadStale"
    READ_EMPTY = "ReadEmpty"
    DELETING = "Deleting"
    POD_OF_ARC = "PodOfArc"
    NO_RUNNER = "NoRunner"
    CLAIMED = "Claimed"
    WITHIN_GRACE = "WithinGrace"
    UNCLAIMED_BRIEFLY = "UnclaimedBriefly"
    JOB_BY_DELIVERY = "JobInProgress"
    GITHUB_UNKNOWN = "GitHubUnknown"
    SESSION_OPEN = "SessionOpen"
    SESSION_AFTER_JOB = "SessionAfterJob"
    JUST_STARTED = "JustStarted"
    REGISTERED = "Registered"
    UNNAMED = "Unnamed"
    NEVER_STARTED = "NeverStarted"
    GITHUB_STALE = "GitHubStale"
    LIST_EMPTY = "ListEmpty"
    ABSENT_BRIEFLY = "AbsentBriefly"
    BUSY_WHEN_LAST_SEEN = "BusyWhenLastSeen"
    DELIVERIES_BEHIND = "DeliveriesBehind"
    FUSE_NOT_CLOSED = "FuseNotClosed"
    MASS_LEAK = "MassLeak"
    REAPER_STOPPED = "ReaperStopped"
    PAUSED = "Paused"


WAITS = (Guard.UNCLAIMED_BRIEFLY, Guard.ABSENT_BRIEFLY)
"""Guards that time alone ends."""


@dataclass(frozen=True, slots=True)
class LeakLimits:
    """The `[leaks]` table: which pods are checked, after how long, and how many are reaped per minute.

    Attributes:
        owner_label: the label of pods that the reaper checks, with any value.
        grace_seconds: minimum age, and minimum time unclaimed.
        per_tick: maximum pods reaped per minute.
        mode: `dry-run` only reports, `off` does not check.
        runner_name: `pod` if the runner in each of these pods has the pod's name; None if it may have another one.
    """

    owner_label: str = "ghapp.dev/owner"
    grace_seconds: float = 300.0
    per_tick: int = 25
    mode: Literal["act", "dry-run", "off"] = "dry-run"
    runner_name: Literal["pod"] | None = None


class FuseView(NamedTuple):
    """The fuses, as they limit the reaper.

    Attributes:
        limits: the `[fuse]` table.
        pools: pool of each stamped pod, by the pod's uid; empty or missing if unknown.
        reaped: the pods that were reaped within `window_seconds`, and since the reaper's fuses left `closed`.
        not_closed: uids of pods whose pool's or installation's fuse of the runners is proving or stopped.
        fuses: the reaper's own fuses, by pool; the missing ones are closed.
        in_use: why the deletion of some of `reaped` was wrong, by their uids.
        unread: pools with pods in a namespace that could not be read; leaks of theirs may be hidden.
    """

    limits: FuseLimits = FuseLimits()
    pools: Mapping[str, str] = {}
    reaped: Sequence[ReapedPod] = ()
    not_closed: frozenset[str] = frozenset()
    fuses: Mapping[str, LeakFuse] = {}
    in_use: Mapping[str, StopReason] = {}
    unread: frozenset[str] = frozenset()


class TickInputs(NamedTuple):
    """The reads of one tick, the pods first.

    Attributes:
        pods: of all namespaces.
        pods_at: when listing the pods was begun.
        claims: controllers' claims by the names of pods and runners (`pod_claim.by_name`); may include expired ones.
        runners: by the names of runners.
        claims_at: when reading claims and runners was begun.
        complete: True if every read was answered completely.
        github_stale: True if GitHub's last complete list is too old, or sweeps have failed since.
        list_empty: True if GitHub's last complete list has no runner at all.
        unasked: uids of pods that are leaks by GitHub's list, but whose runner was not queried by name at this tick.
        fuse: limits set by the fuses.
        paused: uids of pods whose pool is paused, or may be: they are kept, and what is known of them is remembered.
        survey: of the last sweeps; its lists cover the time in which a runner would have been seen.
        gaps: spans of which deliveries are missing or late, as confirmations have them (`delivery_lag.completeness`).
        bear_name: uids of pods whose runner has the pod's name, by the configuration.
        unread: True if the pods of some namespaces are not among `pods`, because RBAC forbids to list them.
    """

    pods: Sequence[Pod]
    pods_at: float
    claims: Claimed
    runners: Mapping[str, RunnerActivity]
    claims_at: float
    complete: bool = True
    github_stale: bool = False
    list_empty: bool = False
    unasked: frozenset[str] = frozenset()
    fuse: FuseView = FuseView()
    paused: frozenset[str] = frozenset()
    survey: Survey = Survey()
    gaps: Sequence[DeliveryGap] = ()
    bear_name: frozenset[str] = frozenset()
    unread: bool = False


class TickMemory(NamedTuple):
    """State passed from one tick to the next.

    Attributes:
        since: since when each pod, by uid, has been unclaimed without a gap, by our clock.
        pods: number of stamped pods.
        claims: number of live claims.
        at: when the last valid tick was judged; None for never.
        names: runner names of pods, by the pods' uids, as controllers reported them: the claim may have expired while
            a delivery still names that runner.
        since_there: the cluster's clock at `since`. Both clocks must show enough time, so that a clock that jumps makes
            no pod older.
        runners: uids of pods known to be a runner's: the claim and GitHub's record may be deleted later.
        named: when GitHub last listed the runner of each pod connected, under its name, by the pods' uids (epoch
            seconds). The record may be deleted before the pod is.
        vouched: when a claim or a delivery last named the runner of each pod, by the pods' uids (epoch seconds).
        began_at: since when ticks have been remembered (epoch seconds). Nothing is known of what was before.
        listed_since: since when GitHub's lists have had runners, at every tick; None while the last one is empty.
    """

    since: Mapping[str, float] = {}
    pods: int = 0
    claims: int = 0
    at: float | None = None
    names: Mapping[str, str] = {}
    since_there: Mapping[str, float] = {}
    runners: frozenset[str] = frozenset()
    named: Mapping[str, float] = {}
    vouched: Mapping[str, float] = {}
    began_at: float | None = None
    listed_since: float | None = None

    def with_claim_on(self, uids: Collection[str], at: float) -> TickMemory:
        """Returns the memory after a claim on these pods at that time: unclaimed time restarts at the next tick."""
        return self._replace(
            vouched={**self.vouched, **dict.fromkeys(uids, at)},
            since={uid: at for uid, at in self.since.items() if uid not in uids},
            since_there={uid: at for uid, at in self.since_there.items() if uid not in uids},
        )


class TickResult(NamedTuple):
    """The result of one tick.

    Attributes:
        reap: pods to delete now, oldest first.
        would_reap: pods that would be deleted without dry-run.
        deferred: further leaks beyond the limit of one tick.
        held: further leaks, each with the fuse's guard that holds it back, oldest first.
        kept: the other stamped pods, each with the guard that keeps it.
        memory: for the next tick.
        skipped: why nothing was judged at this tick; None if it was.
        never_named: uids of the pods that nothing has named since their container started, by guard 14.
        fuses: the reaper's fuses after the tick, by pool, to be recorded before anything is deleted.
        spent: uids of the pods in `kept` whose runner's only job is over: they are leaks once that has lasted.
    """

    reap: tuple[Pod, ...] = ()
    would_reap: tuple[Pod, ...] = ()
    deferred: tuple[Pod, ...] = ()
    kept: tuple[tuple[Pod, Guard], ...] = ()
    memory: TickMemory = TickMemory()
    skipped: Guard | None = None
    held: tuple[tuple[Pod, Guard], ...] = ()
    never_named: frozenset[str] = frozenset()
    fuses: Mapping[str, LeakFuse] = {}
    spent: frozenset[str] = frozenset()
