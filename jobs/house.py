"""What a job needs to do its work, opened for as long as it runs."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from redis import Redis as SyncRedis
from redis.asyncio import Redis

from ghapp import work
from ghapp.cluster.api import Cluster
from ghapp.cluster.connection import open_cluster
from ghapp.errors import ConfigurationError
from ghapp.github.api import GitHub
from ghapp.github.tenant import Tenant
from ghapp.health.cadence import Purpose, ceiling
from ghapp.health.installation import Installation
from ghapp.settings import Settings
from ghapp.store.budget import Budget
from ghapp.store.claims import Claims
from ghapp.store.connect import connect, connect_sync
from ghapp.store.counters import Counters
from ghapp.store.credentials import Credentials
from ghapp.store.demand import Demand
from ghapp.store.events import Events
from ghapp.store.fuses import Fuses
from ghapp.store.inbox import Inbox
from ghapp.store.installations import Installations
from ghapp.store.pages import Pages
from ghapp.store.podclaims import PodClaims
from ghapp.store.reports import Reports
from ghapp.store.runners import Runners
from ghapp.store.schedule import Schedule

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class House:
    """The stores, GitHub, and the clock (epoch seconds), read once by each job."""

    settings: Settings
    clock: Clock
    redis: Redis
    desk: SyncRedis
    github: GitHub
    installations: Installations
    runners: Runners
    pages: Pages
    fuses: Fuses
    claims: Claims
    budget: Budget
    events: Events
    schedule: Schedule
    inbox: Inbox
    counters: Counters
    demand: Demand
    reports: Reports
    pod_claims: PodClaims
    cluster: Callable[[], Awaitable[Cluster]]
    """The cluster where runners live, opened when it is first asked for: most jobs never need it."""

    async def tenant(self, installation: Installation, purpose: Purpose) -> Tenant:
        """GitHub as an installation sees it, up to what its budget allows for that purpose.

        It is asked under the account's own login, by whatever name it goes here.
        """
        most = ceiling(purpose, self.settings.of(installation.org).budget)
        return await self.github.tenant(replace(installation, org=installation.called, login=""), most)

    def ask(self, what: work.Work, *args: int | str, key: str | None = None, after_seconds: float = 0.0) -> bool:
        """Ask for more work; see `work.ask`."""
        return work.ask(self.desk, what, *args, key=key, after_seconds=after_seconds)


@asynccontextmanager
async def open_house(settings: Settings, clock: Clock = time.time) -> AsyncIterator[House]:
    """Open everything that a job needs, and close it at the end."""
    if settings.redis_url is None:
        raise ConfigurationError("GHAPP_REDIS_URL: not set; every role but `up` needs it")
    if settings.credentials is None:
        raise ConfigurationError("GHAPP_APP_ID: not set; create the App with `ghapp up` and /setup")
    redis = connect(settings.redis_url)
    desk = connect_sync(settings.redis_url)
    budget = Budget(redis, clock)
    vault = Credentials(redis, settings.credentials.private_key)

    try:
        async with (
            GitHub.open(settings.api_url, settings.credentials, vault, budget, clock) as github,
            _opened_when_needed(settings) as cluster,
        ):
            yield House(
                settings=settings,
                clock=clock,
                redis=redis,
                desk=desk,
                github=github,
                installations=Installations(redis, settings.named),
                runners=Runners(redis, clock),
                pages=Pages(redis),
                fuses=Fuses(redis),
                claims=Claims(redis),
                budget=budget,
                events=Events(redis),
                schedule=Schedule(redis),
                inbox=Inbox(redis),
                counters=Counters(redis),
                demand=Demand(redis),
                reports=Reports(redis),
                pod_claims=PodClaims(redis, clock),
                cluster=cluster,
            )
    finally:
        await redis.aclose()
        desk.close()


@asynccontextmanager
async def _opened_when_needed(settings: Settings) -> AsyncIterator[Callable[[], Awaitable[Cluster]]]:
    opened: list[Cluster] = []
    async with AsyncExitStack() as stack:

        async def cluster() -> Cluster:
            if not opened:
                opened.append(await stack.enter_async_context(open_cluster(settings.cluster)))
            return opened[0]

        yield cluster


_settings: Settings | None = None


def furnish(settings: Settings) -> None:
    """Called once by the worker, before it forks: the settings that this process' jobs run with."""
    global _settings  # noqa: PLW0603 - RQ hands a job nothing but its primitives
    _settings = settings


def furnished() -> Settings:
    """The settings of this process' jobs."""
    if _settings is None:
        raise ConfigurationError("jobs run in `ghapp worker`, which reads the configuration first")
    return _settings
