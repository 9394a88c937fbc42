"""Counters in Redis: of metrics, because each job runs in a forked process that ends with it; and of the history.

What the history counts is counted by the same scripts that record it, so that each is counted exactly once. A script
that wants to count prepends `COUNT` to its source, and gives the key of the counts and what `history_field` returns. A
sweep joins the counts to the history; see `ghapp.incidents.store`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from redis import Redis as SyncRedis
from redis.asyncio import Redis

from ghapp.errors import StoreRefusedError
from ghapp.incidents.history import step_of
from ghapp.installations.pool_matching import OTHER_POOL
from ghapp.log import logger
from ghapp.metric import Counter, Histogram
from ghapp.redis_errors import redis_errors
from ghapp.store import keys

MOST_SHARDS = 20
MOST_LOGGED = 10
OTHER_SHARD = "other"
"""The shard of all others: names of shards come from labels and names of runners."""

UNREADABLE_RECORDS = Counter(
    "ghapp_unreadable_records_total",
    "Stored records that could not be read and were set aside, by kind.",
    ("kind",),
)
UNREADABLE = UNREADABLE_RECORDS.series(kind="counter")

log = logger(__name__)

_SHARD = """
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 1 then return 1 end
if redis.call('SCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
return redis.call('SADD', KEYS[1], ARGV[1])
"""

MOST_COUNTS = 20_000
"""Fields of an installation; beyond them counts go to the pool `other`. Sweeps keep the fields of a few steps only."""

COUNTS_KEPT_SECONDS = 7 * 86_400

COUNT = """
local function history_field(key, field, other)
    local length = redis.pcall('HLEN', key)
    if type(length) ~= 'number' then return nil end
    return length >= MOST and redis.call('HEXISTS', key, field) == 0 and other or field
end
local function count(key, field, other, amount)
    field = history_field(key, field, other)
    if not field then return end
    local added = redis.pcall('HINCRBY', key, field, amount)
    if type(added) ~= 'number' then redis.call('HSET', key, field, amount) end
    redis.call('EXPIRE', key, KEPT)
end
local function raise(key, field, other, value)
    field = history_field(key, field, other)
    if field and tonumber(value) > (tonumber(redis.call('HGET', key, field) or '') or 0) then
        redis.call('HSET', key, field, value)
        redis.call('EXPIRE', key, KEPT)
    end
end
""".replace("MOST", str(MOST_COUNTS)).replace("KEPT", str(COUNTS_KEPT_SECONDS))
"""Lua: `count` adds, `raise` keeps the greater value. An unreadable value starts at zero again: counts must never
prevent the record of what is counted."""


class MetricCounters:
    """Prometheus counters in Redis, one field per series."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._shard: Any = redis.register_script(_SHARD)

    async def add(self, metric: Counter, amount: float = 1, **labels: str) -> None:
        """Adds to a counter."""
        series = metric.series(**labels)
        try:
            await self._redis.hincrbyfloat(keys.COUNTERS, series, amount)
        except StoreRefusedError as error:
            if "not a float" not in error.why:
                raise
            await self.restart({series: amount})

    def batch(self) -> CounterBatch:
        """Returns a batch of additions that are sent in one round trip."""
        return CounterBatch(self._add)

    async def observe(self, metric: Histogram, values: Iterable[float], **labels: str) -> None:
        """Adds measured values to a histogram."""
        batch = self.batch()
        batch.observe(metric, values, **labels)
        await batch.send()

    async def _add(self, added: Mapping[str, float]) -> None:
        async with self._redis.pipeline(transaction=False) as pipe:
            for series, amount in added.items():
                pipe.hincrbyfloat(keys.COUNTERS, series, amount)
            results = await pipe.execute(raise_on_error=False)
        failed = {series: error for series, error in zip(added, results, strict=True) if isinstance(error, Exception)}
        if other := next((error for error in failed.values() if "not a float" not in str(error)), None):
            raise other
        await self.restart({series: added[series] for series in failed})

    async def shard_label(self, installation: int, pool: str, shard: str) -> str:
        """Returns the value of the label `shard`: the first 20 shards of a pool have series of their own.

        Counters are kept forever, so that the others, as of a pool that renames its shards with each deploy, are
        counted as the shard `other`.
        """
        is_named = await self._shard(keys=[keys.metric_shards(installation, pool)], args=[shard, MOST_SHARDS])
        return shard if is_named else OTHER_SHARD

    async def all(self) -> dict[str, float]:
        """Returns all series by `name{label="value"}`."""
        rows: Any = await self._redis.hgetall(keys.COUNTERS)
        found = {field.decode(errors="replace"): value for field, value in rows.items()}
        values = {series: _number(value) for series, value in found.items()}
        if unreadable := {series: 0.0 for series, value in values.items() if value is None}:
            await self.restart(unreadable)
        return {series: value or 0.0 for series, value in values.items()}

    async def restart(self, counted: Mapping[str, float]) -> None:
        """Restarts unreadable series; for Prometheus this is an ordinary counter reset."""
        if not counted:
            return
        restarted: Any = dict(counted)
        await self._redis.hset(keys.COUNTERS, mapping=restarted)
        if UNREADABLE not in counted:
            await self._redis.hincrbyfloat(keys.COUNTERS, UNREADABLE, len(counted))
        log.warning("unreadable counters restarted", series=sorted(counted)[:MOST_LOGGED])


class CounterBatch:
    """Additions to several counters. `send` sends them, or the transaction that stores what they count (`added`)."""

    def __init__(self, send: Callable[[Mapping[str, float]], Awaitable[None]]) -> None:
        self._send = send
        self._added: dict[str, float] = {}

    def add(self, metric: Counter, amount: float = 1, **labels: str) -> None:
        """Adds to a counter when the batch is sent."""
        self._add({metric.series(**labels): amount})

    def observe(self, metric: Histogram, values: Iterable[float], **labels: str) -> None:
        """Adds measured values to a histogram when the batch is sent."""
        self._add(metric.observed(values, **labels))

    def _add(self, added: Mapping[str, float]) -> None:
        for series, amount in added.items():
            self._added[series] = self._added.get(series, 0.0) + amount

    @property
    def added(self) -> Mapping[str, float]:
        """What was added, by series."""
        return self._added

    async def send(self) -> None:
        """Sends what was added, in one round trip."""
        if self._added:
            await self._send(self._added)


def _number(row: bytes) -> float | None:
    try:
        return float(row)
    except ValueError:
        return None


def count(redis: SyncRedis, metric: Counter, **labels: str) -> None:
    """Adds one, in synchronous code. An unreadable series is restarted by `MetricCounters`."""
    with suppress(StoreRefusedError), redis_errors():
        redis.hincrbyfloat(keys.COUNTERS, metric.series(**labels), 1)


def history_field(at: float, name: str, pool: str) -> str:
    """Returns the field of a count in the step that contains `at` (epoch seconds)."""
    return f"{step_of(at)}|{name}|{pool}"


def other_history_field(at: float, name: str) -> str:
    """Returns the field that is used when there are too many."""
    return history_field(at, name, OTHER_POOL)


def parsed(row: bytes) -> tuple[int, str, str] | None:
    """Returns the step, the name and the pool of a field; None if it is none."""
    step, _, rest = row.decode(errors="replace").partition("|")
    name, _, pool = rest.partition("|")
    return (int(step), name, pool) if step.isascii() and step.isdigit() and name and pool else None
