"""The sandbox' time: the wall's, and whatever it was told to skip."""

from __future__ import annotations

import time


class SandboxClock:
    """Epoch seconds that can be put forward; `running` False stands still in between, for tests.

    Attributes:
        github_ahead: seconds by which GitHub's own clock is wrong; everything that GitHub states as a time has them.
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
        """Puts the clock forward."""
        self._skipped += seconds
