"""Limits mass leaks: applies the reaper's fuses, and those of the runners, to the leaks of one tick. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain

from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.leaks.leak_fuse import LeakCounts, LeakFuse, ReapedPod, next_leak_fuse, room
from ghapp.leaks.tick import Guard, TickInputs
from ghapp.pods.pod import Pod
from ghapp.remediation.fuse import Position

_CLOSED = LeakFuse()


def held_back(
    leaks: Sequence[Pod], stamped: Sequence[Pod], inputs: TickInputs, now: float
) -> tuple[dict[str, Guard], dict[str, LeakFuse]]:
    """Returns the leaks that may not be deleted now, each with its guard, by the pods' uids; and the reaper's fuses.

    Args:
        leaks: all leaks, in the order of deletion.
        stamped: runners' pods with the label that are not being deleted: the expected number.
        inputs: of the tick.
        now: epoch seconds.
    """
    view = inputs.fuse
    counts = _counts(leaks, stamped, inputs)
    fuses = {pool: _next(pool, found, inputs, now) for pool, found in counts.items()}
    others = {pool: fuse.since or 0.0 for pool, fuse in fuses.items() if fuse.position is not Position.STOPPED}
    counts[ALL_POOLS] = _together([(counts[pool], since) for pool, since in others.items()])
    fuses[ALL_POOLS] = _next(ALL_POOLS, counts[ALL_POOLS], inputs, now)
    held = _held(leaks, inputs, fuses, {pool: room(fuse, counts[pool]) for pool, fuse in fuses.items()})
    return held, {pool: fuse for pool, fuse in fuses.items() if fuse != _CLOSED or pool in view.fuses}


def _held(
    leaks: Sequence[Pod], inputs: TickInputs, fuses: Mapping[str, LeakFuse], rooms: dict[str, int | None]
) -> dict[str, Guard]:
    view, held = inputs.fuse, dict[str, Guard]()
    for pod in leaks:
        scopes = (view.pools.get(pod.uid, ""), ALL_POOLS)
        if pod.uid in view.not_closed:
            held[pod.uid] = Guard.FUSE_NOT_CLOSED
        elif any(fuses[scope].position is Position.STOPPED for scope in scopes):
            held[pod.uid] = Guard.REAPER_STOPPED
        elif any(rooms[scope] == 0 for scope in scopes):
            held[pod.uid] = Guard.MASS_LEAK
        else:
            for scope in scopes:
                left = rooms[scope]
                rooms[scope] = None if left is None else left - 1
    return held


def _next(pool: str, counts: LeakCounts, inputs: TickInputs, now: float) -> LeakFuse:
    """Returns the next fuse of a pool; while GitHub cannot be seen, it stays as it is."""
    fuse = inputs.fuse.fuses.get(pool, _CLOSED)
    return fuse if inputs.github_stale else next_leak_fuse(fuse, counts, inputs.survey, now, inputs.fuse.limits)


def _counts(leaks: Sequence[Pod], stamped: Sequence[Pod], inputs: TickInputs) -> dict[str, LeakCounts]:
    """Returns the counts of each pool with pods or a fuse; an empty name stands for an unknown pool."""
    view = inputs.fuse
    lost, expected = (Counter(_pools(pods, view.pools)) for pods in (leaks, stamped))
    paused = {view.pools.get(uid, "") for uid in inputs.paused}
    reaped = defaultdict[str, list[ReapedPod]](list)
    for each in view.reaped:
        reaped[each.pool].append(each)
    return {
        pool: LeakCounts(lost[pool], expected[pool], reaped[pool], view.in_use, pool not in {*paused, *view.unread})
        for pool in {*lost, *expected, *reaped, *view.fuses, *view.unread} - {ALL_POOLS}
    }


def _together(pools: Sequence[tuple[LeakCounts, float]]) -> LeakCounts:
    """Returns the counts of the installation.

    Args:
        pools: the counts of each pool, but of those that their own fuse has stopped: these hold back only themselves.
            And since when its fuse counts: an admin who resumed it has accepted what was in use before.
    """
    counts = [found for found, _ in pools]
    return LeakCounts(
        sum(each.leaks for each in counts),
        sum(each.expected for each in counts),
        [*chain.from_iterable(each.reaped for each in counts)],
        {
            each.uid: found.in_use[each.uid]
            for found, since in pools
            for each in found.since(since)
            if each.uid in found.in_use
        },
        all(each.is_judged for each in counts),
    )


def _pools(pods: Sequence[Pod], pools: Mapping[str, str]) -> list[str]:
    return [pools.get(pod.uid, "") for pod in pods]
