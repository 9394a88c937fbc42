"""Run by test_caller.py as a suite: the surroundings of each test, whatever those of the caller are."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPORT = """
import locale, os, signal, sys
ignored = [each for each in signal.valid_signals() if signal.getsignal(each) is signal.SIG_IGN]
assert set(ignored) == {signal.SIGPIPE, signal.SIGXFSZ}, ignored
assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
assert locale.getencoding().lower() == sys.getfilesystemencoding() == "utf-8"
print("as Python is by itself")
"""


def test_no_signal_is_ignored_or_blocked_in_a_process_that_a_test_starts():
    done = subprocess.run([sys.executable, "-c", REPORT], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("as Python is by itself\n", "")


def test_no_signal_is_ignored_or_blocked_in_the_process_of_the_test():
    exec(REPORT, {})


def test_a_file_is_readable_by_others(tmp_path):
    (tmp_path / "file").touch()
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o644


def test_text_is_utf_8(tmp_path):
    (tmp_path / "file").write_text("…")
    assert (tmp_path / "file").read_bytes() == "…".encode()


def test_the_time_zone_is_utc():
    assert (time.timezone, time.daylight, time.localtime().tm_gmtoff) == (0, 0, 0)


def test_the_home_directory_is_writable_and_empty():
    home = Path.home()
    assert list(home.iterdir()) == []
    (home / "file").touch()
    (home / "file").unlink()


def test_temporary_files_are_in_one_folder(tmp_path):
    assert Path(tempfile.gettempdir()) in tmp_path.parents
    assert Path.home().parent == Path(tempfile.gettempdir())


def test_no_variable_is_that_of_the_caller():
    ours = {"PATH", "HOME", "TMPDIR", "LC_ALL", "TZ", "SSL_CERT_FILE", "XDG_STATE_HOME"}
    assert {name for name in os.environ if not name.startswith(("PYTEST_", "TESTS_"))} == ours


def test_standard_input_is_empty():
    with open(0, closefd=False) as stdin:
        assert stdin.read() == ""
