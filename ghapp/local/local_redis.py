"""A local Redis or Valkey for `ghapp up` and for tests: the first server of this machine that can read the data."""

from __future__ import annotations

import fcntl
import os
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
from ghapp.local.supervised_process import SupervisedProcess, clock_time, without_our_variables
from ghapp.local.watchdog import end, uninterrupted
from ghapp.state_directory import file_problem, is_missing, named_file_errors, require_regular_file, require_short_path

Started = Callable[[subprocess.Popen[bytes]], None]
Exited = Callable[[SupervisedProcess, int, float], None]
Waiting = Callable[[str], None]

START_SECONDS = 300.0
"""Time to read the data, a gigabyte or more. A server that exits is noticed at once."""

NOTICE_SECONDS = 3.0
"""After this, `up` prints what it waits for."""

SOCKET_SECONDS = 10.0
"""A server that runs has its socket after this; without one it accepts no connection, so the socket was deleted."""

MOST_LOG_BYTES = 1024 * 1024
"""Of `redis.log`, which is emptied at a start when it has more."""

_REPAIR = re.compile(r"[.:;] *(?:make a backup|you can:).*", re.IGNORECASE)
"""Redis' advice on a file that it cannot read. `redis-check-aof --fix` of one product cuts off what another wrote."""

RESTORE = " (restore the directory from a copy, or move it away to start without data)"

PACKAGE = ", or `pip install 'ghapp[embedded]'`"

_WRITER = re.compile(r"(\w+) (\d+(?:\.\d+)*)")

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
        f"GHAPP_REDIS_URL: not set, and there is no server on PATH{too_old}; install {SUPPORTED}{PACKAGE}"
    )


def is_listening(path: Path) -> bool:
    """True if a process listens on the socket; a killed Redis leaves its socket file behind."""
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
    return True


class _CannotRunError(OSError):
    """The system cannot run a server: it was removed, or there is no memory. Another server may do."""


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
        waiting: Waiting = lambda _: None,
        variable: str = "GHAPP_STATE_DIR",
    ) -> None:
        """Creates the folder; starts nothing.

        Args:
            folder: holds the data; created with mode 0700 if it does not exist.
            durable: True: every change is on disk before it is answered, and is read back at the start.
            servers: those to try, in this order; by default `choose_servers()`.
            started: called with each process that was started.
            exited: called when the process exited by itself, as by `SupervisedProcess`.
            waiting: called with a line that says what `start` waits for, if it takes longer than usual.
            variable: the environment variable that names the directory above the folder.

        Raises:
            ConfigurationError: there is no server, the path is too long, a file cannot be used, or another process
                uses the folder.
        """
        folder = folder.absolute()  # the server changes its directory before it opens its log
        self._folder, self._socket, self._log = folder, folder / "redis.sock", folder / "redis.log"
        self._server_file, self._variable, self._waiting = folder / "server", variable, waiting
        require_short_path(self._socket, variable)
        self._durable, self.url = durable, f"unix://{quote(str(self._socket))}"
        self._servers = choose_servers() if servers is None else servers
        self._started, self._exited = started, exited
        self._process: SupervisedProcess | None = None
        self.server: RedisServer | None = None
        with named_file_errors(variable):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            require_regular_file(folder / "lock")
            # Held until the end: another `up` may start while this Redis is down and about to be started again.
            self._lock = (folder / "lock").open("ab")
        self._require_alone()

    def start(self) -> None:
        """Starts the first server that can read the data, and returns when it answers.

        Raises:
            ConfigurationError: none can; the message has the last line that each wrote.
        """
        refusals = []
        writer = self._read_writer()
        for server in self._servers:
            with named_file_errors(self._variable):
                try:
                    why = self._start(server)
                except _CannotRunError as error:
                    why = str(error)
            if why is None:
                return
            refusals.append(f"{server}: {why}")
        if writer is None or any(server.reads(*writer) for server in self._servers):
            why = "; ".join(_REPAIR.sub(RESTORE, each) for each in refusals)
            raise ConfigurationError(f"the local Redis did not start: {why}; see {self._log}")
        name, why = " ".join(writer), "; ".join(_REPAIR.sub("", each) for each in refusals)
        raise ConfigurationError(
            f"{self._variable}: the data in {self._folder} were written by {name}, and no server here can read them: "
            f"{why}; install {name} or newer{PACKAGE if writer[0] == 'Valkey' else ''}. "
            f"The data are unchanged; see {self._log}"
        )

    def _start(self, server: RedisServer) -> str | None:
        """Starts a server, and returns when it answers; returns why it does not."""
        log_size = self._log_size()
        process = SupervisedProcess("redis", partial(self._launch, server), self._exited)
        try:
            why = self._wait(server, process.process)
        except BaseException:
            end(process.process)
            raise
        if why is not None:
            end(process.process)
            return why
        if process.process.poll() is not None:
            return self._last_line(log_size)
        self._process, self.server = process, server
        if self._durable:
            require_regular_file(self._server_file)
            self._server_file.write_text(f"{server.product} {server.version}\n")
        return None

    def problem(self) -> str | None:
        """Returns in one line that it does not run, or keeps no data; None if it does."""
        if self._process is None:
            return None
        if (at := self._process.next_start) is None:
            return self._deleted()
        why = f"cannot be started: {failure}" if (failure := self._process.start_failure) else "exited"
        return f"redis {why}; it is started again at {clock_time(at)}; see {self._log}"

    def supervise(self) -> None:
        """Starts it again if it has exited, for example out of memory. Durable data are read back.

        Without its socket it accepts no connection. If the data are durable, it is stopped, and started again with one.
        """
        if self._process is None:
            return
        self._process.supervise()
        runs = self._process.next_start is None and self._process.ran_seconds >= SOCKET_SECONDS
        if self._durable and runs and is_missing(self._socket) and self._deleted() is None:
            self._process.process.terminate()

    def _deleted(self) -> str | None:
        """Returns in one line what was deleted, or replaced, of the files that keep its data; None if nothing was."""
        data = self._folder / "appendonlydir"
        try:
            is_own = os.path.samestat(os.fstat(self._lock.fileno()), (self._folder / "lock").stat())
        except (FileNotFoundError, NotADirectoryError):
            is_own = False
        except OSError as error:
            return file_problem(error)
        if is_own and not (self._durable and is_missing(data)):
            return None
        deleted = data if is_own else self._folder
        return (
            f"{deleted} was deleted or replaced while ghapp ran: what it stores is lost at its end; "
            "stop ghapp, restore the directory if you have a copy, and start ghapp again"
        )

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
        why = f"another `ghapp up` keeps its Redis in {self._folder}; stop it, or set another directory"
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass
        except OSError as error:
            why = f"cannot lock a file in {self._folder}: {error.strerror}; set a directory on a local disk"
        else:
            if not is_listening(self._socket):
                return
        self._lock.close()
        raise ConfigurationError(f"{self._variable}: {why}")

    def _launch(self, server: RedisServer) -> subprocess.Popen[bytes]:
        # A server of another `up` may run in a new folder of this name; an empty one would hide that data were lost.
        if self._process is not None and (why := self._deleted()) is not None:
            raise OSError(why)
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
        is_long = self._log_size() > MOST_LOG_BYTES
        # What it prints before it has opened its log, such as an unknown option, belongs there, too.
        with self._log.open("wb" if is_long else "ab") as printed, uninterrupted():
            # In its own session, because Ctrl-C must not stop it: Redis is stopped last.
            try:
                process = subprocess.Popen(  # noqa: S603
                    command,
                    env=without_our_variables(os.environ),
                    stdout=printed,
                    stderr=printed,
                    start_new_session=True,
                )
            except OSError as error:
                raise _CannotRunError(file_problem(error)) from None
            self._started(process)
        return process

    def _wait(self, server: RedisServer, process: subprocess.Popen[bytes]) -> str | None:
        """Returns None when it answers, or has exited; else why it is no longer waited for."""
        from ghapp.store.connect import require

        began, is_noticed = time.monotonic(), False
        while process.poll() is None:
            waited = time.monotonic() - began
            if waited >= START_SECONDS:
                return f"no answer within {START_SECONDS:.0f} s"
            if waited >= NOTICE_SECONDS and not is_noticed:
                is_noticed = True
                self._waiting(
                    f"waiting for the local Redis, which may be reading its data, for up to {START_SECONDS:.0f} s: "
                    f"{server}; see {self._log}"
                )
            if self._socket.exists():
                with suppress(StoreUnavailableError):  # still loading its data
                    require(self.url)
                    return None
            time.sleep(0.02)
        return None

    def _read_writer(self) -> tuple[str, str] | None:
        """Returns product and version of the server that wrote the data; None without data."""
        try:
            require_regular_file(self._server_file)
            found = _WRITER.fullmatch(self._server_file.read_text("utf-8", "replace").strip())
        except OSError:
            return None
        return (found[1], found[2]) if found else None

    def _log_size(self) -> int:
        require_regular_file(self._log)
        try:
            return self._log.stat().st_size
        except FileNotFoundError:
            return 0

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
    waiting: Waiting = lambda _: None,
    variable: str = "GHAPP_STATE_DIR",
) -> Iterator[EmbeddedRedis]:
    """Runs a local Redis while the block runs, which may restart it; arguments and errors as of `EmbeddedRedis`."""
    redis = EmbeddedRedis(
        folder, durable=durable, servers=servers, started=started, exited=exited, waiting=waiting, variable=variable
    )
    try:
        redis.start()
        yield redis
    finally:
        redis.end()
