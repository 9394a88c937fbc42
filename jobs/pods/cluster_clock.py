"""What the cluster's clock says just now, from what it last told."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], float]


class ClusterClock:
    """The cluster's clock, as last heard.

    A watch tells the time only when it begins, so it is counted on from there, and not by a clock that may jump.
    """

    def __init__(self, clock: Clock = time.time, monotonic: Clock = time.monotonic) -> None:
        """Of the two `clock` tells epoch seconds."""
        self._clock, self._monotonic = clock, monotonic
        self._told: tuple[float, float] | None = None

    def hear(self, told_at: float | None) -> None:
        """This moment, it tells this time (epoch seconds); None where it tells none."""
        self._told = None if told_at is None else (told_at, self._monotonic())

    def ahead(self) -> float:
        """By how many seconds it is ahead of ours now; 0 where it tells none."""
        if self._told is None:
            return 0.0
        told_at, heard_at = self._told
        return told_at + (self._monotonic() - heard_at) - self._clock()
