"""The events of a fleet."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass

from ghapp.sandbox.fleet.jobs import JobAction, SandboxJob
from ghapp.sandbox.fleet.runners import Runner

Act = Callable[[float], None]


class Timers:
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


@dataclass(frozen=True, slots=True)
class JobMoved:
    """A job was queued, started or completed; `job` is a copy from that moment."""

    action: JobAction
    job: SandboxJob
    at: float


@dataclass(frozen=True, slots=True)
class RunnerOnline:
    """A newly registered runner is ready for work."""

    runner: Runner
    at: float


@dataclass(frozen=True, slots=True)
class RunnerEnded:
    """An ephemeral runner did its one job; its process has ended and its registration is deleted."""

    runner: Runner
    at: float


FleetEvent = JobMoved | RunnerOnline | RunnerEnded
