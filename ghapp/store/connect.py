"""Redis connections: plain, TLS and Sentinel, a connection pool that waits, and a client that pipelines."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import redis as sync_redis
from redis import asyncio as redis
from redis.asyncio.client import Pipeline
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.exceptions import NoScriptError

from ghapp.errors import ConfigurationError
from ghapp.redis_errors import FOREIGN, redis_errors, translated

Answer = TypeVar("Answer")

SENTINEL = "redis+sentinel"
DEFAULT_SENTINEL_PORT = 26379
CONNECT_SECONDS = 2.0

MOST_CONNECTIONS = 50
"""Per client and Redis server. More would not speed up Redis' single thread."""

POOL_WAIT_SECONDS = 20.0
"""How long a command waits for a free connection before it fails as if Redis were unavailable."""

MOST_IN_A_PIPELINE = 200
"""Commands per pipeline. Bounds the memory for answers, and how long other clients wait."""


async def _cancellable(command: Awaitable[Answer]) -> Answer:
    """Awaits a command, and raises CancelledError if its task was cancelled meanwhile.

    redis-py sends with `asyncio.wait_for`, which before Python 3.12 loses a cancellation that arrives when the command
    was just sent (CPython issue 86296). The task would then go on: the holder of a lost lock, for example.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    answer = await command
    if task is not None and task.cancelling() > before:
        raise asyncio.CancelledError
    return answer


class StorePipeline(Pipeline):
    """A pipeline that raises our errors."""

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Sends the commands, and returns their answers."""
        with redis_errors():
            return await _cancellable(super().execute(raise_on_error))


class StoreRedis(redis.Redis):
    """The stores' client. It raises StoreUnavailableError where redis-py raises an error of its own."""

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Sends a command, and returns its answer."""
        try:
            return await _cancellable(super().execute_command(*args, **options))  # type: ignore[no-untyped-call]
        except NoScriptError:
            raise  # redis-py loads the script and tries again
        except FOREIGN as error:
            raise translated(error) from error

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> StorePipeline:
        """Returns a pipeline on the same connections."""
        return StorePipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)


class WaitingSentinelPool(SentinelConnectionPool, redis.BlockingConnectionPool):
    """Connections to the primary that Sentinel names; a command waits while all are in use."""


def connect(url: str) -> redis.Redis:
    """Returns an asynchronous client, bytes in and out. It connects at the first command.

    A command without a free connection waits for one; by default, redis-py would raise an error.
    """
    connecting: dict[str, Any] = {"socket_connect_timeout": CONNECT_SECONDS}
    waiting: dict[str, Any] = {"max_connections": MOST_CONNECTIONS, "timeout": POOL_WAIT_SECONDS}
    if not url.startswith(SENTINEL):
        return StoreRedis.from_pool(redis.BlockingConnectionPool.from_url(url, **connecting, **waiting))
    hosts, service, db, credentials = _sentinel(url)
    sentinel: Any = redis.Sentinel(hosts, sentinel_kwargs=connecting, **credentials)  # type: ignore[no-untyped-call]
    client: redis.Redis = sentinel.master_for(
        service, redis_class=StoreRedis, connection_pool_class=WaitingSentinelPool, db=db, **connecting, **waiting
    )
    return client


class _Command(NamedTuple):
    """A command that waits for the next pipeline, and the future of its answer."""

    words: Sequence[Any]
    options: dict[str, Any]
    answer: asyncio.Future[Any]


class PipeliningRedis(StoreRedis):
    """A client that sends all commands of one event loop iteration in one pipeline.

    For readers: many concurrent requests cost a few round trips instead of a connection each. Each command gets its
    own answer or error. Blocking commands are not allowed: they would delay the commands behind them in the pipeline.

    Args:
        through: the client whose connections are used; its owner closes it.
    """

    def __init__(self, through: redis.Redis) -> None:
        super().__init__(connection_pool=through.connection_pool)
        self._through = through
        self._waiting: list[_Command] = []
        self._sending: set[asyncio.Task[None]] = set()

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Queues the command for the next pipeline, and returns its answer."""
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
            self._sending.add(task)  # asyncio keeps only weak references to tasks
            task.add_done_callback(self._sending.discard)

    async def _execute(self, commands: Sequence[_Command]) -> None:
        answers: Sequence[Any]
        try:
            async with self._through.pipeline(transaction=False) as pipe:
                for command in commands:
                    pipe.execute_command(*command.words, **command.options)
                answers = await pipe.execute(raise_on_error=False)
        except Exception as error:  # noqa: BLE001 - raised where each answer is awaited
            answers = [error] * len(commands)
        except BaseException:
            for command in commands:
                command.answer.cancel()
            raise
        for command, answer in zip(commands, answers, strict=True):
            if command.answer.done():  # the caller was cancelled
                continue
            if isinstance(answer, FOREIGN) and not isinstance(answer, NoScriptError):
                command.answer.set_exception(translated(answer))
            elif isinstance(answer, Exception):
                command.answer.set_exception(answer)
            else:
                command.answer.set_result(answer)


def connect_sync(url: str) -> sync_redis.Redis:
    """Returns a synchronous client, for RQ; it raises redis-py's errors, which RQ expects."""
    options: dict[str, Any] = {"socket_connect_timeout": CONNECT_SECONDS}
    if not url.startswith(SENTINEL):
        return sync_redis.Redis.from_url(url, **options)
    hosts, service, db, credentials = _sentinel(url)
    sentinel: Any = sync_redis.Sentinel(hosts, sentinel_kwargs=options, **credentials)  # type: ignore[no-untyped-call]
    return sentinel.master_for(service, db=db, **options)  # type: ignore[no-any-return]


def require(url: str) -> None:
    """Checks that Redis answers.

    Raises:
        StoreUnavailableError: it does not.
    """
    with redis_errors(), connect_sync(url) as redis:
        redis.ping()


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
