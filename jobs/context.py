"""The context of a job: settings, stores, GitHub and the clock, open while the job runs."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from redis import Redis as SyncRedis

from ghapp.decoding import LeftOutRows
from ghapp.errors import ConfigurationError, StoreUnavailableError
from ghapp.github.api import GitHub
from ghapp.github.installation_client import InstallationClient
from ghapp.installations.installation import Installation
from ghapp.installations.pacing import Purpose, call_limits, token_limits
from ghapp.loading.views import load_org_view
from ghapp.queue import jobs
from ghapp.redis_clock import SharedClock
from ghapp.report.links import PageLinks
from ghapp.report.org_view import OrgView
from ghapp.settings import Settings
from ghapp.store.connect import PipeliningRedis, connect, connect_sync
from ghapp.store.stores import Stores, stores_over

if TYPE_CHECKING:
    from ghapp.cluster.api import Cluster

Clock = Callable[[], float]

LARGE = 10_000
"""Runners from which an installation is a large one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext(Stores):
    """The settings, the stores, GitHub and the clock (epoch seconds); each job reads the clock once."""

    settings: Settings
    clock: Clock
    queue_redis: SyncRedis
    github: GitHub
    cluster: Callable[[], Awaitable[Cluster]]
    """The cluster where runners live, opened on first use: most jobs never need it."""
    large: asyncio.Semaphore
    """Admits one large installation."""
    left_out_rows: LeftOutRows
    """What was odd in the answers that the job read; recorded when it ends."""

    async def installation_client(self, installation: Installation, purpose: Purpose) -> InstallationClient:
        """Returns a GitHub client for an installation or another scope, limited to what the budget allows.

        A repository's calls count for its installation: both have one hourly limit.

        The client sends the account's own login, also where the configuration uses a former name of the org.
        """
        limits = call_limits(purpose, self.settings.of(installation.org).budget)
        called = replace(installation, org=installation.called, login="")
        return await self.github.installation_client(called, limits, token_limits(purpose, called.caller))

    def all_records(self, runners: int) -> AbstractAsyncContextManager[object]:
        """Returns the context in which all records of an installation with so many runners may be in memory.

        A job sweeps ten installations at once, and the records of 100,000 runners take 110 MB. So the records of large
        installations are in memory one after the other.
        """
        return self.large if runners >= LARGE else nullcontext()

    async def org_view(self, installation: Installation) -> OrgView:
        """Returns what applies to all runners of an org: survey, fuses, pauses, claims and rules."""
        return await load_org_view(self, installation, self.settings)

    def links(self, installation: Installation) -> PageLinks:
        """Returns the addresses of an organization's pages."""
        return PageLinks(self.settings.public_url, installation.org)

    def ask(self, what: jobs.JobName, *args: int | str, key: str | None = None, after_seconds: float = 0.0) -> bool:
        """Enqueues another job. Arguments and result as `ghapp.queue.jobs.enqueue`."""
        return jobs.enqueue(self.queue_redis, what, *args, key=key, after_seconds=after_seconds)

    def first_waiting(self, what: jobs.JobName, keys: Sequence[str]) -> tuple[str, float] | None:
        """Returns the first of these keys whose job waits. Result as `ghapp.queue.jobs.first_waiting`."""
        return jobs.first_waiting(self.queue_redis, what, keys)


@asynccontextmanager
async def open_context(settings: Settings, clock: Clock | None = None) -> AsyncIterator[JobContext]:
    """Opens everything that a job needs, and closes it at the end. `clock` returns epoch seconds; None: Redis' clock.

    Raises:
        ConfigurationError: no Redis or no App credentials are configured.
        StoreUnavailableError: Redis does not answer.
    """
    if settings.redis_url is None:
        raise ConfigurationError("GHAPP_REDIS_URL: not set; every role but `up` needs it")
    if settings.credentials is None:
        raise ConfigurationError("GHAPP_APP_ID: not set; create the App with `ghapp up` and /setup")
    redis, queue_redis = connect(settings.redis_url), connect_sync(settings.redis_url)
    shared = SharedClock()
    clock = clock or shared
    pipelining = PipeliningRedis(redis)  # a job sweeps many installations at once
    stores = stores_over(pipelining, settings.named, clock, timings=settings.timings)
    token_cache, left_out = stores.token_cache(settings.credentials.private_key), LeftOutRows()
    enterprise_tokens = stores.enterprise_tokens(settings.enterprise_tokens)
    try:
        if clock is shared:
            await stores.heartbeats.measure_clock(shared, f"worker on {socket.gethostname()}")
        async with (
            GitHub.open(
                settings.api_url,
                settings.credentials,
                token_cache,
                stores.budget,
                clock,
                left_out,
                enterprise_tokens,
            ) as github,
            _opened_when_needed(settings, left_out) as cluster,
        ):
            yield JobContext(
                **{each.name: getattr(stores, each.name) for each in fields(stores)},
                settings=settings,
                clock=clock,
                queue_redis=queue_redis,
                github=github,
                cluster=cluster,
                large=asyncio.Semaphore(),
                left_out_rows=left_out,
            )
    finally:
        with suppress(StoreUnavailableError):
            await stores.left_out.record(left_out, clock())
        await redis.aclose()
        queue_redis.close()


@asynccontextmanager
async def _opened_when_needed(
    settings: Settings, left_out: LeftOutRows
) -> AsyncIterator[Callable[[], Awaitable[Cluster]]]:
    opened: list[Cluster] = []
    opening = asyncio.Lock()  # a job works for several installations at once
    async with AsyncExitStack() as stack:

        async def cluster() -> Cluster:
            from ghapp.cluster.connection import open_cluster  # imports lightkube, which most jobs never need

            async with opening:
                if not opened:
                    cluster_client = open_cluster(settings.cluster, left_out, timings=settings.timings)
                    opened.append(await stack.enter_async_context(cluster_client))
            return opened[0]

        yield cluster


_settings: Settings | None = None


def configure(settings: Settings) -> None:
    """Sets the settings of this process' jobs. The worker calls it once, before it forks."""
    global _settings  # noqa: PLW0603 - RQ passes only primitive arguments to a job
    _settings = settings


def configured() -> Settings:
    """Returns the settings of this process' jobs.

    Raises:
        ConfigurationError: `configure` was not called.
    """
    if _settings is None:
        raise ConfigurationError("jobs run in `ghapp worker`, which reads the configuration first")
    return _settings
