"""`ghapp.log` of `ghapp up`: the output of all roles in one file that rotates.

Roles write to pipes that `up` reads, because several processes must not rotate one file.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import IO

from ghapp.state_directory import file_problem, is_missing, require_regular_file
from ghapp.untrusted_text import visible

MOST_BYTES = 10 * 1024 * 1024
"""Of the file; a line that would exceed it begins the next file."""

OLD_FILES = 3
"""`ghapp.log.1` to `ghapp.log.3`; the oldest is deleted when the next one is begun."""

MOST_LINE_BYTES = 1024 * 1024
"""A longer line is split, so that no role can make a file grow beyond its bound."""

LAST_WORDS_SECONDS = 1.0
"""Wait for the rest of a role's output after the role has exited; a process that it left behind may hold the pipe."""


class _LogFile(RotatingFileHandler):
    """The file that rotates. A line that cannot be written is lost; `failure` says why the last one was."""

    failure: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Writes a line; to a new file if the file was deleted."""
        self.failure = None
        if self.stream is not None and is_missing(Path(self.baseFilename)):
            deleted, self.stream = self.stream, None  # the next line opens a new one
            with suppress(OSError):
                deleted.close()
        super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002, N802 - overrides logging's
        """Keeps the reason. By default, logging prints a traceback for each line to the terminal."""
        error = sys.exc_info()[1]
        self.failure = file_problem(error) if isinstance(error, OSError) else str(error)

    def close(self) -> None:
        """Closes the file; what could not be written is lost."""
        with suppress(OSError):
            super().close()


class RoleOutput(threading.Thread):
    """Copies what one process prints to the log, until the process closes its pipe."""

    def __init__(self, pipe: IO[bytes], write: Callable[[str], None]) -> None:
        super().__init__(daemon=True)
        self._pipe, self._write, self._last_line = pipe, write, ""

    def run(self) -> None:
        """Copies line by line."""
        with self._pipe as pipe:
            while line := pipe.readline(MOST_LINE_BYTES):
                text = visible(line.decode("utf-8", "replace").removesuffix("\n"))
                self._last_line = text.strip() or self._last_line
                self._write(text)

    def last_line(self) -> str:
        """Returns the last line, without blanks, that a process printed which has exited."""
        self.join(LAST_WORDS_SECONDS)
        return self._last_line


class RoleLog:
    """The file, and a thread for each process whose output goes there."""

    def __init__(self, path: Path, *, most_bytes: int = MOST_BYTES) -> None:
        """Opens the file, and appends to it.

        Raises:
            OSError: it cannot be written; `filename` is its path.
        """
        require_regular_file(path)
        self._file = _LogFile(path, maxBytes=most_bytes, backupCount=OLD_FILES, encoding="utf-8")
        self._outputs: list[RoleOutput] = []

    @property
    def failure(self) -> str | None:
        """Why the last line could not be written; None if it was."""
        return self._file.failure

    def follow(self, process: subprocess.Popen[bytes]) -> RoleOutput:
        """Starts to write what a process prints to its pipe."""
        assert process.stdout is not None  # noqa: S101 - it was started with a pipe
        self._outputs = [each for each in self._outputs if each.is_alive()]
        output = RoleOutput(process.stdout, self._write)
        output.start()
        self._outputs.append(output)
        return output

    def warning(self, event: str, **facts: str | float) -> None:
        """Writes a line of `up` itself, in the form of the roles' lines."""
        at = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        self._write(json.dumps({**facts, "event": event, "level": "warning", "timestamp": at}))

    def close(self) -> None:
        """Writes what the processes, which have exited, printed last, and closes the file."""
        for output in self._outputs:
            output.join(LAST_WORDS_SECONDS)
        self._file.close()

    def _write(self, line: str) -> None:
        self._file.handle(logging.makeLogRecord({"msg": line}))
