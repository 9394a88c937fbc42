"""Processes that exit are started again, later each time."""

from __future__ import annotations

import pytest

from ghapp.local.supervised_process import CANNOT_START, RestartDelay, SupervisedProcess


def test_the_delay_doubles_up_to_a_minute_and_a_steady_run_ends_it():
    delay = RestartDelay()
    assert [delay.after(1.0) for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert delay.after(59.9) == 60
    assert [delay.after(60.0), delay.after(0.0), delay.after(0.0)] == [0, 1, 2]


class Process:
    """A process that runs until `exit_code` is set."""

    def __init__(self):
        self.exit_code = None

    def poll(self):
        return self.exit_code


class Supervision:
    """A supervised process by a clock that the test moves."""

    def __init__(self):
        self.now, self.started, self.exits, self.fails = 100.0, [], [], False
        self.process = SupervisedProcess("web", self.start, self.exited, lambda: self.now)

    def start(self):
        if self.fails:
            raise FileNotFoundError(2, "No such file or directory", "/bin/python")
        self.started.append(Process())
        return self.started[-1]

    def exited(self, process, exit_code, delay):
        self.exits.append((process.name, exit_code, delay))

    def exit(self, code):
        self.started[-1].exit_code = code

    def after(self, seconds):
        """Supervises as often as `up` does; returns how many processes were started so far."""
        for _ in range(int(seconds * 2)):
            self.now += 0.5
            self.process.supervise()
        return len(self.started)


@pytest.fixture
def supervision():
    return Supervision()


def test_one_that_runs_is_left_alone(supervision):
    assert supervision.after(3600) == 1
    assert (supervision.exits, supervision.process.next_start) == ([], None)


def test_one_that_ran_for_a_minute_is_started_at_once(supervision):
    supervision.after(60)
    supervision.exit(-9)
    assert supervision.after(0.5) == 2
    assert (supervision.exits, supervision.process.restarts) == ([("web", -9, 0.0)], 1)


def test_one_that_cannot_start_is_started_seven_times_in_two_minutes_and_then_once_a_minute(supervision):
    for _ in range(240):
        supervision.exit(1)
        supervision.after(0.5)
    assert len(supervision.started) == 7
    for _ in range(240):
        supervision.exit(1)
        supervision.after(0.5)
    assert len(supervision.started) == 9


def test_each_exit_is_reported_once_and_the_next_start_is_known_meanwhile(supervision):
    supervision.exit(1)
    supervision.after(0.5)
    assert supervision.process.next_start is not None
    supervision.after(1.5)
    assert (supervision.exits, supervision.process.next_start) == ([("web", 1, 1.0)], None)


def test_a_start_that_the_system_refuses_is_tried_again(supervision):
    supervision.exit(1)
    supervision.fails = True
    supervision.after(10)
    assert {code for _, code, _ in supervision.exits[1:]} == {CANNOT_START}
    assert supervision.process.start_failure == "cannot use /bin/python: No such file or directory"
    supervision.fails = False
    assert supervision.after(16) == 2
    assert supervision.process.start_failure is None
