"""One deployment under a fleet: a Redis, the roles as processes, the fast simulated GitHub; and what they use."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import Any

import httpx
import msgspec

from ghapp.github.wire import InstallationToken
from ghapp.store.stores import open_stores
from tests.bench.fleet.github import FIRST_INSTALLATION, POOL, Config, Report
from tests.bench.places import PAGE_KEY, START_SECONDS, WEBHOOK_SECRET, await_listening, private_key, running
from tests.support.local_redis import embedded_redis
from tests.support.policy import acting
from tests.support.ports import free_port

TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")
KIB = 1024
TOKEN_SECONDS, SETTLED_SECONDS = 3600.0, 60.0


@dataclass(frozen=True)
class Place:
    """What runs.

    Attributes:
        github: the address of the simulated GitHub.
        redis_url: of the stores.
        web: the address of `ghapp web`; empty if it does not run.
        processes: by role, `redis` and `github` among them, the process id.
        logs: the folder of the logs.
    """

    github: str
    redis_url: str
    web: str
    processes: dict[str, int]
    logs: Path

    def report(self) -> Report:
        """Returns what GitHub saw."""
        return msgspec.json.decode(httpx.get(f"{self.github}/_report", timeout=30).content, type=Report)

    def lose(self, ids: dict[str, list[int]]) -> float:
        """Deletes registrations by organization; returns when (epoch seconds)."""
        answer = httpx.post(f"{self.github}/_lose", content=msgspec.json.encode(ids), timeout=30)
        return float(answer.raise_for_status().json()["at"])

    def cpu_seconds(self) -> dict[str, float]:
        """Returns the CPU time of each process and of its ended children."""
        return {role: cpu_seconds_of(process) for role, process in self.processes.items()}

    def log(self, role: str) -> str:
        """Returns the end of a role's log."""
        return (self.logs / f"{role}.log").read_text()[-3000:]


@contextmanager
def place(folder: Path, config: Config, policy: str, *, workers: int = 1, web: bool = True) -> Iterator[Place]:
    """Runs everything until the block ends."""
    with ExitStack() as stack:
        redis_url = stack.enter_context(embedded_redis(folder / "redis", durable=True))
        processes: dict[str, int] = {}
        address, processes["github"] = stack.enter_context(serving("github", folder, config))
        environ = environ_of(folder, redis_url, address, config, policy)
        asyncio.run(_issue_tokens(redis_url, environ["GHAPP_PRIVATE_KEY"], config))
        port = free_port()
        roles = [*(f"worker{number or ''}" for number in range(workers)), "clock", *(["web"] if web else [])]
        for role in roles:
            command = ["-m", "ghapp", role.rstrip("0123456789")]
            given_here = {**environ, "GHAPP_LISTEN": f"127.0.0.1:{port}"}
            process = stack.enter_context(running(command, given_here, folder / f"{role}.log"))
            processes[role] = process.pid
            if role == "web":
                await_listening(port, process, folder / "web.log")
        processes["redis"] = redis_process(redis_url)
        yield Place(address, redis_url, f"http://127.0.0.1:{port}" if web else "", processes, folder)


@contextmanager
def serving(name: str, folder: Path, config: msgspec.Struct) -> Iterator[tuple[str, int]]:
    """Runs a simulated server of this package until the block ends; yields its address and its process id."""
    given, log = folder / f"{name}.json", folder / f"{name}.log"
    given.write_bytes(msgspec.json.encode(config))
    with running(["-m", f"tests.bench.fleet.{name}", str(given)], {}, log) as process:
        yield _address_of(process, log), process.pid


async def _issue_tokens(redis_url: str, private_key: str, config: Config) -> None:
    """Stores a token of each installation, a minute old: an App may mint 178 a minute (five points each), no more."""
    now = time.time()
    async with open_stores(redis_url) as stores:
        tokens = stores.token_cache(private_key)
        for number in range(config.installations):
            installation = FIRST_INSTALLATION + number

            async def mint(installation: int = installation) -> InstallationToken:
                return InstallationToken(f"ghs_{installation}", now + TOKEN_SECONDS)

            await tokens.token(installation, mint, now - SETTLED_SECONDS)


def redis_process(url: str) -> int:
    """Returns the process id of a Redis server."""
    from redis import Redis

    with Redis.from_url(url) as redis:
        info: Any = redis.info("server")
        return int(info["process_id"])


def _address_of(process: Popen[bytes], log: Path) -> str:
    """Returns the address that a simulated server prints once it listens."""
    ends = time.monotonic() + START_SECONDS
    while not (text := log.read_text()).endswith("\n"):
        if process.poll() is not None or time.monotonic() > ends:
            raise RuntimeError(f"the simulated server did not start: {text}")
        time.sleep(0.05)
    return text.splitlines()[0]


def environ_of(folder: Path, redis_url: str, github: str, config: Config, policy: str) -> dict[str, str]:
    """Returns what a role is given to work with that simulated GitHub; each organization has one pool."""
    file = folder / "ghapp.toml"
    pools = "".join(
        f"""
        [[pools]]
        org = "org-{number}"
        name = "{POOL}"
        labels = ["{POOL}"]
        replacer = "cloudevents"
        url = "{github}/events"
        secret_env = "CONTROLLER_SECRET"
        """
        for number in range(config.installations)
    )
    file.write_text(acting(policy) + pools)
    return {
        "GHAPP_CONFIG": str(file),
        "GHAPP_REDIS_URL": redis_url,
        "GHAPP_LOG_FORMAT": "json",
        "GHAPP_GITHUB_API_URL": github,  # at its root; it has no pages
        "GHAPP_GITHUB_WEB_URL": "http://pages.invalid",
        "GHAPP_APP_ID": "1",
        "GHAPP_PRIVATE_KEY": private_key(),
        "GHAPP_WEBHOOK_SECRET": WEBHOOK_SECRET,
        "GHAPP_PAGE_KEY": PAGE_KEY,
        "CONTROLLER_SECRET": "whsec_" + "YmVuY2gtc2VjcmV0LWJlbmNoLXNlY3JldA==",
    }


def cpu_seconds_of(process: int) -> float:
    """Returns the user and system time of a process, and of its children that it has waited for."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) * TICK_SECONDS


def memory_bytes(process: int) -> int:
    """Returns the memory of a process and its children; a page that several share is counted once."""
    return sum(_pss(each) for each in (process, *_children(process)))


@contextmanager
def watched_memory(process: int) -> Iterator[list[int]]:
    """Yields the highest memory so far of a process and its children, in bytes."""
    peak, ended = [0], threading.Event()

    def look() -> None:
        while not ended.wait(0.5):
            peak[0] = max(peak[0], memory_bytes(process))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield peak
    finally:
        ended.set()
        looking.join()


def _children(process: int) -> list[int]:
    try:
        return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


def _pss(process: int) -> int:
    try:
        rows = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:  # it has just ended
        return 0
    return next((int(row.split()[1]) * KIB for row in rows if row.startswith("Pss:")), 0)
