"""RBAC's refusals, reported only when they last.

For some seconds after its start an API server answers 403 to what its Roles allow, while its caches fill.
"""

from __future__ import annotations

import time
from collections.abc import Callable

LASTING_SECONDS = 15.0
"""A refusal that is met again after so long is no starting API server's."""


class ForbiddenGrace:
    """Since when each place is refused, in one process.

    Args:
        clock: seconds that only go on.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._refused: dict[str, tuple[float, str]] = {}

    def lasts(self, place: str, why: str) -> bool:
        """A place was refused; whether that has lasted long enough to be reported."""
        now = self._clock()
        since, _ = self._refused.setdefault(place, (now, why))
        return now - since >= LASTING_SECONDS

    def why(self, place: str) -> str:
        """Why a place is refused; empty where it is not."""
        return self._refused.get(place, (0.0, ""))[1]

    def over(self, place: str) -> None:
        """It is refused no more."""
        self._refused.pop(place, None)
