"""The faults at work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar


class Fault:
    """Something that is wrong for a while."""

    def note(self, now: float) -> None:
        """Time has passed, and things may have changed."""

    def end(self, at: float) -> None:
        """It is over."""


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
    """Everything that is wrong now, in the order in which it began.

    Attributes:
        latency_seconds: added to each REST call.
    """

    def __init__(self, latency_seconds: float) -> None:
        self.latency_seconds = latency_seconds
        self._windows: list[_Window] = []

    def __len__(self) -> int:
        return len(self._windows)

    def begin(self, fault: Fault, *, until: float, org_id: int | None = None) -> None:
        """Lets a fault work until then (epoch seconds), on one organization or on all."""
        self._windows.append(_Window(fault, until, org_id))

    def at_work(self, kind: type[Kind], org_id: int | None, now: float) -> list[Kind]:
        """The faults of a kind that an organization suffers; None is a request that belongs to no organization."""
        return [
            window.fault
            for window in self._windows
            if isinstance(window.fault, kind) and now < window.until and window.org_id in (None, org_id)
        ]

    def all_of(self, kind: type[Kind]) -> list[Kind]:
        """The faults of a kind, whomever they befall, also those that are over and have not been ended yet."""
        return [window.fault for window in self._windows if isinstance(window.fault, kind)]

    def pass_time(self, now: float) -> None:
        """Ends what is over, each at its own time, and lets the others take note."""
        over = sorted((window for window in self._windows if window.until <= now), key=lambda window: window.until)
        self._windows = [window for window in self._windows if window.until > now]
        for window in over:
            window.fault.end(window.until)
        for window in self._windows:
            window.fault.note(now)

    def end_all(self, now: float) -> None:
        """Ends everything that has an end."""
        over, self._windows = self._windows, []
        for window in over:
            window.fault.end(now)
