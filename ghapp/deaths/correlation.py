"""Finds what deaths have in common: the node, or a pool's many deaths at once. Pure; times are epoch seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from ghapp.deaths.cause import Cause
from ghapp.deaths.death import Death
from ghapp.runners.evidence import Evidence

WEEK_SECONDS = 7 * 86_400.0
BURST_SECONDS = 3600.0
"""Deaths of a pool are one burst if none is later than this after the one before."""

LEAST_OF_BURST = 3


class Correlation(NamedTuple):
    """What a death has in common with earlier ones.

    Attributes:
        on_node: its number among the deaths on its node within the last seven days, from 1; 0 if its node is unknown.
        of_pool: its number in a burst of its pool's deaths, from 1.
        since: when that burst began.
    """

    on_node: int = 0
    of_pool: int = 1
    since: float = 0.0


class DeathPlace(Protocol):
    """When and where a runner died, and of which cause: a `Death`, or its summary."""

    @property
    def at(self) -> float:
        """Epoch seconds."""

    @property
    def cause(self) -> Cause:
        """The cause."""

    @property
    def pool(self) -> str:
        """Its pool; empty if unknown."""

    @property
    def node(self) -> str:
        """Its node; empty if unknown."""


def correlation(death: DeathPlace, others: Iterable[DeathPlace]) -> Correlation:
    """Returns what a death has in common with the deaths before it; later ones do not change the result.

    Args:
        death: the death.
        others: deaths of the same installation, in any order; clean exits do not count.
    """
    earlier = [each for each in others if each.at < death.at and each.cause is not Cause.CLEAN_EXIT]
    on_node = sum(each.node == death.node and each.at >= death.at - WEEK_SECONDS for each in earlier)
    count, since = 1, death.at
    for at in sorted((each.at for each in earlier if death.pool and each.pool == death.pool), reverse=True):
        if since - at > BURST_SECONDS:
            break
        count, since = count + 1, at
    return Correlation(on_node + 1 if death.node else 0, count, since)


def is_of(death: Death, evidence: Evidence) -> bool:
    """True if this runner died, and not another of the same name.

    A registration that was first seen after the end is the next runner's, however soon it came.
    """
    if death.runner_id is not None:
        return death.runner_id == evidence.id
    return evidence.first_seen < death.ended_before


def chooser(pool: str | None, cause: str | None) -> Callable[[Death], bool]:
    """Returns a function that is True for deaths of that pool and that cause; None: of any."""
    return lambda death: pool in (None, death.pool) and cause in (None, death.cause.value)


def counted(deaths: Sequence[Death], key: Callable[[Death], str]) -> list[tuple[str, int]]:
    """Returns how many deaths share a value, most first; deaths without a value are left out."""
    counts = Counter(value for each in deaths if (value := key(each)))
    return sorted(counts.items(), key=lambda each: (-each[1], each[0]))
