"""`ghapp.log` of `ghapp up`: the output of all roles in one file that rotates.

Roles write to pipes that `up` reads, because several processes must not rotate one file.
"""

from __future__ import annotations

import json
import logging
import subprocess
import threading
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path

MOST_BYTES = 10 * 1024 * 1024
"""Of the file; a line that would exceed it begins the next file."""

OLD_FILES = 3
"""`ghapp.log.1` to `ghapp.log.3`; the oldest is deleted when the next one is begun."""

MOST_LINE_BYTES = 1024 * 1024
"""A longer line is split, so that no role can make a file grow beyond its bound."""

LAST_WORDS_SECONDS = 1.0
"""Wait for the rest of a role's output after the role has exited; a process that it left behind may hold the pipe."""


class RoleLog:
    """The file, and a thread for each process that writes to it."""

    def __init__(self, path: Path, *, most_bytes: int = MOST_BYTES) -> None:
        """Opens the file, and appends to it."""
        self._file = RotatingFileHandler(path, maxBytes=most_bytes, backupCount=OLD_FILES, encoding="utf-8")
        self._threads: list[threading.Thread] = []

    def follow(self, process: subprocess.Popen[bytes]) -> None:
        """Writes what a process prints to its pipe, until the pipe is closed."""
        self._threads = [each for each in self._threads if each.is_alive()]
        thread = threading.Thread(target=self._copy, args=(process,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def warning(self, event: str, **facts: str | int) -> None:
        """Writes a line of `up` itself, in the form of the roles' lines."""
        at = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        self._write(json.dumps({**facts, "event": event, "level": "warning", "timestamp": at}))

    def close(self) -> None:
        """Writes what the processes, which have exited, printed last, and closes the file."""
        for thread in self._threads:
            thread.join(LAST_WORDS_SECONDS)
        self._file.close()

    def _copy(self, process: subprocess.Popen[bytes]) -> None:
        pipe = process.stdout
        assert pipe is not None  # noqa: S101 - it was started with a pipe
        with pipe:
            while line := pipe.readline(MOST_LINE_BYTES):
                text = line.decode("utf-8", "replace").removesuffix("\n")
                self._write(text)

    def _write(self, line: str) -> None:
        self._file.handle(logging.makeLogRecord({"msg": line}))
