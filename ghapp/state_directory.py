"""`GHAPP_STATE_DIR`: whether `ghapp up` can keep its data there."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ghapp.errors import ConfigurationError

LEAST_FREE_BYTES = 64 * 1024 * 1024
"""Below this, Redis may fail to write at any moment: it rewrites its append-only file beside the old one, and the log
of the roles takes up to 40 MB.
"""

LONGEST_SOCKET_PATH = 103
"""Bytes of a Unix socket's path: 107 on Linux, 103 on macOS."""


def prepare_state_directory(path: Path, variable: str = "GHAPP_STATE_DIR") -> None:
    """Creates the directory with mode 0700 if it does not exist, and checks that files can be written there.

    Args:
        path: the directory.
        variable: the environment variable that names it.

    Raises:
        ConfigurationError: they cannot; the message names the path and the reason.
    """
    if path.parts[:1] == ("~",):  # of the default path, where this user has no home directory
        raise ConfigurationError(f"{variable}: not set, and this user has no home directory; set it")
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError:
        raise ConfigurationError(f"{variable}: {path} is not a directory") from None
    except OSError as error:
        raise ConfigurationError(f"{variable}: cannot create {path}: {error.strerror}") from None
    if problem := find_problem(path):
        raise ConfigurationError(f"{variable}: {problem}; set another directory")


def find_problem(path: Path) -> str | None:
    """Returns in one line why data cannot be kept in this directory; None if they can."""
    try:
        with tempfile.TemporaryFile(dir=path) as probe:
            probe.write(b"probe")
            probe.flush()
    except OSError as error:
        return f"cannot write to {path}: {error.strerror}"
    return find_space_problem(path)


def find_space_problem(path: Path) -> str | None:
    """Returns in one line how little space is left; None if it is enough. Writes nothing."""
    try:
        free = shutil.disk_usage(path).free
    except OSError as error:
        return f"cannot read {path}: {error.strerror}"
    if free >= LEAST_FREE_BYTES:
        return None
    return f"{path} has {free // 2**20} MiB of free space, and ghapp needs {LEAST_FREE_BYTES // 2**20} MiB"


def is_missing(path: Path) -> bool:
    """True if there is nothing at this path; False also where the system does not say."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def require_regular_file(path: Path) -> None:
    """Checks that a file that is to be written is not a FIFO, which would wait for a reader, a directory or a socket.

    Raises:
        OSError: it is, or the system does not say; `filename` is the path.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if not (stat.S_ISREG(mode) or stat.S_ISCHR(mode)):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))


def file_problem(error: OSError) -> str:
    """Returns an error of a file, or of a program that cannot be started, in one line with its path."""
    why = error.strerror or str(error)
    return why if error.filename is None else f"cannot use {os.fsdecode(error.filename)}: {why}"


@contextmanager
def named_file_errors(variable: str) -> Iterator[None]:
    """Raises ConfigurationError with the variable and the path in place of an OSError."""
    try:
        yield
    except OSError as error:
        raise ConfigurationError(f"{variable}: {file_problem(error)}") from None


def require_short_path(socket_path: Path, variable: str) -> None:
    """Checks that a Unix socket can have this path, below the directory that this environment variable names.

    Raises:
        ConfigurationError: the path is too long.
    """
    length = len(os.fsencode(socket_path))
    if length > LONGEST_SOCKET_PATH:
        raise ConfigurationError(
            f"{variable}: the path of its Redis socket has {length} bytes, at most {LONGEST_SOCKET_PATH} are "
            f"possible: {socket_path}; set a shorter directory"
        )
