"""Connections to Redis: plain, TLS, and by way of Sentinel; a pool of them that waits, and a client that pipelines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import redis as sync_redis
from redis import asyncio as redis
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.exceptions import RedisError

from ghapp.errors import ConfigurationError, StoreUnavailableError

SENTINEL = "redis+sentinel"
DEFAULT_SENTINEL_PORT = 26379
CONNECT_SECONDS = 2.0

MOST_CONNECTIONS = 50
"""Open at once to one Redis, by one client. More would not make its one thread faster."""

POOL_WAIT_SECONDS = 20.0
"""How long a command waits for one of the connections; then it fails as if Redis were away."""

MOST_IN_A_PIPELINE = 200
"""Commands that travel together. Their answers are in memory at once, and other clients wait for them."""


class WaitingSentinelPool(SentinelConnectionPool, redis.BlockingConnectionPool):
    """Connections to the primary that Sentinel names; a command waits for one where all are in use."""


def connect(url: str) -> redis.Redis:
    """An asynchronous client, bytes in and out. Nothing is sent before the first command.

    A command for which no connection is free waits for one: it does not fail, as it would with redis-py's own default.
    """
    connecting: dict[str, Any] = {"socket_connect_timeout": CONNECT_SECONDS}
    waiting: dict[str, Any] = {"max_connections": MOST_CONNECTIONS, "timeout": POOL_WAIT_SECONDS}
    if not url.startswith(SENTINEL):
        return redis.Redis.from_pool(redis.BlockingConnectionPool.from_url(url, **connecting, **waiting))
    hosts, service, db, credentials = _sentinel(url)
    sentinel: Any = redis.Sentinel(hosts, sentinel_kwargs=connecting, **credentials)  # type: ignore[no-untyped-call]
    client: redis.Redis = sentinel.master_for(
        service, connection_pool_class=WaitingSentinelPool, db=db, **connecting, **waiting
    )
    return client


class _Command(NamedTuple):
    """A command that waits for the next pipeline, and where its answer goes."""

    words: Sequence[Any]
    options: dict[str, Any]
    answer: asyncio.Future[Any]


class PipeliningRedis(redis.Redis):
    """A client whose commands of one turn of the event loop travel in one pipeline.

    For readers: what many requests ask for at once costs a few round trips, not a connection each. Each command has
    its own answer or error, as with any client. No blocking commands: those behind them in the pipeline would wait.

    Args:
        through: the client whose connections are used. It stays its owner's to close.
    """

    def __init__(self, through: redis.Redis) -> None:
        super().__init__(connection_pool=through.connection_pool)
        self._through = through
        self._waiting: list[_Command] = []
        self._sending: set[asyncio.Task[None]] = set()

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Send it with the others of this turn; its answer."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._send)
        command = _Command(args, options, loop.create_future())
        self._waiting.append(command)
        return await command.answer

    def _send(self) -> None:
        commands, self._waiting = self._waiting, []
        for start in range(0, len(commands), MOST_IN_A_PIPELINE):
            task = asyncio.create_task(self._execute(commands[start : start + MOST_IN_A_PIPELINE]))
            self._sending.add(task)  # asyncio itself holds no task that nobody awaits
            task.add_done_callback(self._sending.discard)

    async def _execute(self, commands: Sequence[_Command]) -> None:
        answers: Sequence[Any]
        try:
            async with self._through.pipeline(transaction=False) as pipe:
                for command in commands:
                    pipe.execute_command(*command.words, **command.options)
                answers = await pipe.execute(raise_on_error=False)
        except Exception as error:  # noqa: BLE001 - it is raised where each answer is awaited
            answers = [error] * len(commands)
        except BaseException:
            for command in commands:
                command.answer.cancel()
            raise
        for command, answer in zip(commands, answers, strict=True):
            if command.answer.done():  # whoever asked has given up
                continue
            if isinstance(answer, Exception):
                command.answer.set_exception(answer)
            else:
                command.answer.set_result(answer)


def connect_sync(url: str) -> sync_redis.Redis:
    """A synchronous client, for RQ."""
    options: dict[str, Any] = {"socket_connect_timeout": CONNECT_SECONDS}
    if not url.startswith(SENTINEL):
        return sync_redis.Redis.from_url(url, **options)
    hosts, service, db, credentials = _sentinel(url)
    sentinel: Any = sync_redis.Sentinel(hosts, sentinel_kwargs=options, **credentials)  # type: ignore[no-untyped-call]
    return sentinel.master_for(service, db=db, **options)  # type: ignore[no-any-return]


@asynccontextmanager
async def redis_errors() -> AsyncIterator[None]:
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
