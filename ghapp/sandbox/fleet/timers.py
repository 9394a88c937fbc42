"""Scheduled events."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

Act = Callable[[float], None]


class Agenda:
    """Scheduled calls, in order of time and, at the same time, of entry."""

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, Act]] = []
        self._serial = itertools.count()

    def at(self, when: float, act: Act) -> None:
        """Schedules `act` for `when` (epoch seconds); it is called with that time."""
        heapq.heappush(self._entries, (when, next(self._serial), act))

    def run_until(self, now: float) -> None:
        """Runs everything due by `now`, each at its own time, including what that schedules."""
        while self._entries and self._entries[0][0] <= now:
            when, _, act = heapq.heappop(self._entries)
            act(when)
