"""Lets a fuse follow its runners when their pool is renamed, or its labels change. Pure.

Fuses are kept by the pool's name, and pools are only configuration: without this, a changed name would give a false
mass loss another first batch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.remediation.fuse import Fuse, FuseReason, Position, strictest

MOST_RUNNERS = 500
"""How many of its lost runners a fuse remembers, spread over all of them: any part of the pool may become another."""


def with_runners(fuse: Fuse, lost: Collection[int]) -> Fuse:
    """Returns the fuse with some of the lost runners that it counts; a closed one keeps those that it has."""
    if fuse.position is Position.CLOSED or not lost:
        return fuse
    every = -(-len(lost) // MOST_RUNNERS)
    return replace(fuse, runners=tuple(sorted(lost)[::every]))


def after_moves(fuses: Mapping[str, Fuse], pools: Mapping[str, Collection[int]], now: float) -> dict[str, Fuse]:
    """Returns the fuses by the pools that have their runners now; the fuse of a pool that lost all of them closes.

    Where some runners stay, both pools have the fuse. Of several fuses that meet in one pool, the strictest one holds.

    Args:
        fuses: recorded fuses, by pool.
        pools: ids of the runners of each pool.
        now: epoch seconds.
    """
    places: dict[str, list[Fuse]] = defaultdict(list)
    for pool, fuse in fuses.items():
        for name, runners in _places(pool, fuse, pools).items():
            places[name].append(replace(fuse, runners=runners))
    moved = {pool: Fuse(closed_at=now, reason=FuseReason.POOL_CHANGED) for pool in fuses}
    return moved | {name: _joined(several) for name, several in places.items()}


def open_pools(fuses: Mapping[str, Fuse], pools: Collection[str]) -> set[str]:
    """Returns the pools whose fuse is not closed; also `*`, if one of them was renamed, and no plan has moved its fuse.

    Args:
        fuses: recorded fuses, by pool.
        pools: all pools that have a runner, or are configured.
    """
    found = {pool for pool, fuse in fuses.items() if fuse.position is not Position.CLOSED}
    return found | ({ALL_POOLS} if found - set(pools) - {ALL_POOLS} else set())


def _places(pool: str, fuse: Fuse, pools: Mapping[str, Collection[int]]) -> dict[str, tuple[int, ...]]:
    """Returns the pools that have this fuse now, each with its part of the remembered runners."""
    runners = set(fuse.runners)
    elsewhere = {name: tuple(sorted(ids)) for name in pools if name != pool and (ids := runners & set(pools[name]))}
    if pool == ALL_POOLS or not elsewhere:
        return {pool: fuse.runners}
    left = tuple(sorted(runners & set(pools.get(pool, ()))))
    return elsewhere | {pool: left} if left else elsewhere


def _joined(fuses: Sequence[Fuse]) -> Fuse:
    """Returns the strictest of several fuses, with the runners of all."""
    if len(fuses) == 1:
        return fuses[0]
    runners = {each for fuse in fuses for each in fuse.runners}
    return replace(strictest(fuses), runners=tuple(sorted(runners)))
