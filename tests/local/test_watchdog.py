"""The watchdog stops what `ghapp up` started, when its pipe is closed."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import termios
import time
import tty
from pathlib import Path

import pytest

from ghapp.local import watchdog
from ghapp.local.watchdog import FIRST, LAST, STOPPING, KeyMode, Watchdog, attributes, restore, stop, uninterrupted

SLEEPS = "import time; print(flush=True); time.sleep(600)"
IGNORES = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEPS
WAITS_FOR = """
import os, signal, sys, time

def asked(*_):
    # Writes which of the others still live when this process is asked to end.
    alive = [pid for pid in map(int, sys.argv[2:]) if os.path.exists(f"/proc/{pid}") and "Z" not in open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0]]
    open(sys.argv[1], "w").write(repr(alive))
    sys.exit()

signal.signal(signal.SIGTERM, asked)
print(flush=True)
time.sleep(600)
"""


@pytest.fixture
def start():
    begun = []

    def run(program, *arguments):
        command = [sys.executable, "-c", program, *map(str, arguments)]
        begun.append(subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True))
        begun[-1].stdout.readline()
        return begun[-1]

    yield run
    for each in begun:
        each.kill()
        each.wait()
        each.stdout.close()


def test_processes_that_run_at_the_end_are_stopped_and_those_that_others_need_come_last(start, tmp_path):
    dog, received = Watchdog(), tmp_path / "alive"
    role = start(SLEEPS)
    needed = start(WAITS_FOR, received, role.pid)
    dog.add(needed, LAST)
    dog.add(role, FIRST)
    dog._watchdog.stdin.close()  # what the kernel does when `up` is killed
    assert (role.wait(10), needed.wait(10)) == (-signal.SIGTERM, 0)
    assert received.read_text() == "[]", "the role had ended by then"
    dog._watchdog.wait(10)


@pytest.fixture
def signals_interrupt():
    before = {number: signal.signal(number, signal.default_int_handler) for number in STOPPING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("signals_interrupt")
@pytest.mark.parametrize("number", STOPPING)
def test_a_signal_between_a_start_and_its_record_interrupts_only_after_the_record(start, number):
    dog, started = Watchdog(), []

    def start_and_record():
        with uninterrupted():
            started.append(start(SLEEPS))
            os.kill(os.getpid(), number)
            time.sleep(0)  # the interpreter calls handlers between two instructions
            dog.add(started[0])

    with pytest.raises(KeyboardInterrupt):
        start_and_record()
    dog.end()
    assert started[0].wait(10) == -signal.SIGTERM
    assert signal.getsignal(number) is signal.default_int_handler


@pytest.mark.usefixtures("signals_interrupt")
def test_a_block_that_failed_has_the_handlers_restored():
    with pytest.raises(ValueError, match="it failed"), uninterrupted():
        raise ValueError("it failed")
    assert {signal.getsignal(number) for number in STOPPING} == {signal.default_int_handler}


def test_a_process_that_was_ended_is_not_stopped_again(start):
    dog = Watchdog()
    ended, runs = start(SLEEPS), start(SLEEPS)
    dog.add(ended)
    dog.add(runs)
    ended.kill()
    ended.wait()
    dog.sync()
    assert dog._sent["ranks"] == [(runs.pid, FIRST)]
    runs.kill()
    runs.wait()
    dog.end()
    assert dog._sent["ranks"] == []
    assert dog._watchdog.returncode == 0


def test_a_watchdog_that_was_killed_is_started_again_and_knows_the_processes(start):
    dog = Watchdog()
    runs = start(SLEEPS)
    dog.add(runs)
    dog._watchdog.kill()
    dog._watchdog.wait()
    dog.sync()
    dog._watchdog.stdin.close()
    assert runs.wait(10) == -signal.SIGTERM
    dog._watchdog.wait(10)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_outlives_signals_that_everything_gets(start, number):
    dog = Watchdog()
    runs = start(SLEEPS)
    dog.add(runs)
    first = subprocess.Popen(
        [sys.executable, "-m", "ghapp.local.watchdog"], stdin=subprocess.PIPE, start_new_session=True
    )
    first.stdin.write(json.dumps({"ranks": [[runs.pid, FIRST]], "terminal": None}).encode() + b'\n{"ranks": [')
    first.stdin.flush()
    ignored = 1 << (number - 1)
    while not int(_status(first.pid, "SigIgn"), 16) & ignored:
        assert first.poll() is None
    os.kill(first.pid, number)
    assert runs.poll() is None
    first.stdin.close()
    assert (runs.wait(10), first.wait(10)) == (-signal.SIGTERM, 0)
    dog.end()


def _status(pid, name):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith(f"{name}:"))


def test_a_process_that_does_not_exit_is_killed_with_its_children(start, monkeypatch):
    monkeypatch.setattr(watchdog, "STOP_SECONDS", 0.2)
    stubborn = start(IGNORES)
    stop([stubborn.pid])
    assert stubborn.wait(10) == -signal.SIGKILL


def test_a_process_that_is_not_there_any_more_is_no_error(start):
    ended = start(SLEEPS)
    ended.kill()
    ended.wait()
    stop([ended.pid])


@pytest.fixture
def terminal():
    """One in key mode: its file descriptor, and its `KeyMode`."""
    ours, theirs = pty.openpty()
    before = attributes(theirs)
    tty.setcbreak(theirs, termios.TCSANOW)
    yield theirs, KeyMode(os.ttyname(theirs), before, attributes(theirs))
    os.close(ours)
    os.close(theirs)


def test_the_terminal_is_restored_when_the_pipe_is_closed_in_key_mode(terminal):
    descriptor, mode = terminal
    dog = Watchdog()
    dog.terminal(mode)
    dog._watchdog.stdin.close()
    dog._watchdog.wait(10)
    assert attributes(descriptor) == mode.before != mode.during


def test_a_terminal_that_was_restored_is_left_alone(terminal):
    descriptor, mode = terminal
    dog = Watchdog()
    dog.terminal(mode)
    dog.terminal(None)
    dog.end()
    assert attributes(descriptor) == mode.during


def test_attributes_that_a_shell_has_set_since_are_left_alone(terminal):
    descriptor, mode = terminal
    tty.setraw(descriptor, termios.TCSANOW)
    of_shell = attributes(descriptor)
    restore(mode)
    assert attributes(descriptor) == of_shell != mode.during


def test_a_terminal_that_was_closed_is_no_error(terminal):
    restore(terminal[1]._replace(device="/dev/pts/none"))
