"""The active faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar


class Fault:
    """A temporary fault."""

    def note(self, now: float) -> None:
        """Called when time has passed and things may have changed."""

    def end(self, at: float) -> None:
        """Called when the fault is over."""


@dataclass(frozen=True, slots=True)
class Temporary(Fault):
    """A change that is undone when its time is over; `undo` gets the epoch second."""

    undo: Callable[[float], None]

    def end(self, at: float) -> None:
        """Undoes it."""
        self.undo(at)


@dataclass(frozen=True, slots=True)
class _Window:
    fault: Fault
    until: float
    org_id: int | None


Kind = TypeVar("Kind", bound=Fault)


class Faults:
    """All active faults, in the order in which they began.

    Attributes:
        latency_seconds: added to each REST call.
    """

    def __init__(self, latency_seconds: float) -> None:
        self.latency_seconds = latency_seconds
        self._windows: list[_Window] = []

    def __len__(self) -> int:
        return len(self._windows)

    def begin(self, fault: Fault, *, until: float, org_id: int | None = None) -> None:
        """Starts a fault until then (epoch seconds), for one organization or for all."""
        self._windows.append(_Window(fault, until, org_id))

    def at_work(self, kind: type[Kind], org_id: int | None, now: float) -> list[Kind]:
        """Returns the active faults of a kind for an organization; None is a request without an organization."""
        return [
            window.fault
            for window in self._windows
            if isinstance(window.fault, kind) and now < window.until and window.org_id in (None, org_id)
        ]

    def all_of(self, kind: type[Kind]) -> list[Kind]:
        """Returns the faults of a kind for all organizations, including those that are over and not ended yet."""
        return [window.fault for window in self._windows if isinstance(window.fault, kind)]

    def pass_time(self, now: float) -> None:
        """Ends faults that are over, each at its own time, and notifies the others."""
        over = sorted((window for window in self._windows if window.until <= now), key=lambda window: window.until)
        self._windows = [window for window in self._windows if window.until > now]
        for window in over:
            window.fault.end(window.until)
        for window in self._windows:
            window.fault.note(now)

    def end_all(self, now: float) -> None:
        """Ends all temporary faults."""
        over, self._windows = self._windows, []
        for window in over:
            window.fault.end(now)
