"""A process of `ghapp up` that is started again when it exits, after a delay that grows."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from ghapp.state_directory import file_problem

FIRST_DELAY_SECONDS = 1.0
LONGEST_DELAY_SECONDS = 60.0

STEADY_SECONDS = 60.0
"""A process that ran for so long is started again at once when it exits."""

CANNOT_START = 126
"""The exit code, as in shells, of a process that the system could not start: out of memory or of processes."""


def clock_time(at: float) -> str:
    """Returns the time of day in UTC, as the log has it."""
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S UTC")


class RestartDelay:
    """Seconds until a process that exited is started again: 0 after a steady run, else 1, 2, 4, … up to 60."""

    def __init__(self) -> None:
        self._next = FIRST_DELAY_SECONDS

    def after(self, ran_seconds: float) -> float:
        """Returns the delay for a process that exited after it ran for so long."""
        if ran_seconds >= STEADY_SECONDS:
            self._next = FIRST_DELAY_SECONDS
            return 0.0
        delay = self._next
        self._next = min(2 * delay, LONGEST_DELAY_SECONDS)
        return delay


def without_our_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment of a program that is none of ours: the App's key and our other secrets are not for it."""
    return {name: value for name, value in environ.items() if not name.startswith("GHAPP_")}


class SupervisedProcess:
    """The process, started by the constructor; `supervise` must be called repeatedly.

    Attributes:
        name: of the role, for the log and for people.
        process: the one that runs, or the one that exited last.
        restarts: how often it was started again.
        start_failure: why the last attempt to start it again failed, with the path; None if it did not.
        next_start: when a process that exited is started again (epoch seconds); None while it runs.
    """

    def __init__(
        self,
        name: str,
        start: Callable[[], subprocess.Popen[bytes]],
        exited: Callable[[SupervisedProcess, int, float], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Starts the process.

        Args:
            name: of the role.
            start: starts a process.
            exited: called once for each exit, with its exit code and the seconds until the next start.
            clock: monotonic.
        """
        self.name = name
        self._start, self._exited, self._clock = start, exited, clock
        self._delay = RestartDelay()
        self._restart_at: float | None = None
        self.next_start: float | None = None
        self.restarts = 0
        self.start_failure: str | None = None
        self._started_at = clock()
        self.process = start()

    @property
    def ran_seconds(self) -> float:
        """Seconds since the last start."""
        return self._clock() - self._started_at

    def supervise(self) -> None:
        """Starts the process again if it has exited and its delay is over."""
        exit_code = self.process.poll()
        if exit_code is not None and self._restart_at is None:
            self._schedule_restart(exit_code)
        if self._restart_at is not None and self._clock() >= self._restart_at:
            self._restart_at, self.next_start, self._started_at = None, None, self._clock()
            self.restarts += 1
            self.start_failure = None
            try:
                self.process = self._start()
            except OSError as error:
                self.start_failure = file_problem(error)
                self._schedule_restart(CANNOT_START)

    def _schedule_restart(self, exit_code: int) -> None:
        delay = self._delay.after(self.ran_seconds)
        self._restart_at, self.next_start = self._clock() + delay, time.time() + delay
        self._exited(self, exit_code, delay)
