"""Redis connections: plain, TLS and Sentinel, a connection pool that waits, and a client that pipelines."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit
from weakref import WeakSet

import redis as sync_redis
from redis import asyncio as redis
from redis.asyncio.client import Pipeline
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.backoff import NoBackoff
from redis.connection import HiredisRespSerializer
from redis.driver_info import DriverInfo
from redis.exceptions import NoScriptError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry as SyncRetry

from ghapp.errors import ConfigurationError, Refusal
from ghapp.redis_errors import FOREIGN, redis_errors, refusal_of, translated
from ghapp.store import keys

Answer = TypeVar("Answer")

_serializer: Any = HiredisRespSerializer()

_DRIVER = DriverInfo()
"""The name and version that a connection sends to Redis. By default each connection reads the package's metadata, which
takes 3 ms."""

SENTINEL = "redis+sentinel"
DEFAULT_SENTINEL_PORT = 26379
CONNECT_SECONDS = 2.0
"""Also the time for the answer of a Sentinel. One that does not answer is not asked again: the next one is."""

MOST_CONNECTIONS = 50
"""Per client and Redis server. More would not speed up Redis' single thread."""

ANSWER_SECONDS = 5.0
"""How long a command may take, with its wait for a free connection. Blocking commands must ask for less.

One timer for a command or a pipeline, in place of redis-py's time-out of the socket: that one takes a timer for each
reply, and a task for each send, a third of what a command costs here. Before Python 3.12 that task also loses a
cancellation that arrives when the command was just sent (CPython issue 86296), so that the holder of a lost lock would
go on.
"""

MOST_IN_A_PIPELINE = 200
"""Commands per pipeline. Bounds the memory for answers, and how long other clients wait."""

LONGEST_HELD_SECONDS = 0.02
"""How long a command waits for the answer of the pipeline before. A slow answer, or none, holds up no other command."""


async def _answered(command: Awaitable[Answer]) -> Answer:
    """Awaits the answer of a command; raises redis-py's TimeoutError after `ANSWER_SECONDS`."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            return await command
    except TimeoutError:
        raise RedisTimeoutError(f"no answer within {ANSWER_SECONDS:.0f} s") from None


class StorePipeline(Pipeline):
    """A pipeline that raises our errors."""

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Sends the commands, and returns their answers."""
        with redis_errors():
            return await _answered(super().execute(raise_on_error))


class StoreRedis(redis.Redis):
    """The stores' client. It raises StoreUnavailableError where redis-py raises an error of its own."""

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Sends a command, and returns its answer."""
        try:
            return await self._sent_alone(args, options)
        except NoScriptError:
            raise  # redis-py loads the script and tries again
        except FOREIGN as error:
            raise translated(error) from error

    async def _sent_alone(self, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
        """As `execute_command`, with redis-py's errors."""
        return await _answered(super().execute_command(*args, **options))  # type: ignore[no-untyped-call]

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> StorePipeline:
        """Returns a pipeline on the same connections."""
        return StorePipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)


class WaitingSentinelPool(SentinelConnectionPool, redis.BlockingConnectionPool):
    """Connections to the primary that Sentinel names; a command waits while all are in use."""


def connect(url: str) -> redis.Redis:
    """Returns an asynchronous client, bytes in and out. It connects at the first command.

    A command without a free connection waits for one; by default, redis-py would raise an error.
    """
    connecting: dict[str, Any] = {
        "socket_timeout": None,
        "socket_connect_timeout": CONNECT_SECONDS,
        "driver_info": _DRIVER,
    }
    waiting: dict[str, Any] = {"max_connections": MOST_CONNECTIONS, "timeout": None}
    if url.startswith(SENTINEL):
        hosts, service, db, credentials = _sentinel(url)
        asking = connecting | {"socket_timeout": CONNECT_SECONDS, "retry": Retry(NoBackoff(), 0)}
        sentinel: Any = redis.Sentinel(hosts, sentinel_kwargs=asking, **credentials)  # type: ignore[no-untyped-call]
        client: redis.Redis = sentinel.master_for(
            service, redis_class=StoreRedis, connection_pool_class=WaitingSentinelPool, db=db, **connecting, **waiting
        )
    else:
        client = StoreRedis.from_pool(redis.BlockingConnectionPool.from_url(url, **connecting, **waiting))
    pool = client.connection_pool
    pool.connection_class = _packing(_leaving_replicas(pool.connection_class))
    return client


def _packing(connection: type[Any]) -> type[Any]:
    """Returns the class of connections with hiredis' encoder of commands.

    redis-py uses it in synchronous connections only. Its own encoder copies up to 6 KB for each argument.
    """

    def pack_command(_connection: Any, *args: Any) -> Any:
        return _serializer.pack(*args)

    return type(connection.__name__, (connection,), {"pack_command": pack_command})


def _leaving_replicas(connection: type[Any]) -> type[Any]:
    """Returns the class of a pool's connections, which are all replaced once the server shows that it is a replica.

    Behind one address (a Service, a virtual IP, a managed Redis) another server may be the primary by now, and only new
    connections reach it. Those in use are closed when their command is over, the others before they are used again.
    """
    of_pool = WeakSet[Any]()

    def __init__(self: Any, *args: Any, **options: Any) -> None:  # noqa: N807
        connection.__init__(self, *args, **options)
        of_pool.add(self)

    async def connect(self: Any) -> None:
        if self.should_reconnect():
            await self.disconnect()
        await connection.connect(self)

    async def read_response(self: Any, *args: Any, **options: Any) -> Any:
        try:
            return await connection.read_response(self, *args, **options)
        except FOREIGN as error:
            _mark_if_replica(error, of_pool)
            raise

    methods = {"__init__": __init__, "connect": connect, "read_response": read_response}
    return type(connection.__name__, (connection,), methods)


def _leaving_replicas_sync(connection: type[Any]) -> type[Any]:
    """As `_leaving_replicas`, for a pool that blocks."""
    of_pool = WeakSet[Any]()

    def __init__(self: Any, *args: Any, **options: Any) -> None:  # noqa: N807
        connection.__init__(self, *args, **options)
        of_pool.add(self)

    def connect(self: Any) -> None:
        if self.should_reconnect():
            self.disconnect()
        connection.connect(self)

    def read_response(self: Any, *args: Any, **options: Any) -> Any:
        try:
            return connection.read_response(self, *args, **options)
        except FOREIGN as error:
            _mark_if_replica(error, of_pool)
            raise

    methods = {"__init__": __init__, "connect": connect, "read_response": read_response}
    return type(connection.__name__, (connection,), methods)


def _mark_if_replica(error: Exception, connections: Iterable[Any]) -> None:
    if refusal_of(error) is Refusal.REPLICA:
        for each in list(connections):
            each.mark_for_reconnect()


_Command = tuple[Sequence[Any], Mapping[str, Any]]
"""Its words, and the options of redis-py's parser."""


class _Request(NamedTuple):
    """Commands that are sent together, in their order, and the future of their answers and errors."""

    commands: Sequence[_Command]
    answers: asyncio.Future[list[Any]]


class PipeliningRedis(StoreRedis):
    """A client that sends the commands of all its users together.

    A pipeline has the commands of one event loop iteration, and those that came while the pipeline before it was on its
    way. Many concurrent requests, or sweeps, then cost a few round trips instead of one and a connection each. Each
    command gets its own answer or error. Blocking commands are not allowed: they would delay the commands behind them.

    Args:
        through: the client whose connections are used; its owner closes it.
    """

    def __init__(self, through: redis.Redis) -> None:
        super().__init__(connection_pool=through.connection_pool)
        self._through = through
        self._waiting: list[_Request] = []
        self._sending: set[asyncio.Task[None]] = set()
        self._next: asyncio.Handle | None = None

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Queues the command for the next pipeline, and returns its answer."""
        (answer,) = await self.answers([(args, options)])
        if isinstance(answer, FOREIGN) and not isinstance(answer, NoScriptError):
            raise translated(answer) from answer
        if isinstance(answer, Exception):
            raise answer
        return answer

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> StorePipeline:
        """Returns a pipeline; without `transaction`, its commands join those of others."""
        if transaction:
            return super().pipeline(transaction, shard_hint)
        return _JoiningPipeline(self, shard_hint)

    async def answers(self, commands: Sequence[_Command]) -> list[Any]:
        """Queues commands, which are sent in one pipeline; returns the answer or the error of each."""
        loop = asyncio.get_running_loop()
        request = _Request(commands, loop.create_future())
        self._waiting.append(request)
        if self._next is None:
            self._next = (
                loop.call_later(LONGEST_HELD_SECONDS, self._send) if self._sending else loop.call_soon(self._send)
            )
        return await request.answers

    def _send(self) -> None:
        """Sends what waits, up to `MOST_IN_A_PIPELINE` commands, or the first request if it has more."""
        if self._next is not None:
            self._next.cancel()
            self._next = None
        waiting = [request for request in self._waiting if not request.answers.done()]  # the others were cancelled
        count, size = 0, 0
        for request in waiting:
            size += len(request.commands)
            if count and size > MOST_IN_A_PIPELINE:
                break
            count += 1
        requests, self._waiting = waiting[:count], waiting[count:]
        if requests:
            task = asyncio.create_task(self._execute(requests))
            self._sending.add(task)
            task.add_done_callback(self._sent)

    def _sent(self, task: asyncio.Task[None]) -> None:
        """Sends what came meanwhile. Tasks that got an answer have continued, so that their next commands are in it."""
        self._sending.discard(task)
        if self._waiting:
            self._send()

    async def _all_answers(self, commands: Sequence[_Command]) -> list[Any]:
        """Sends commands; returns the answer or the error of each. A single one needs no pipeline, which costs more."""
        if len(commands) == 1:
            try:
                return [await self._sent_alone(*commands[0])]
            except ResponseError as error:
                return [error]
            except FOREIGN as error:
                raise translated(error) from error
        async with self._through.pipeline(transaction=False) as pipe:
            for words, options in commands:
                pipe.execute_command(*words, **options)
            return await pipe.execute(raise_on_error=False)

    async def _execute(self, requests: Sequence[_Request]) -> None:
        try:
            answers = iter(await self._all_answers([each for request in requests for each in request.commands]))
        except Exception as error:  # noqa: BLE001 - raised where each answer is awaited
            for request in requests:
                if not request.answers.done():
                    request.answers.set_exception(error)
            return
        except BaseException:
            for request in requests:
                request.answers.cancel()
            raise
        for request in requests:
            answered = [next(answers) for _ in request.commands]
            if not request.answers.done():  # the caller was cancelled
                request.answers.set_result(answered)


class _JoiningPipeline(StorePipeline):
    """A pipeline whose commands are sent by a `PipeliningRedis`, with those of others."""

    def __init__(self, client: PipeliningRedis, shard_hint: str | None) -> None:
        super().__init__(client.connection_pool, client.response_callbacks, False, shard_hint)
        self._client = client

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Sends the commands, and returns their answers."""
        stack, self.command_stack = self.command_stack, []
        answers = await self._client.answers(stack) if stack else []
        if raise_on_error:
            with redis_errors():
                self.raise_first_error(stack, answers)
        return answers


def connect_sync(url: str, **more: Any) -> sync_redis.Redis:
    """Returns a synchronous client, for RQ, with `more` options; it raises redis-py's errors, which RQ expects."""
    options: dict[str, Any] = {"socket_connect_timeout": CONNECT_SECONDS, "driver_info": _DRIVER, **more}
    if url.startswith(SENTINEL):
        hosts, service, db, credentials = _sentinel(url)
        asking = options | {"socket_timeout": CONNECT_SECONDS, "retry": SyncRetry(NoBackoff(), 0)}
        sentinel: Any = sync_redis.Sentinel(hosts, sentinel_kwargs=asking, **credentials)  # type: ignore[no-untyped-call]
        client: sync_redis.Redis = sentinel.master_for(service, db=db, **options)
    else:
        client = sync_redis.Redis.from_url(url, **options)
    pool = client.connection_pool
    pool.connection_class = _leaving_replicas_sync(pool.connection_class)
    return client


def require(url: str) -> None:
    """Checks that Redis answers within `ANSWER_SECONDS`.

    Raises:
        StoreUnavailableError: it does not.
    """
    patience: dict[str, Any] = {"socket_timeout": ANSWER_SECONDS, "retry": SyncRetry(NoBackoff(), 0)}
    with redis_errors(), connect_sync(url, **patience) as redis:
        redis.ping()


PROBE_MILLISECONDS = 1000


async def probe_write(client: redis.Redis) -> None:
    """Writes a key that expires at once: a replica, and a Redis whose memory or disk is full, still answer reads.

    Raises:
        StoreRefusedError: Redis answers, and refuses writes.
        StoreUnavailableError: it does not answer.
    """
    await client.set(keys.PROBE, b"", px=PROBE_MILLISECONDS)


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
