"""The system under test: seven roles under a supervisor, a Redis that can be stopped, an org of 500 runners."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TypeVar

import httpx
from redis.asyncio import Redis

from ghapp.runners.store import Runners
from ghapp.sandbox.config import OrgConfig, Pace, SandboxConfig, pools_of
from ghapp.sandbox.server import SandboxServer
from ghapp.settings import Settings
from ghapp.store.connect import connect
from tests.stories.processes import Role, environment
from tests.support.local_redis import embedded_redis
from tests.support.policy import acting
from tests.support.ports import free_port
from tests.support.waiting import wait_for

Result = TypeVar("Result")

RUNNERS = 500
ORG, OTHER_NAME = "acme", "acme-renamed"
LARGE_POOL = "linux-8vcpu"
ROLES = {"web": 2, "worker": 3, "clock": 2}

INTERVAL_SECONDS = CONFIRM_SECONDS = 3.0
STARTUP_SECONDS = 5.0
PROVE_SECONDS = 30.0
JOB_SECONDS = (20.0, 60.0)
PATIENCE_SECONDS = 60.0
WITHOUT_REDIS_SECONDS = 15.0
"""A role that starts or runs while Redis is away may exit within this time; its orchestrator restarts it."""

POLICY = f"""
[sweep]
interval_seconds = {INTERVAL_SECONDS}
[evidence]
confirm_seconds = {CONFIRM_SECONDS}
startup_seconds = {STARTUP_SECONDS}
offline_seconds = 15
stale_seconds = 15
[fuse]
window_seconds = 30
prove_seconds = {PROVE_SECONDS}
cooldown_seconds = 10
[deliveries]
redeliver_seconds = 5
"""
POOL = """
[[pools]]
org = "{org}"
name = "{pool}"
labels = ["{pool}"]
replacer = "cloudevents"
url = "{url}"
secret_env = "CONTROLLER_SECRET"
"""


class StoppableRedis:
    """A durable Redis that stops and restarts with its data."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running = ExitStack()
        self.url = ""
        self.away_at = 0.0
        """When it was last away (monotonic)."""
        self.is_up = False
        self.start()

    def start(self) -> None:
        """Does nothing when it is up."""
        if not self.is_up:
            self.url = self._running.enter_context(embedded_redis(self._folder, durable=True))
            self.is_up, self.away_at = True, time.monotonic()

    def stop(self) -> None:
        """Stops it cleanly: acknowledged writes are kept."""
        if self.is_up:
            self.is_up = False
            self._running.close()


@dataclass
class Installation:
    """The running system.

    Attributes:
        gave_up: roles that ended by themselves, with Redis there: name, exit code and the end of its log.
        started: how often a role was started, the first time included.
    """

    sandbox: SandboxServer
    redis: StoppableRedis
    environ: dict[str, str]
    hooks: Sequence[str]
    folder: Path
    stack: ExitStack
    roles: dict[tuple[str, int], Role] = field(default_factory=dict)
    gave_up: list[str] = field(default_factory=list)
    started: int = 0
    _hook: int = 0
    _killed: set[tuple[str, int]] = field(default_factory=set)
    _later: list[tuple[float, Callable[[], object]]] = field(default_factory=list)

    def later(self, seconds: float, act: Callable[[], object]) -> None:
        """Run something after that many seconds, in `supervise`."""
        self._later.append((time.monotonic() + seconds, act))

    def supervise(self) -> None:
        """Run what is due, and restart roles that ended, like an orchestrator."""
        now = time.monotonic()
        due = [act for at, act in self._later if at <= now]
        self._later = [(at, act) for at, act in self._later if at > now]
        for act in due:
            act()
        for key, role in list(self.roles.items()):
            if role.process.poll() is not None:
                self._note_end(key, role)
                self._start(key)

    def calm_down(self) -> None:
        """Ends all faults now."""
        self.sandbox.control.no_faults()
        for _, act in self._later:
            act()
        self._later.clear()
        self.redis.start()
        self.bring_online(())
        self.supervise()

    def kill(self, name: str, rng: Random) -> None:
        """kill -9 of a role and what it forked."""
        key = (name, rng.randrange(ROLES[name]))
        self._killed.add(key)
        self.roles[key].kill_all()

    def kill_horses(self, rng: Random) -> None:
        """kill -9 of the work-horse of one worker, if any has one."""
        at_work = [role for (name, _), role in self.roles.items() if name == "worker" and role.children]
        if at_work:
            rng.choice(at_work).kill_children()

    def deliver_to_the_next_web(self) -> None:
        """Sends deliveries to the next web process, like a load balancer."""
        self._hook = (self._hook + 1) % len(self.hooks)
        self.sandbox.control.webhook(url=self.hooks[self._hook])

    def lose(self, rng: Random, count: int, pool: str | None = None, seconds: float | None = None) -> list[int]:
        """Idle known runners lose their registrations, for that many seconds or for good; returns their ids."""
        if not self.redis.is_up:
            self.later(1.0, lambda: self.lose(rng, count, pool, seconds))
            return []
        known = self.ask(self._known)
        control, roster = self.sandbox.control, self.sandbox.fleet.roster

        def chosen() -> list[int]:
            idle = [
                each.id
                for each in roster.registered.values()
                if each.waiting and each.id in known and pool in (None, each.pool)
            ]
            return sorted(rng.sample(idle, min(count, len(idle))))

        return control.in_world(lambda: control.lose(ORG, ids=ids, seconds=seconds) if (ids := chosen()) else [])

    def bring_online(self, ids: Sequence[int]) -> None:
        """Brings those online that are still registered; without ids, all."""
        control, registered = self.sandbox.control, self.sandbox.fleet.roster.registered

        def bring() -> None:
            there = [each for each in ids if each in registered]
            if there or not ids:
                control.bring_online(ORG, ids=there)

        control.in_world(bring)

    def ask(self, question: Callable[[Redis], Awaitable[Result]]) -> Result:
        """Runs a query on the store."""

        async def answer() -> Result:
            redis = connect(self.redis.url)
            try:
                return await question(redis)
            finally:
                await redis.aclose()

        return asyncio.run(answer())

    @property
    def installation(self) -> int:
        """The id of the only installation."""
        return self.sandbox.installation_id(ORG)

    @property
    def settings(self) -> Settings:
        """The settings of all roles."""
        return Settings.read(self.environ)

    async def _known(self, redis: Redis) -> set[int]:
        runners = await Runners(redis).all(self.installation)
        return {each.id for each in runners.values() if each.registered}

    def _start(self, key: tuple[str, int]) -> None:
        name, number = key
        listen = self.hooks[number].removeprefix("http://").removesuffix("/webhook") if name == "web" else None
        environ = self.environ | ({"GHAPP_LISTEN": listen} if listen else {})
        self.roles[key] = self.stack.enter_context(Role(name, environ, self.folder))
        self._killed.discard(key)
        self.started += 1

    def _note_end(self, key: tuple[str, int], role: Role) -> None:
        lately = time.monotonic() - self.redis.away_at < WITHOUT_REDIS_SECONDS
        if key not in self._killed and self.redis.is_up and not lately:
            self.gave_up.append(f"{key[0]} ended with {role.process.returncode}: …{role.log[-500:]}")

    def open(self) -> None:
        """Start all roles; return when a web process listens and the whole fleet is known."""
        for name, count in ROLES.items():
            for number in range(count):
                self._start((name, number))
        if not wait_for(lambda: all(map(_listens, self.hooks)), PATIENCE_SECONDS):
            raise RuntimeError("no web role listens:\n" + self.roles["web", 0].log[-2000:])
        self.deliver_to_the_next_web()
        if not wait_for(lambda: len(self.ask(self._known)) >= RUNNERS * 0.9, PATIENCE_SECONDS):
            raise RuntimeError("the fleet is not known:\n" + self.roles["worker", 0].log[-2000:])


@contextmanager
def open_installation(folder: Path, seed: int) -> Iterator[Installation]:
    """The running system for the block; logs of its processes and data of its Redis are in `folder`."""
    config = SandboxConfig(
        orgs=(OrgConfig(login=ORG, pools=pools_of(RUNNERS)),),
        pace=Pace(job=JOB_SECONDS, boot=(1.0, 3.0), settle=(0.5, 1.5)),
        seed=seed,
        rate_limit=100_000,
    )
    with SandboxServer(config) as sandbox, ExitStack() as stack:
        redis = StoppableRedis(folder / "redis")
        stack.callback(redis.stop)
        policy = folder / "ghapp.toml"
        policy.write_text(acting(POLICY) + _pools(sandbox))
        hooks = [f"http://127.0.0.1:{free_port()}/webhook" for _ in range(ROLES["web"])]
        context = Installation(sandbox, redis, environment(sandbox, redis.url, policy), hooks, folder, stack)
        stack.callback(_ask_to_end, context)
        context.open()
        try:
            yield context
        finally:
            _ask_to_end(context)


def _pools(sandbox: SandboxServer) -> str:
    return "".join(
        POOL.format(org=org, pool=pool.name, url=sandbox.controller_url)
        for org in (ORG, OTHER_NAME)
        for pool in pools_of(RUNNERS)
    )


def _ask_to_end(context: Installation) -> None:
    for role in context.roles.values():
        if role.process.poll() is None:
            role.process.terminate()


def _listens(hook: str) -> bool:
    try:
        return httpx.get(hook.removesuffix("webhook") + "livez", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False
