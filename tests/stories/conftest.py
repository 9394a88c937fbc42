"""A quiet sandbox, a real Redis, and jobs whose clock the story moves."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ghapp.errors import ReplacerUnavailableError
from ghapp.github import installation_client
from ghapp.github.deliveries import encode, parse
from ghapp.remediation.steps import is_open
from ghapp.runners.verdict import State, judge
from ghapp.sandbox.config import OrgConfig, Pace, PoolConfig, SandboxConfig
from ghapp.sandbox.server import SandboxServer
from ghapp.settings import Settings
from ghapp.store import budget
from jobs.context import JobContext, open_context
from jobs.deliveries.inbox import drain_inbox
from jobs.installations.discover import discover_installations
from jobs.remediation.remediate import remediate_runner
from jobs.runners.confirm import confirm_installation
from jobs.runners.record_list import SweepResult
from jobs.runners.sweep import sweep_installation
from tests.sandbox.receivers import Received, Receiver
from tests.stories.processes import environment
from tests.support.event_delivery import deliver_event
from tests.support.policy import acting

POOL = "linux-4vcpu"
NORMAL_PACE = Pace()


@dataclass
class Clock:
    """Epoch seconds that only the story moves."""

    now: float = field(default_factory=time.time)

    def __call__(self) -> float:
        return self.now

    def pass_(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class Story:
    sandbox: SandboxServer
    settings: Settings
    context: JobContext
    clock: Clock
    hook: Receiver
    environ: dict[str, str]
    """What a role is started with."""
    installation: int
    taken: int = 0
    _looks: set[asyncio.Future[str]] = field(default_factory=set)

    def account(self) -> dict[str, object]:
        return self.sandbox.control.account()

    async def pass_(self, seconds: float) -> None:
        """Time passes, here and at GitHub."""
        self.clock.pass_(seconds)
        self.sandbox.control.step(seconds=seconds)

    async def live_through_an_interval(self) -> SweepResult:
        """A sweep, the confirmation that follows it, and whatever they let through; what the sweep found."""
        await self.pass_(60)
        account = await sweep_installation(self.context, self.installation)
        await self.work_off()
        await self.pass_(30)
        await confirm_installation(self.context, self.installation)
        await self.work_off()
        assert account is not None
        return account

    async def settle(self) -> None:
        """Lives until the runners of the start are known: two intervals."""
        for _ in range(2):
            await self.live_through_an_interval()

    async def work_off(self) -> None:
        """Remediates all runners with an unfinished grant, and sends the events for their URL."""
        for each in (await self.context.runners.all(self.installation)).values():
            if is_open(each):
                await remediate_runner(self.context, self.installation, each.id)
        for event_id in await self.context.events.unsent():
            with suppress(ReplacerUnavailableError):
                await deliver_event(self.context, event_id)

    def look_again(self, installation: int, runner_id: int) -> None:
        """As a worker does when a request is about to leave."""
        task = asyncio.ensure_future(remediate_runner(self.context, installation, runner_id))
        self._looks.add(task)
        task.add_done_callback(self._looks.discard)

    async def states(self) -> Counter[State]:
        """How many runners are in each state."""
        survey = await self.context.runners.survey(self.installation)
        limits = self.settings.of("acme").evidence
        records = await self.context.runners.all(self.installation)
        return Counter(judge(each, survey, self.clock(), limits).state for each in records.values())

    async def sent_events(self, kind: str) -> list[dict[str, Any]]:
        """The data of every event of a type, `ghapp.` and `.v1` left out."""
        events = [json.loads(event) for _, event in await self.context.events.latest(self.installation, 1000)]
        return [event["data"] for event in events if event["type"] == f"ghapp.{kind}.v1"]

    async def replacements(self) -> list[int]:
        """The ids of runners whose replacement was asked for."""
        return [data["runner_id"] for data in await self.sent_events("runner.replace")]

    def listen(self) -> None:
        """From now on the sandbox delivers; `receive` takes what came."""
        self.sandbox.control.webhook(url=self.hook.url)

    async def receive(self, count: int = 1) -> None:
        """Wait for so many more deliveries, and have them take effect."""
        await self._take_effect(self.hook.wait(self.taken + count)[self.taken :])

    async def receive_all(self) -> None:
        """Have all deliveries take effect that the sandbox has to send by now."""
        while (waiting := self.account()["deliveries"]["waiting"]) or len(self.hook.received) > self.taken:
            await asyncio.sleep(0.01 if waiting else 0.0)
            await self._take_effect(self.hook.received[self.taken :])

    async def receive_sent(self) -> None:
        """The same without those that a fault holds back."""
        while self.sandbox.world.deliveries.unsent:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        await self._take_effect(self.hook.received[self.taken :])

    async def _take_effect(self, new: Sequence[Received]) -> None:
        self.taken += len(new)
        for each in new:
            facts = encode(parse(each.event, each.body, each.headers["content-type"]))
            await self.context.inbox.keep(each.headers["x-github-delivery"], each.event, facts)
        await drain_inbox(self.context)


class Waiting:
    """Replaces `asyncio` where a call waits for the budget, or for its token: its time is the story's.

    With real time the wait would never end: the minute whose points are spent ends by the story's clock.
    """

    def __init__(self, app: Story) -> None:
        self._it = app

    async def sleep(self, seconds: float) -> None:
        await self._it.pass_(seconds)
        await asyncio.sleep(0.001)  # those that are on their way come home


OpenStory = Callable[..., "AsyncIterator[Story]"]


@pytest.fixture
def story(redis_url: str, redis: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., object]:
    """Opens a story: `async with story(runners=12) as it:`."""

    @asynccontextmanager
    async def open_story(
        runners: int = 12,
        config: str = "",
        *,
        ephemeral: bool = True,
        pool: str = "",
        others: Sequence[PoolConfig] = (),
        quiet: bool = True,
        pace: Pace = NORMAL_PACE,
        repository_pools: dict[str, tuple[PoolConfig, ...]] | None = None,
        variables: dict[str, str] | None = None,
        **changes: Any,
    ) -> AsyncIterator[Story]:
        pools = (PoolConfig(name=POOL, size=runners, ephemeral=ephemeral), *others)
        repositories = tuple(dict.fromkeys([*OrgConfig().repositories, *(repository_pools or {})]))
        org = OrgConfig(pools=pools, repositories=repositories, repository_pools=repository_pools or {})
        with SandboxServer(SandboxConfig(orgs=(org,), pace=pace, quiet=quiet, ticking=False, **changes)) as sandbox:
            policy = tmp_path / "ghapp.toml"
            policy.write_text(
                f"""
                {acting(config).replace("CONTROLLER_URL", sandbox.controller_url)}
                [[pools]]
                org = "acme"
                name = "{POOL}"
                labels = ["{POOL}"]
                replacer = "cloudevents"
                url = "{sandbox.controller_url}"
                secret_env = "CONTROLLER_SECRET"
                {pool}
                """
            )
            environ = environment(sandbox, redis_url, policy) | (variables or {})
            settings = Settings.read(environ)
            clock = Clock()
            with Receiver() as hook:
                async with open_context(settings, clock) as context:
                    await discover_installations(context)
                    app = Story(sandbox, settings, context, clock, hook, environ, sandbox.installation_id())
                    monkeypatch.setattr(budget, "asyncio", Waiting(app))
                    monkeypatch.setattr(installation_client, "asyncio", Waiting(app))
                    yield app

    return open_story
