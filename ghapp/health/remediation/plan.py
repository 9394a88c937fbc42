"""What to remediate now, and what is deferred, and why.

Every ceiling is here, and nothing that exceeds one is dropped silently: it is in `deferred` with its reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, NamedTuple

Mode = Literal["act", "dry-run", "off"]


@dataclass(frozen=True, slots=True)
class RemediationLimits:
    """The `[remediation]` table."""

    mode: Mode = "dry-run"
    per_sweep: int = 25


class Deferral(StrEnum):
    """Why a lost runner is not remediated now."""

    OFF = "RemediationOff"
    PAUSED = "Paused"
    FUSE_PROVING = "FuseProving"
    FUSE_STOPPED = "FuseStopped"
    PER_SWEEP = "PerSweepCeiling"
    CLAIMED = "Claimed"
    WAITS = "WaitsInCluster"


class Candidate(NamedTuple):
    """A runner that should be remediated, and since when it is lost (epoch seconds)."""

    runner_id: int
    pool: str
    since: float
    claimed: bool = False
    """Whether its controller says that its pod is busy."""
    waits: bool = False
    """Whether something was in the way in the cluster a moment ago; its evidence says what."""


class PoolCapacity(NamedTuple):
    """What a pool allows.

    Attributes:
        room: how many its fuse still lets through; None for no limit.
        paused: whether a person paused it, or its org.
        stopped: whether its fuse is stopped; one that proves has no room either while a batch is under way.
    """

    room: int | None = None
    paused: bool = False
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """Runner ids to remediate now, those lost for longest first; and the others with what holds them back."""

    now: tuple[int, ...] = ()
    deferred: Mapping[int, Deferral] = field(default_factory=dict)


def plan(
    candidates: Iterable[Candidate],
    pools: Mapping[str, PoolCapacity],
    limits: RemediationLimits,
    whole: PoolCapacity = PoolCapacity(),  # noqa: B008 - a value
    granted_since_sweep: int = 0,
) -> Plan:
    """Choose among the lost.

    Args:
        candidates: of all pools.
        pools: what each allows; one that is not named has a closed fuse and is not paused.
        limits: the `[remediation]` table.
        whole: what the installation's own fuse allows, over all pools.
        granted_since_sweep: how many were granted since the last complete list: every confirmation makes a plan, and
            `per_sweep` bounds all of them together.
    """
    chosen: list[int] = []
    deferred: dict[int, Deferral] = {}
    left = {pool: leave.room for pool, leave in pools.items()}
    whole_left = whole.room
    unlimited = limits.per_sweep - granted_since_sweep
    ordered = sorted(candidates, key=lambda candidate: (candidate.since, candidate.runner_id))
    for runner_id, pool, _, claimed, waits in ordered:
        leave = pools.get(pool, PoolCapacity())
        room = left.get(pool)
        if limits.mode == "off":
            deferred[runner_id] = Deferral.OFF
        elif leave.paused:
            deferred[runner_id] = Deferral.PAUSED
        elif claimed:
            deferred[runner_id] = Deferral.CLAIMED
        elif waits:
            deferred[runner_id] = Deferral.WAITS
        elif whole_left is not None and whole_left <= 0:
            deferred[runner_id] = Deferral.FUSE_STOPPED if whole.stopped else Deferral.FUSE_PROVING
        elif room is not None and room <= 0:
            deferred[runner_id] = Deferral.FUSE_STOPPED if leave.stopped else Deferral.FUSE_PROVING
        elif room is None and whole_left is None and unlimited <= 0:
            deferred[runner_id] = Deferral.PER_SWEEP
        else:
            chosen.append(runner_id)
            if room is not None:
                left[pool] = room - 1
            if whole_left is not None:
                whole_left -= 1
            if room is None and whole_left is None:
                unlimited -= 1
    return Plan(tuple(chosen), deferred)
