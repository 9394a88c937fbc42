"""Unexpected ends of watches."""

from __future__ import annotations

import threading
from enum import Enum


class Ending(Enum):
    """Ways in which a watch ends.

    `ORDERLY`: as after `timeoutSeconds`. `BROKEN`: the connection is closed, with the answer incomplete; all that was
    sent arrives. `RESET`: the connection is reset; what was sent last may be lost. `HALF`: half an event, then as
    broken. `EXPIRED`: an ERROR event with a `Status` of code 410.
    """

    ORDERLY = "orderly"
    BROKEN = "broken"
    RESET = "reset"
    HALF = "half"
    EXPIRED = "expired"


class Cuts:
    """Counts the events of all watches together, and decides when one is cut."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._every = 0
        self._count = 0
        self._times: int | None = 0
        self._how = Ending.BROKEN

    def arm(self, events: int, how: Ending, times: int | None) -> None:
        """Cuts the watch that sends the event with this number from now on; so many times, None: no limit."""
        if events < 1:
            raise ValueError(f"a watch can be cut after 1 event or more, not after {events}")
        with self._lock:
            self._every, self._count, self._times, self._how = events, 0, times, how

    def disarm(self) -> None:
        """Stops cutting."""
        with self._lock:
            self._every = 0

    def after_event(self) -> Ending | None:
        """Counts one sent event; returns how its watch ends, None when it continues."""
        with self._lock:
            if not self._every or self._times == 0:
                return None
            self._count += 1
            if self._count < self._every:
                return None
            self._count = 0
            self._times = None if self._times is None else self._times - 1
            return self._how
