"""Stops the processes of `ghapp up` when `up` itself was killed.

`up` starts its processes in sessions of their own, so they would outlive a kill -9 of `up`. The watchdog is one more
process. It reads the process ids of the others from a pipe whose other end only `up` has open. When that end is closed,
by the kernel if need be, it stops what is left. This works on Linux and on macOS, and for Redis as well, which cannot
watch its parent. `PR_SET_PDEATHSIG` would work on Linux alone.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType

STOP_SECONDS = 10.0
"""How long the processes of one rank get to exit after SIGTERM."""

POLL_SECONDS = 0.05

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

FIRST, LAST = 0, 1
"""Ranks: processes of the rank `LAST` are stopped when the others have exited, because the others need them."""


class Watchdog:
    """The watchdog's process, as `up` sees it; started by the constructor."""

    def __init__(self) -> None:
        self._processes: list[tuple[subprocess.Popen[bytes], int]] = []
        self._sent: Mapping[int, int] = {}
        self._watchdog = self._start()

    def add(self, process: subprocess.Popen[bytes], rank: int = FIRST) -> None:
        """Has a process stopped if `up` is killed."""
        self._processes.append((process, rank))
        self.sync()

    def sync(self) -> None:
        """Reports which processes still run, if that has changed; restarts the watchdog if it has exited."""
        self._processes = [(each, rank) for each, rank in self._processes if each.returncode is None]
        ranks = {each.pid: rank for each, rank in self._processes}
        if self._watchdog.poll() is not None:
            self._watchdog, self._sent = self._start(), {}
        if ranks == self._sent:
            return
        with suppress(BrokenPipeError):  # it has just been killed; the next call starts another one
            assert self._watchdog.stdin is not None  # noqa: S101 - it was started with a pipe
            self._watchdog.stdin.write(json.dumps(list(ranks.items())).encode() + b"\n")
            self._sent = ranks

    def end(self) -> None:
        """Closes the pipe. The watchdog stops what still runs, and exits."""
        self.sync()
        with suppress(BrokenPipeError):
            assert self._watchdog.stdin is not None  # noqa: S101 - it was started with a pipe
            self._watchdog.stdin.close()
        self._watchdog.wait()

    @staticmethod
    def _start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "ghapp.local.watchdog"],
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
    """Reads lists of [process id, rank] from stdin until it is closed, then stops the processes of the last list."""
    for number in STOPPING:
        signal.signal(number, signal.SIG_IGN)  # it exits after `up` alone
    ranks: list[tuple[int, int]] = []
    for line in sys.stdin:
        with suppress(ValueError):  # `up` was killed while it wrote
            ranks = [(pid, rank) for pid, rank in json.loads(line)]
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


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    main()
