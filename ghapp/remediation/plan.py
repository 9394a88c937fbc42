"""Plans which runners to remediate now, and which are deferred and why.

All limits are applied here. Runners beyond a limit are never dropped silently: `deferred` has them with the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, NamedTuple

Mode = Literal["act", "dry-run", "off"]

MOST_OPEN = 1_000
"""Requests of a pool that its URL has not accepted. None of them is ever dropped; so while a URL is down, no more are
granted than this, and further losses wait.
"""


@dataclass(frozen=True, slots=True)
class RemediationLimits:
    """The `[remediation]` table."""

    mode: Mode = "dry-run"
    per_sweep: int = 25


class Deferral(StrEnum):
    """Why a lost runner is not remediated now."""

    OFF = "RemediationOff"
    PAUSED = "Paused"
    NO_POOL = "NoPool"
    """Its pool is not configured, and others are: no replacer is known for it."""
    FUSE_PROVING = "FuseProving"
    FUSE_STOPPED = "FuseStopped"
    PER_SWEEP = "PerSweepCeiling"
    OPEN_REQUESTS = "OpenRequestsCeiling"
    CLAIMED = "Claimed"
    WAITS = "WaitsInCluster"


class Candidate(NamedTuple):
    """A runner that should be remediated, and since when it has been lost (epoch seconds)."""

    runner_id: int
    pool: str
    since: float
    claimed: bool = False
    """True if its controller claims that its pod is busy."""
    waits: bool = False
    """True if something in the cluster blocked its deletion recently; its evidence has the blocker."""


class PoolCapacity(NamedTuple):
    """A pool's capacity for replacements.

    Attributes:
        room: how many replacements its fuse still allows; None for no limit.
        paused: True if an admin paused the pool or its org.
        stopped: True if its fuse is stopped; a proving fuse has no room either while a batch is in progress.
        configured: False if the configuration has pools, and not this one.
        open_requests: how many of its requests wait for its URL.
    """

    room: int | None = None
    paused: bool = False
    stopped: bool = False
    configured: bool = True
    open_requests: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """Ids of the runners to remediate now (`chosen`), longest lost first, and deferred runners with the reason."""

    chosen: tuple[int, ...] = ()
    deferred: Mapping[int, Deferral] = field(default_factory=dict)


def plan(
    candidates: Iterable[Candidate],
    pools: Mapping[str, PoolCapacity],
    limits: RemediationLimits,
    whole: PoolCapacity = PoolCapacity(),  # noqa: B008 - a value
    granted_since_sweep: int = 0,
) -> Plan:
    """Chooses among the lost runners.

    Args:
        candidates: of all pools.
        pools: capacity of each pool; a missing pool has a closed fuse and is not paused.
        limits: the `[remediation]` table.
        whole: capacity under the installation's own fuse, over all pools.
        granted_since_sweep: grants since the last complete list: every confirmation makes a plan, and `per_sweep`
            limits all of these plans together.
    """
    chosen: list[int] = []
    deferred: dict[int, Deferral] = {}
    left = {pool: capacity.room for pool, capacity in pools.items()}
    open_requests = Counter({pool: capacity.open_requests for pool, capacity in pools.items()})
    whole_left = whole.room
    left_of_sweep = limits.per_sweep - granted_since_sweep
    ordered = sorted(candidates, key=lambda candidate: (candidate.since, candidate.runner_id))
    for runner_id, pool, _, claimed, waits in ordered:
        capacity = pools.get(pool, PoolCapacity())
        room = left.get(pool)
        if limits.mode == "off":
            deferred[runner_id] = Deferral.OFF
        elif capacity.paused:
            deferred[runner_id] = Deferral.PAUSED
        elif not capacity.configured:
            deferred[runner_id] = Deferral.NO_POOL
        elif claimed:
            deferred[runner_id] = Deferral.CLAIMED
        elif waits:
            deferred[runner_id] = Deferral.WAITS
        elif open_requests[pool] >= MOST_OPEN:
            deferred[runner_id] = Deferral.OPEN_REQUESTS
        elif whole_left is not None and whole_left <= 0:
            deferred[runner_id] = Deferral.FUSE_STOPPED if whole.stopped else Deferral.FUSE_PROVING
        elif room is not None and room <= 0:
            deferred[runner_id] = Deferral.FUSE_STOPPED if capacity.stopped else Deferral.FUSE_PROVING
        elif room is None and whole_left is None and left_of_sweep <= 0:
            deferred[runner_id] = Deferral.PER_SWEEP
        else:
            chosen.append(runner_id)
            open_requests[pool] += 1
            if room is not None:
                left[pool] = room - 1
            if whole_left is not None:
                whole_left -= 1
            if room is None and whole_left is None:
                left_of_sweep -= 1
    return Plan(tuple(chosen), deferred)
