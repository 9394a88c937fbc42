"""`ghapp up` dies, or its terminal is closed: no process of it stays, Redis and the simulated GitHub included.

A terminal that stays open is as it was before.
"""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import termios
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.ports import free_port
from tests.support.terminal import OWN_TERMINAL
from tests.support.waiting import wait_for

ENDED_SECONDS = 60
LOCAL_FLAGS = 3
HIDE_CURSOR, SHOW_CURSOR = b"\x1b[?25l", b"\x1b[?25h"


def of(mark):
    """The processes with a mark in their environment, or in their title, as Redis has it: process id → command line."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            title = (path / "cmdline").read_bytes()
            marked = mark.encode() in (path / "environ").read_bytes() + title
            if marked and "\tZ" not in (path / "status").read_text():
                found[int(path.name)] = title.replace(b"\0", b" ").decode()
    return found


def all_run(mark):
    """Them, if everything has started."""
    found = of(mark)
    text = " ".join(found.values())
    roles = tuple(f"ghapp {role}" for role in ("up", "web", "worker", "clock", "watch"))
    parts = (*roles, "ghapp.sandbox", "ghapp.local.watchdog", "redis")
    return found if all(part in text for part in parts) else None


@pytest.mark.xdist_group("up")
@pytest.mark.parametrize("how", ["SIGKILL", "SIGHUP", "SIGTERM", "terminal closed"])
def test_no_process_stays_when_up_is_killed_or_its_terminal_is_closed(tmp_path, how):
    mark, shown = str(tmp_path), bytearray()
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(ours)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GHAPP_")}
    environ |= {"COLUMNS": "100", "LINES": "40", "TERM": "xterm", "TMPDIR": mark}
    command = [sys.executable, "-m", "ghapp", "up", "--sandbox", "--port", str(free_port())]
    up = subprocess.Popen(
        [sys.executable, "-c", OWN_TERMINAL, *command],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environ,
        start_new_session=True,  # with this terminal as its own
    )
    os.close(theirs)
    if how != "terminal closed":
        threading.Thread(target=_drain, args=(ours, shown), daemon=True).start()
    try:
        if how == "terminal closed":
            begun = wait_for(lambda: _drained(ours) or all_run(mark))
            os.close(ours)  # the kernel sends SIGHUP, and writing fails
        else:
            begun = wait_for(lambda: all_run(mark) if reads_keys(ours) and HIDE_CURSOR in shown else None)
            os.kill(up.pid, getattr(signal, how))
        assert begun, of(mark)
        up.wait(ENDED_SECONDS)
        assert wait_for(lambda: not of(mark), ENDED_SECONDS), of(mark)
        if how in ("SIGHUP", "SIGTERM"):
            assert up.returncode == 0
        if how != "terminal closed":
            assert termios.tcgetattr(ours) == before
            assert wait_for(lambda: shown.rfind(SHOW_CURSOR) > shown.rfind(HIDE_CURSOR)), shown[-200:]
    finally:
        for pid in of(mark):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        up.wait()
        if how != "terminal closed":
            os.close(ours)


def reads_keys(terminal):
    return not termios.tcgetattr(terminal)[LOCAL_FLAGS] & (termios.ICANON | termios.ECHO)


def _drain(terminal, shown):
    with suppress(OSError):
        while found := os.read(terminal, 65536):
            shown += found


def _drained(terminal):
    """Reads what is there, so that `up` does not wait for its terminal; always False."""
    os.set_blocking(terminal, False)
    with suppress(OSError):
        os.read(terminal, 1 << 20)
    return False
