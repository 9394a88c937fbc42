"""Connections to Redis: plain, TLS, and by way of Sentinel."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import redis as sync_redis
from redis import asyncio as redis
from redis.exceptions import RedisError

from ghapp.errors import ConfigurationError, StoreUnavailableError

SENTINEL = "redis+sentinel"
DEFAULT_SENTINEL_PORT = 26379
CONNECT_SECONDS = 2.0


def connect(url: str) -> redis.Redis:
    """An asynchronous client, bytes in and out. Nothing is sent before the first command."""
    options: dict[str, Any] = {"socket_connect_timeout": CONNECT_SECONDS}
    if not url.startswith(SENTINEL):
        return redis.Redis.from_url(url, **options)
    hosts, service, db, credentials = _sentinel(url)
    sentinel: Any = redis.Sentinel(hosts, sentinel_kwargs=options, **credentials)  # type: ignore[no-untyped-call]
    return sentinel.master_for(service, db=db, **options)  # type: ignore[no-any-return]


def connect_sync(url: str) -> sync_redis.Redis:
    """A synchronous client, for RQ."""
    options: dict[str, Any] = {"socket_connect_timeout": CONNECT_SECONDS}
    if not url.startswith(SENTINEL):
        return sync_redis.Redis.from_url(url, **options)
    hosts, service, db, credentials = _sentinel(url)
    sentinel: Any = sync_redis.Sentinel(hosts, sentinel_kwargs=options, **credentials)  # type: ignore[no-untyped-call]
    return sentinel.master_for(service, db=db, **options)  # type: ignore[no-any-return]


@asynccontextmanager
async def understood() -> AsyncIterator[None]:
    """Redis' own errors, as ours."""
    try:
        yield
    except RedisError as error:
        raise StoreUnavailableError(f"Redis does not answer as it should: {error}; check GHAPP_REDIS_URL") from error


def _sentinel(url: str) -> tuple[list[tuple[str, int]], str, int, dict[str, str]]:
    parts = urlsplit(url)
    service, _, db = parts.path.strip("/").partition("/")
    credentials, _, hosts = parts.netloc.rpartition("@")
    if not service or not hosts or not (db or "0").isdigit():
        raise ConfigurationError("GHAPP_REDIS_URL: takes redis+sentinel://host:port,host:port/SERVICE/DB")
    pairs = [host.partition(":") for host in hosts.split(",")]
    if not all(not port or port.isdigit() for _, _, port in pairs):
        raise ConfigurationError("GHAPP_REDIS_URL: a sentinel's port is not a number")
    username, _, password = credentials.partition(":")
    auth = {key: value for key, value in (("username", username), ("password", password)) if value}
    return [(host, int(port or DEFAULT_SENTINEL_PORT)) for host, _, port in pairs], service, int(db or 0), auth
