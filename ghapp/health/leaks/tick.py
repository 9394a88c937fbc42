"""What is read for one tick of the reaper, what one tick leaves to the next, and what it comes to. Values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

from ghapp.health.leaks.runner_activity import RunnerActivity
from ghapp.health.pods.pod import Pod
from ghapp.health.pods.pod_claim import Claimed
from ghapp.health.remediation.fuse import FuseLimits


class Guard(StrEnum):
    """Why a pod is kept, or a whole tick skipped."""

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
    JUST_STARTED = "JustStarted"
    REGISTERED = "Registered"
    UNNAMED = "Unnamed"
    NEVER_STARTED = "NeverStarted"
    GITHUB_STALE = "GitHubStale"
    LIST_EMPTY = "ListEmpty"
    ABSENT_BRIEFLY = "AbsentBriefly"
    BUSY_WHEN_LAST_SEEN = "BusyWhenLastSeen"
    FUSE_NOT_CLOSED = "FuseNotClosed"
    MASS_LEAK = "MassLeak"


@dataclass(frozen=True, slots=True)
class LeakLimits:
    """The `[leaks]` table: which pods are looked at, after how long, and how many are reaped a minute.

    Attributes:
        owner_label: the label that stamps a pod as somebody's, whatever its value.
        grace_seconds: how old it must be, and for how long unclaimed.
        per_tick: at most so many are reaped a minute.
        mode: `dry-run` only tells, `off` does not even look.
    """

    owner_label: str = "ghapp.dev/owner"
    grace_seconds: float = 300.0
    per_tick: int = 25
    mode: Literal["act", "dry-run", "off"] = "dry-run"


class FuseView(NamedTuple):
    """What limits the reaper as the fuses limit replacements.

    Attributes:
        limits: the `[fuse]` table.
        pools: the pool of each stamped pod, by the pod's uid; empty, or missing, where it is not known.
        reaped: how many pods were reaped within `window_seconds`, by pool.
        not_closed: the uids of pods whose pool's fuse, or whose installation's, is proving or stopped.
    """

    limits: FuseLimits = FuseLimits()
    pools: Mapping[str, str] = {}
    reaped: Mapping[str, int] = {}
    not_closed: frozenset[str] = frozenset()


class TickInputs(NamedTuple):
    """What was read for one tick, the pods first.

    Attributes:
        pods: of all namespaces.
        pods_at: when their listing was begun.
        claims: what controllers said, by the names of pods and of runners (`podclaim.by_name`). Those that have run
            out may be among them.
        runners: by the names of runners.
        claims_at: when the reading of claims and runners was begun.
        complete: whether every read was answered, and in full.
        github_stale: GitHub's last complete list is too old, or sweeps fail since then.
        list_empty: GitHub's last complete list has no runner at all.
        unasked: the uids of pods that are leaks by GitHub's list, and whose runner was not looked up by name this time.
        fuse: what the fuses allow.
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


class TickMemory(NamedTuple):
    """What one tick leaves to the next.

    Attributes:
        since: since when each pod, by uid, has been unclaimed without a gap, by our clock.
        pods: how many stamped ones there were.
        claims: how many claims held.
        at: when the last good look was judged; None for never.
        names: what pods' runners are called, by the pods' uids, where a controller once said so: its claim may be
            gone while a delivery still speaks of that runner.
        since_there: what the cluster's clock said when that began. A clock that jumps makes nothing older: it must
            have been for long enough by both.
        runners: the uids of those that are known to be runners' pods: a claim, and GitHub's record, may be gone later.
        named: when GitHub last showed a registration of the name of each pod's runner, by the pods' uids (epoch
            seconds). The record may be forgotten before the pod is gone.
    """

    since: Mapping[str, float] = {}
    pods: int = 0
    claims: int = 0
    at: float | None = None
    names: Mapping[str, str] = {}
    since_there: Mapping[str, float] = {}
    runners: frozenset[str] = frozenset()
    named: Mapping[str, float] = {}


class TickResult(NamedTuple):
    """What one tick comes to.

    Attributes:
        reap: delete these now, oldest first.
        told: those that would be deleted, were it not for dry-run.
        deferred: leaks too, but too many for one tick.
        held: leaks too, each with the guard of the fuse that holds it back, oldest first.
        kept: the other stamped pods, each with the guard that keeps it.
        memory: for the next tick.
        skipped: why this tick judges nothing; None when it does.
    """

    reap: tuple[Pod, ...] = ()
    told: tuple[Pod, ...] = ()
    deferred: tuple[Pod, ...] = ()
    kept: tuple[tuple[Pod, Guard], ...] = ()
    memory: TickMemory = TickMemory()
    skipped: Guard | None = None
    held: tuple[tuple[Pod, Guard], ...] = ()
