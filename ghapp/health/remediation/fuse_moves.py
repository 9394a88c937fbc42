"""Lets a fuse follow its runners when their pool is renamed, or its labels change. Pure.

Fuses are kept by the pool's name, and pools are only configuration: without this, a changed name would give a false
mass loss another first batch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from ghapp.health.remediation.fuse import WHOLE_INSTALLATION, Fuse, FuseReason, Position

MOST_RUNNERS = 20
"""How many of its lost runners a fuse remembers."""


def with_runners(fuse: Fuse, lost: Collection[int]) -> Fuse:
    """Returns the fuse with some of the lost runners that it counts; a closed one keeps those that it has."""
    if fuse.position is Position.CLOSED or not lost:
        return fuse
    return replace(fuse, runners=tuple(sorted(lost)[:MOST_RUNNERS]))


def after_moves(fuses: Mapping[str, Fuse], pools: Mapping[str, Collection[int]], now: float) -> dict[str, Fuse]:
    """Returns the fuses by the pools that have their runners now; the fuse of a pool that lost all of them closes.

    Where some runners stay, both pools have the fuse. A pool whose own fuse is not closed keeps that one.

    Args:
        fuses: recorded fuses, by pool.
        pools: ids of the runners of each pool.
        now: epoch seconds.
    """
    moved = dict(fuses)
    for pool, fuse in fuses.items():
        runners = set(fuse.runners)
        if pool == WHOLE_INSTALLATION or not runners:
            continue
        heirs = {name: ids for name in pools if name != pool and (ids := runners & set(pools[name]))}
        for name, ids in heirs.items():
            if moved.get(name, Fuse()).position is Position.CLOSED:
                moved[name] = replace(fuse, runners=tuple(sorted(ids)))
        left = runners.difference(*heirs.values())
        if heirs and left & set(pools.get(pool, ())):
            moved[pool] = replace(fuse, runners=tuple(sorted(left)))  # the pool was split
        elif heirs:
            moved[pool] = Fuse(healed_at=now, reason=FuseReason.POOL_CHANGED)
    return moved
