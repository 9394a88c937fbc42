"""`ghapp.log`: the output of all roles in one file that rotates."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import closing
from types import SimpleNamespace

import pytest

from ghapp.errors import ConfigurationError
from ghapp.local import role_log, up
from ghapp.local.role_log import OLD_FILES, RoleLog
from ghapp.state_directory import file_problem

MOST = 4096


def printing(script):
    command = [sys.executable, "-c", script]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def test_all_lines_of_two_roles_are_in_one_file_each_whole_and_in_order(tmp_path):
    with closing(RoleLog(tmp_path / "ghapp.log")) as log:
        for name in ("web", "worker"):
            process = printing(f"import sys; [print('{name}', n, file=sys.stderr, flush=True) for n in range(200)]")
            log.follow(process)
            process.wait()
    lines = (tmp_path / "ghapp.log").read_text().splitlines()
    for name in ("web", "worker"):
        assert [line for line in lines if line.startswith(name + " ")] == [f"{name} {n}" for n in range(200)]
    assert len(lines) == 400


def test_the_files_stay_within_their_bound_and_the_newest_lines_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(role_log, "LAST_WORDS_SECONDS", 60)  # each tenth line begins a file
    with closing(RoleLog(tmp_path / "ghapp.log", most_bytes=MOST)) as log:
        process = printing("[print(f'line {n:06}') for n in range(5000)]")
        log.follow(process)
        process.wait()
    files = sorted(tmp_path.iterdir())
    assert [each.name for each in files] == ["ghapp.log", *(f"ghapp.log.{n}" for n in range(1, OLD_FILES + 1))]
    assert max(each.stat().st_size for each in files) <= MOST
    assert (tmp_path / "ghapp.log").read_text().splitlines()[-1] == "line 004999"


def test_a_line_without_an_end_is_split(tmp_path, monkeypatch):
    monkeypatch.setattr(role_log, "MOST_LINE_BYTES", 100)
    with closing(RoleLog(tmp_path / "ghapp.log", most_bytes=MOST)) as log:
        process = printing("print('x' * 250, end='')")
        log.follow(process)
        process.wait()
    assert (tmp_path / "ghapp.log").read_text() == f"{'x' * 100}\n{'x' * 100}\n{'x' * 50}\n"


@pytest.mark.parametrize("printed", [b"100 %s", b"\\xff"], ids=["format characters", "no UTF-8"])
def test_any_bytes_are_written_as_text(tmp_path, printed):
    with closing(RoleLog(tmp_path / "ghapp.log")) as log:
        process = printing(f"import sys; sys.stdout.buffer.write(b'{printed.decode()}')")
        log.follow(process)
        process.wait()
    expected = printed.decode().replace("\\xff", "\N{REPLACEMENT CHARACTER}")
    assert (tmp_path / "ghapp.log").read_text() == f"{expected}\n"


def test_a_second_start_appends_to_the_file(tmp_path):
    for number in range(2):
        with closing(RoleLog(tmp_path / "ghapp.log")) as log:
            process = printing(f"print('start {number}')")
            log.follow(process)
            process.wait()
    assert (tmp_path / "ghapp.log").read_text() == "start 0\nstart 1\n"


def test_a_role_that_was_killed_is_started_again_and_the_log_names_it(tmp_path):
    watchdog = SimpleNamespace(add=lambda _process: None)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GHAPP_")}
    with closing(RoleLog(tmp_path / "ghapp.log")) as log, up._role("clock", environ, log, watchdog) as role:
        killed = role.process
        role.supervise()
        assert role.process is killed
        killed.kill()
        killed.wait()
        role.supervise()
        assert role.problem().startswith(f"clock exited with code {-signal.SIGKILL}; it is started again at ")
        while role.process is killed:
            role.supervise()
        assert role.problem() is None
    rows = [json.loads(line) for line in (tmp_path / "ghapp.log").read_text().splitlines() if line.startswith("{")]
    assert [
        (row["event"], row["role"], row["exit_code"], row["restart_in_seconds"]) for row in rows if "role" in row
    ] == [("role exited, restarting", "clock", -signal.SIGKILL, 1.0)]


def test_a_role_that_refuses_its_configuration_ends_up_with_its_own_line(tmp_path):
    watchdog = SimpleNamespace(add=lambda _process: None)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GHAPP_")}
    environ["GHAPP_LISTEN"] = "nowhere"
    with closing(RoleLog(tmp_path / "ghapp.log")) as log, up._role("clock", environ, log, watchdog) as role:
        role.process.wait()
        with pytest.raises(ConfigurationError) as raised:
            role.supervise()
    assert str(raised.value) == (
        "GHAPP_LISTEN: 'nowhere' is not valid; it takes host:port, like 0.0.0.0:8000, "
        "with a port from 1 to 65535 (the role clock)"
    )


def test_a_line_that_cannot_be_written_is_lost_without_a_traceback_and_the_reason_is_known(tmp_path, capfd):
    (tmp_path / "ghapp.log").symlink_to("/dev/full")
    log = RoleLog(tmp_path / "ghapp.log")
    assert log.failure is None
    log.warning("role exited, restarting", role="web")
    assert log.failure == os.strerror(errno.ENOSPC)
    log.close()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["FIFO", "directory"])
def test_what_is_no_file_in_its_place_is_named_and_not_waited_for(tmp_path, make):
    make(tmp_path / "ghapp.log")
    with pytest.raises(OSError, match="it is not a regular file") as raised:
        RoleLog(tmp_path / "ghapp.log")
    assert file_problem(raised.value) == f"cannot use {tmp_path / 'ghapp.log'}: it is not a regular file"


def test_a_file_that_was_deleted_is_begun_again(tmp_path):
    path = tmp_path / "ghapp.log"
    with closing(RoleLog(path)) as log:
        log.warning("one")
        path.unlink()
        log.warning("two")
    assert [json.loads(line)["event"] for line in path.read_text().splitlines()] == ["two"]
    assert log.failure is None


def test_a_directory_that_was_deleted_is_a_failure_with_its_path_until_it_is_back(tmp_path, capfd):
    path = tmp_path / "state" / "ghapp.log"
    path.parent.mkdir()
    with closing(RoleLog(path)) as log:
        shutil.rmtree(path.parent)
        log.warning("one")
        assert log.failure == f"cannot use {path}: No such file or directory"
        path.parent.mkdir()
        log.warning("two")
        assert log.failure is None
    assert [json.loads(line)["event"] for line in path.read_text().splitlines()] == ["two"]
    assert capfd.readouterr() == ("", "")


def test_an_old_file_that_cannot_be_replaced_is_a_failure_with_its_path(tmp_path, capfd):
    (tmp_path / "ghapp.log.2").touch()
    (tmp_path / "ghapp.log.3").mkdir()
    with closing(RoleLog(tmp_path / "ghapp.log", most_bytes=200)) as log:
        for _ in range(3):
            log.warning("a line of some hundred bytes", role="x" * 60)
        assert log.failure.startswith(f"cannot use {tmp_path / 'ghapp.log.3'}: ")
    assert capfd.readouterr() == ("", "")


def test_a_role_that_does_not_reach_redis_at_its_start_is_started_again(tmp_path):
    watchdog = SimpleNamespace(add=lambda _process: None)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GHAPP_")}
    environ["GHAPP_REDIS_URL"] = "redis://127.0.0.1:1/0"
    with closing(RoleLog(tmp_path / "ghapp.log")) as log, up._role("clock", environ, log, watchdog) as role:
        role.process.wait()
        role.supervise()
        assert role.problem().startswith("clock exited: Redis does not answer")


def test_what_a_role_prints_is_text_in_the_file(tmp_path):
    with closing(RoleLog(tmp_path / "ghapp.log")) as log:
        process = printing("import sys; sys.stdout.buffer.write(b'odd \\x1b[2J\\xe2\\x80\\xae\\xff\\n')")
        output = log.follow(process)
        process.wait()
        assert output.last_line() == "odd \ufffd[2J\ufffd\ufffd"
    assert (tmp_path / "ghapp.log").read_text() == "odd \ufffd[2J\ufffd\ufffd\n"


def test_a_line_of_up_itself_is_in_the_file(tmp_path):
    with closing(RoleLog(tmp_path / "ghapp.log")) as log:
        up.Site.warn(SimpleNamespace(_log=log), "drawing failed", kind="MarkupError")
    (line,) = map(json.loads, (tmp_path / "ghapp.log").read_text().splitlines())
    assert (line["event"], line["kind"], line["level"]) == ("drawing failed", "MarkupError", "warning")
