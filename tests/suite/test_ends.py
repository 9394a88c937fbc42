"""However the suite ends, no process, no port and no file of it stays."""

from __future__ import annotations

import json
import os
import signal
import socket
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.suite.nested import LEAVING, nested_suite
from tests.support.waiting import has_ended, wait_for


@contextmanager
def leaving_suite(tmp_path, how, **options):
    """Yields a suite whose test has started everything, and what that is; then nothing of it may be left."""
    file = tmp_path / "report"
    environ = {"TESTS_END": json.dumps({"how": how, "file": str(file)})}
    with nested_suite(LEAVING, environ=environ, **options) as suite:
        assert wait_for(lambda: file.exists() or suite.process.poll() is not None)
        assert file.exists(), suite.output
        report = json.loads(file.read_text())
        yield suite, report
        suite.end()
        assert wait_for(lambda: not suite.processes()), suite.processes()
        assert wait_for(lambda: all(map(has_ended, report["started"])))
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", report["port"]))
        assert wait_for(lambda: not suite.files()), suite.files()


def test_a_suite_that_has_passed_and_left_something_fails_and_names_it(tmp_path):
    with leaving_suite(tmp_path, "passes") as (suite, _):
        assert suite.end() == 1
        assert "1 passed" in suite.output
        processes = suite.output.partition("the suite left:")[2]
        assert "sleep 600" in processes
        assert "socket.create_server" in processes
        assert f"{suite.folder}/ghapp-suite-" in processes


@pytest.mark.parametrize("how", ["fails", "timeout"])
def test_nothing_is_left_when_a_test(how, tmp_path):
    with leaving_suite(tmp_path, how) as (suite, _):
        assert suite.end() == 1
        assert "1 failed" in suite.output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_nothing_is_left_when_the_suite_receives(number, tmp_path):
    with leaving_suite(tmp_path, "waits") as (suite, _):
        suite.process.send_signal(number)


def test_nothing_is_left_when_a_worker_is_killed(tmp_path):
    with leaving_suite(tmp_path, "waits") as (suite, report):
        os.kill(report["test"], signal.SIGKILL)
        assert wait_for(lambda: "crashed" in suite.output), suite.output


def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.parametrize("which", ["controller", "supervisor"])
def test_nothing_is_left_when_a_process_between_the_caller_and_the_workers_is_killed(which, tmp_path):
    with leaving_suite(tmp_path, "waits") as (suite, report):
        controller = parent_of(report["test"])
        supervisor = parent_of(controller)
        assert parent_of(supervisor) == suite.process.pid
        os.kill({"controller": controller, "supervisor": supervisor}[which], signal.SIGKILL)
        assert suite.end() == 128 + signal.SIGKILL


def test_a_signal_that_the_caller_has_ignored_does_not_end_the_suite(tmp_path):
    with leaving_suite(tmp_path, "waits", condition="trap '' HUP") as (suite, report):
        ignored = next(
            line for line in Path(f"/proc/{suite.process.pid}/status").read_text().splitlines() if "SigIgn" in line
        )
        assert int(ignored.split()[1], 16) & 1 << (signal.SIGHUP - 1), "the kernel drops it"
        suite.process.send_signal(signal.SIGHUP)
        assert Path(f"/proc/{report['test']}").exists()
        suite.process.send_signal(signal.SIGTERM)
        assert suite.end() == 128 + signal.SIGTERM
