"""Reports 403 answers only if they persist.

For some seconds after its start an API server answers 403 to requests that RBAC permits, until its caches are filled.
"""

from __future__ import annotations

import time
from collections.abc import Callable

LASTING_SECONDS = 15.0
"""A 403 that persists for so long does not come from a starting API server."""


class ForbiddenGrace:
    """Tracks since when each place is forbidden, within one process.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._refused: dict[str, tuple[float, str]] = {}

    def lasts(self, place: str, why: str) -> bool:
        """Records that a place is forbidden; returns True if that has lasted long enough to be reported."""
        now = self._clock()
        since, _ = self._refused.setdefault(place, (now, why))
        return now - since >= LASTING_SECONDS

    def why(self, place: str) -> str:
        """Returns why a place is forbidden; empty if it is not."""
        return self._refused.get(place, (0.0, ""))[1]

    def over(self, place: str) -> None:
        """Records that a place is permitted again."""
        self._refused.pop(place, None)
