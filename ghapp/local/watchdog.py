"""Stops the processes of `ghapp up` when `up` itself was killed.

`up` starts its processes in sessions of their own, so they would outlive a kill -9 of `up`. The watchdog is one more
process. It reads the process ids of the others from a pipe whose other end only `up` has open. When that end is closed,
by the kernel if need be, it stops what is left. This works on Linux and on macOS, and for Redis as well, which cannot
watch its parent. `PR_SET_PDEATHSIG` would work on Linux alone. It also restores the terminal that `up` read keys from.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NamedTuple

PYTHON = (sys.executable, "-P")
"""Starts a process of our own: without `-P` a package `ghapp` of the working directory would run in place of ours."""

STOP_SECONDS = 10.0
"""How long the processes of one rank get to exit after SIGTERM."""

POLL_SECONDS = 0.05

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

FIRST, LAST = 0, 1
"""Ranks: processes of the rank `LAST` are stopped when the others have exited, because the others need them."""


SHOW_CURSOR = b"\x1b[?25h"
"""The dashboard hides the cursor."""


class KeyMode(NamedTuple):
    """The terminal that `up` reads single keys from: its device, and its `attributes` before and during that."""

    device: str
    before: list[Any]
    during: list[Any]


class Watchdog:
    """The watchdog's process, as `up` sees it; started by the constructor."""

    def __init__(self) -> None:
        self._processes: list[tuple[subprocess.Popen[bytes], int]] = []
        self._key_mode: KeyMode | None = None
        self._sent: object = None
        self._watchdog = self._start()

    def add(self, process: subprocess.Popen[bytes], rank: int = FIRST) -> None:
        """Has a process stopped if `up` is killed."""
        self._processes.append((process, rank))
        self.sync()

    def terminal(self, key_mode: KeyMode | None) -> None:
        """Has the terminal restored if `up` is killed; None: it is as it was before."""
        self._key_mode = key_mode
        self.sync()

    def sync(self) -> None:
        """Reports which processes still run, if that has changed; restarts the watchdog if it has exited."""
        self._processes = [(each, rank) for each, rank in self._processes if each.returncode is None]
        report = {"ranks": [(each.pid, rank) for each, rank in self._processes], "terminal": self._key_mode}
        if self._watchdog.poll() is not None:
            self._watchdog, self._sent = self._start(), None
        if report == self._sent:
            return
        with suppress(BrokenPipeError):  # it has just been killed; the next call starts another one
            assert self._watchdog.stdin is not None  # noqa: S101 - it was started with a pipe
            self._watchdog.stdin.write(json.dumps(report).encode() + b"\n")
            self._sent = report

    def end(self) -> None:
        """Closes the pipe. The watchdog stops what still runs, and exits."""
        self.sync()
        with suppress(BrokenPipeError):
            assert self._watchdog.stdin is not None  # noqa: S101 - it was started with a pipe
            self._watchdog.stdin.close()
        self._watchdog.wait()

    @staticmethod
    def _start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603 - our own interpreter and a constant name
            [*PYTHON, "-m", "ghapp.local.watchdog"],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delays signals that stop `up` to the end of the block, in which a process is started and added to the watchdog.

    Between the two, an interrupt would leave the process running.
    """
    received: list[tuple[int, FrameType | None]] = []
    handlers = {each: handler for each in STOPPING if callable(handler := signal.getsignal(each))}
    for each in handlers:
        signal.signal(each, lambda number, frame: received.append((number, frame)))
    try:
        yield
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)
    for number, frame in received[:1]:
        handlers[signal.Signals(number)](number, frame)


def end(process: subprocess.Popen[bytes]) -> None:
    """Terminates a process, and kills it if it does not exit."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def main() -> None:
    """Reads reports of `Watchdog` from stdin until it is closed, then cleans up after the last one."""
    for number in STOPPING:
        signal.signal(number, signal.SIG_IGN)  # it exits after `up` alone
    report: dict[str, Any] = {"ranks": [], "terminal": None}
    for line in sys.stdin:
        with suppress(ValueError):  # `up` was killed while it wrote
            report = json.loads(line)
    if report["terminal"] is not None:
        restore(KeyMode(*report["terminal"]))
    ranks = report["ranks"]
    for rank in sorted({rank for _, rank in ranks}):
        stop([pid for pid, of in ranks if of == rank])


def stop(pids: list[int]) -> None:
    """Terminates processes, each the leader of its process group, and kills those groups that do not exit."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    ends = time.monotonic() + STOP_SECONDS
    while time.monotonic() < ends and any(map(_runs, pids)):
        time.sleep(POLL_SECONDS)
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):  # macOS: a group of zombies may not be signalled
            os.killpg(pid, signal.SIGKILL)


def restore(mode: KeyMode) -> None:
    """Restores a terminal, unless its attributes were changed since: a shell that takes over sets its own."""
    try:
        terminal = os.open(mode.device, os.O_RDWR | os.O_NOCTTY)
    except OSError:  # it was closed
        return
    with suppress(OSError, termios.error):
        if attributes(terminal) == mode.during:
            termios.tcsetattr(terminal, termios.TCSANOW, mode.before)
        os.write(terminal, SHOW_CURSOR)
    os.close(terminal)


def attributes(terminal: int) -> list[Any]:
    """Returns the attributes of `termios`, with control characters as numbers, so that they can be sent as JSON."""
    *flags, characters = termios.tcgetattr(terminal)
    return [*flags, [each if isinstance(each, int) else ord(each) for each in characters]]


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    main()
