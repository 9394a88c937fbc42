"""Runs the suite in surroundings of its own, and ends whatever it has started, however the suite ends.

pytest runs as the grandchild of the process that the caller started. That process passes signals on; its child, the
supervisor, leads a session of its own. Both adopt orphaned descendants (`PR_SET_CHILD_SUBREAPER`), hence each process
that a test starts remains a descendant of both, with whatever session, environment and title. When pytest has ended, or
the process of the caller has, by a kill -9 too, the descendants are killed, and the folder of temporary files is removed.
If the supervisor is killed, the process of the caller does both.
"""

from __future__ import annotations

import ctypes
import locale
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest

KEPT = ("PATH", "LD_LIBRARY_PATH", "PY_COLORS")
KEPT_PREFIXES = ("PYTEST_", "TESTS_", "COVERAGE_")
"""The variables that the tests inherit; all others depend on the caller."""

FORWARDED = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
EXIT_SECONDS = 10.0
"""How long processes whose parent has ended, like a fork server, get to exit by themselves."""

STDERR = 2
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
BASE, HOME = "t", "home"
"""pytest's folders, and the home directory."""

SHORT, LONGEST = "/tmp", 10
"""The path of a Unix socket has at most 107 bytes. Redis' is 97 bytes longer, with xdist and a test of a long name.
The files that tests copy from documents and from the Dockerfile are not written for paths that have spaces.
"""


def isolate(config: pytest.Config) -> None:
    """Returns in the process that runs pytest. The calling process exits when all of the suite has ended."""
    sys.stdout.flush()
    sys.stderr.flush()
    _open_standard_streams()
    folder = Path(tempfile.mkdtemp(prefix="ghapp-suite-", dir=_directory()))
    if sys.platform == "linux":
        caller = os.getpid()
        _fork(folder)
        os.setsid()
        _fork(folder, parent=caller)
    _set_signals()
    os.umask(0o022)
    _set_environment(folder, config)
    if config.option.basetemp is None:
        config.option.basetemp = folder / BASE


def _directory() -> str:
    """The folder that holds the suite's: that of `TESTS_TMPDIR`, or the caller's for temporary files, if it is short and plain."""
    usual = tempfile.gettempdir()
    is_plain = re.fullmatch(rf"[\w./-]{{1,{LONGEST}}}", usual, re.ASCII) or not os.access(SHORT, os.W_OK)
    return os.environ.get("TESTS_TMPDIR") or (usual if is_plain else SHORT)


def _open_standard_streams() -> None:
    """A stream that the caller has closed is /dev/null; the next file would get its number otherwise."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= STDERR:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


def _set_signals() -> None:
    """No signal is ignored or blocked, but for those that Python ignores and subprocesses do not inherit."""
    for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _set_environment(folder: Path, config: pytest.Config) -> None:
    for name, color in (("NO_COLOR", "no"), ("FORCE_COLOR", "yes")):
        if os.environ.get(name) and config.option.color == "auto":
            config.option.color = color
    kept = {name: each for name, each in os.environ.items() if name in KEPT or name.startswith(KEPT_PREFIXES)}
    home = folder / HOME
    home.mkdir()
    os.environ.clear()
    for name in ("COLUMNS", "LINES"):
        os.unsetenv(name)  # the module readline sets them, and `os.environ` does not show it
    os.environ.update(kept, HOME=str(home), TMPDIR=str(folder), LC_ALL="C.UTF-8", TZ="UTC")
    tempfile.tempdir = None  # it is read from TMPDIR once
    time.tzset()
    with suppress(locale.Error):  # macOS lacks this locale, and does not need it
        locale.setlocale(locale.LC_ALL, "")


def _fork(folder: Path, parent: int | None = None) -> None:
    """Returns in the child. The calling process waits for the child, cleans up, and exits with the child's exit code.

    Args:
        folder: the suite's folder of temporary files.
        parent: the process id of the caller's parent, whose end is that of the suite; None: any parent may end.
    """
    waited = {signal.SIGCHLD, *(each for each in FORWARDED if signal.getsignal(each) is not signal.SIG_IGN)}
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    child = os.fork()
    if child == 0:
        return
    code = 1
    try:
        if parent is not None:
            _prctl(PR_SET_PDEATHSIG, signal.SIGCHLD)
        code = _wait(child, parent, waited)
        if left := _left(folder) if code == 0 else []:
            code = 1
            print("the suite left:", *left, sep="\n  ", file=sys.stderr, flush=True)  # noqa: T201
        _kill_children()
        _remove(folder)
    finally:
        os._exit(code)


def _wait(child: int, parent: int | None, waited: set[signal.Signals]) -> int:
    """Returns the child's exit code, as a shell shows it; 1 if the parent has ended."""
    while parent in (None, os.getppid()):
        number = signal.sigwait(waited)
        if number != signal.SIGCHLD:
            os.kill(child, number)
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:  # adopted processes, too
            if ended[0] == child:
                code = os.waitstatus_to_exitcode(ended[1])
                return code if code >= 0 else 128 - code
    return 1


def _left(folder: Path) -> list[str]:
    """The processes and files that are left after a suite that has passed."""
    ends = time.monotonic() + EXIT_SECONDS
    with suppress(ChildProcessError):
        while time.monotonic() < ends:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.02)
    processes = [Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode() for pid in _children()]
    files = [str(each) for each in folder.glob("*") if each.name not in (BASE, HOME)]
    return processes + files


def _children() -> list[int]:
    return [int(pid) for pid in Path("/proc/thread-self/children").read_text().split()]


def _kill_children() -> None:
    """Kills all descendants: the children of a killed child are children of this process."""
    with suppress(ChildProcessError):
        while True:
            for pid in _children():
                os.kill(pid, signal.SIGKILL)
            os.waitpid(-1, 0)


def _remove(folder: Path) -> None:
    for path, names, _ in os.walk(folder):
        for name in names:
            if not (directory := Path(path, name)).is_symlink():
                directory.chmod(0o700)  # a test may have taken the rights away
    shutil.rmtree(folder, ignore_errors=True)


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
