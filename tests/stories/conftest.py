"""A quiet sandbox, a real Redis, and a house whose clock the story moves."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ghapp.github.deliveries import encode, parse
from ghapp.sandbox.config import OrgConfig, PoolConfig, SandboxConfig
from ghapp.sandbox.server import SandboxServer
from ghapp.settings import Settings
from jobs.house import House, open_house
from jobs.inbox import drain_inbox
from jobs.installations import discover_installations
from tests.sandbox.receivers import Receiver

POOL = "linux-4vcpu"


@dataclass
class Clock:
    """Epoch seconds that only the story moves; from a little ago, so that no signature lies in the future."""

    now: float = field(default_factory=lambda: time.time() - 400)

    def __call__(self) -> float:
        return self.now

    def pass_(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class Story:
    sandbox: SandboxServer
    settings: Settings
    house: House
    clock: Clock
    hook: Receiver
    environ: dict[str, str]
    """What a role is started with."""
    installation: int
    taken: int = 0

    def account(self) -> dict[str, object]:
        return self.sandbox.control.account()

    def listen(self) -> None:
        """From now on the sandbox delivers; `receive` takes what came."""
        self.sandbox.control.webhook(url=self.hook.url)

    async def receive(self, count: int = 1) -> None:
        """Wait for so many more deliveries, and have them take effect."""
        new = self.hook.wait(self.taken + count)[self.taken :]
        self.taken += len(new)
        for each in new:
            facts = encode(parse(each.event, each.body, each.headers["content-type"]))
            await self.house.inbox.keep(each.headers["x-github-delivery"], each.event, facts)
        await drain_inbox(self.house)


OpenStory = Callable[..., "AsyncIterator[Story]"]


@pytest.fixture
def story(redis_url: str, redis: object, tmp_path: Path) -> Callable[..., object]:
    """Opens a story: `async with story(runners=12) as it:`."""

    @asynccontextmanager
    async def open_story(runners: int = 12, config: str = "", *, ephemeral: bool = True) -> AsyncIterator[Story]:
        org = OrgConfig(pools=(PoolConfig(name=POOL, size=runners, ephemeral=ephemeral),))
        with SandboxServer(SandboxConfig(orgs=(org,), quiet=True, ticking=False)) as sandbox:
            policy = tmp_path / "ghapp.toml"
            policy.write_text(
                f"""
                {config}
                [[pools]]
                org = "acme"
                name = "{POOL}"
                labels = ["{POOL}"]
                replacer = "cloudevents"
                url = "{sandbox.controller_url}"
                secret_env = "CONTROLLER_SECRET"
                """
            )
            environ = {
                "GHAPP_CONFIG": str(policy),
                "GHAPP_REDIS_URL": redis_url,
                "GHAPP_GITHUB_API_URL": sandbox.api_url,
                "GHAPP_APP_ID": str(sandbox.app_id),
                "GHAPP_PRIVATE_KEY": sandbox.private_key_pem,
                "GHAPP_WEBHOOK_SECRET": sandbox.webhook_secret,
                "CONTROLLER_SECRET": sandbox.controller_secret,
            }
            settings = Settings.read(environ)
            clock = Clock()
            with Receiver() as hook:
                async with open_house(settings, clock) as house:
                    await discover_installations(house)
                    yield Story(sandbox, settings, house, clock, hook, environ, sandbox.installation_id())

    return open_story
