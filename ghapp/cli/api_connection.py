"""Connects commands to the API: to the server at `GHAPP_URL`, or within this process, over Redis.

Within this process the API is an ASGI application without a socket. A command that can write to Redis needs no token;
the records of what it changes name the user of the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from math import inf
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

import httpx

from ghapp.addresses import is_loopback
from ghapp.cli.api_client import ApiClient
from ghapp.cli.context import UnknownPoolError, chosen, no_such_pool, opened, settings_here
from ghapp.cli.record_change import user_here
from ghapp.errors import ConfigurationError
from ghapp.installations.pool_matching import rule_named
from ghapp.redis_clock import SharedClock
from ghapp.tls import trusted

if TYPE_CHECKING:
    from ghapp.settings import Settings
    from ghapp.store.stores import Stores

T = TypeVar("T")

TIMEOUT_SECONDS = 30.0
REFRESH_SECONDS = 15.0


@asynccontextmanager
async def api() -> AsyncIterator[ApiClient]:
    """Yields the API at `GHAPP_URL` if it is set; else that of this process."""
    settings = settings_here(over_http=True)
    connection = in_process(settings) if settings.url is None else over_http(settings.url, settings.token)
    async with connection as client:
        yield client


@asynccontextmanager
async def in_process(settings: Settings) -> AsyncIterator[ApiClient]:
    """Yields the API of this process.

    Raises:
        ConfigurationError: no Redis is known.
        StoreUnavailableError: Redis does not answer; also of each request.
    """
    from ghapp.web.command_api import command_api

    async with opened(settings, over_http=True) as stores:
        await (clock := SharedClock()).measure(stores.redis)
        transport = httpx.ASGITransport(command_api(settings, stores, clock, user_here()))
        async with httpx.AsyncClient(transport=transport, base_url="http://ghapp") as client:
            yield ApiClient(client, settings.public_url, ActiveShards(settings, stores, clock).query)


class ActiveShards:
    """Queries the active shard of a pool by its own command or URL.

    A user who may run a command of `ghapp` may also run the pool's, which the workers may lack.
    """

    def __init__(self, settings: Settings, stores: Stores, clock: Callable[[], float]) -> None:
        self._settings, self._stores, self._clock = settings, stores, clock
        self._queried_at = -inf

    async def query(self, org: str, pool: str) -> None:
        """Stores the answer, unless it was stored a moment ago."""
        from ghapp.active_shard import query_active_shard

        rule = rule_named(pool, self._settings.pools_of(org))
        if rule is None or 0 <= self._clock() - self._queried_at < REFRESH_SECONDS:
            return
        self._queried_at = self._clock()
        answer = await query_active_shard(self._settings, rule, self._clock)
        if answer is not None:
            (installation,) = await chosen(self._stores.installations, org)
            await self._stores.shards.answered(installation.id, pool, answer)


@asynccontextmanager
async def over_http(url: str, token: str | None) -> AsyncIterator[ApiClient]:
    """Yields the API at `url`.

    Raises:
        ConfigurationError: without a token, or if the token would cross a network unencrypted.
    """
    parts = urlsplit(url)
    if token is None:
        raise ConfigurationError(
            "GHAPP_TOKEN: not set, though GHAPP_URL is; an admin of ghapp makes one: `ghapp token create`"
        )
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise ConfigurationError("GHAPP_TOKEN: is not a token of `ghapp token create`")
    if parts.username is not None:  # httpx would send these in place of the token
        raise ConfigurationError("GHAPP_URL: must not contain a user or password; the token is in GHAPP_TOKEN")
    is_local = is_loopback(parts.hostname or "")
    if parts.scheme != "https" and not is_local:
        raise ConfigurationError("GHAPP_URL: http:// would send GHAPP_TOKEN unencrypted to another host; use https://")
    async with httpx.AsyncClient(
        base_url=url,
        headers={"Authorization": f"Bearer {token}", "Accept": "application/json"},
        timeout=TIMEOUT_SECONDS,
        verify=trusted(),
        trust_env=not is_local,  # a proxy must not see the token of a plain request
    ) as client:
        yield ApiClient(client, url)


def query_of_pool(work: Callable[[ApiClient], Awaitable[list[T]]], org: str | None, pool: str | None) -> list[T]:
    """Runs one query of a command with `--pool`.

    Raises:
        UnknownPoolError: it finds nothing, because there is no such pool.
    """

    async def checked(client: ApiClient) -> list[T]:
        found = await work(client)
        if not found:
            await require_pool(client, org, pool)
        return found

    return query(checked)


async def require_pool(client: ApiClient, org: str | None, pool: str | None) -> None:
    """Raises UnknownPoolError if a pool is named that does not exist."""
    if pool is not None and pool not in (known := await client.pools(org)):
        raise UnknownPoolError(no_such_pool(org, pool, known))


async def only_org(client: ApiClient) -> str | None:
    """Returns the organization if only one is known, so that a command needs no ORG; else None."""
    known = await client.orgs()
    return known[0] if len(known) == 1 else None


def query(work: Callable[[ApiClient], Awaitable[T]]) -> T:
    """Runs one query of a command."""

    async def with_api() -> T:
        async with api() as client:
            return await work(client)

    return asyncio.run(with_api())
