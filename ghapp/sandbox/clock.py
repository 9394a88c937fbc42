"""The sandbox's clock: the wall clock plus skipped time."""

from __future__ import annotations

import time


class SandboxClock:
    """Epoch seconds that can be moved forward; with `running` False time stands still in between, for tests.

    Attributes:
        github_ahead: seconds by which GitHub's own clock is ahead; every time that GitHub states includes them.
    """

    def __init__(self, *, running: bool) -> None:
        self.github_ahead = 0.0
        self._running = running
        self._skipped = 0.0
        self._started = time.time()

    def now(self) -> float:
        """Epoch seconds."""
        return (time.time() if self._running else self._started) + self._skipped

    def skip(self, seconds: float) -> None:
        """Moves the clock forward."""
        self._skipped += seconds
