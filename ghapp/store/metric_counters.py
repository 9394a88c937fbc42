"""Metric counters in Redis, because each job runs in a forked process that ends with the job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from redis import Redis as SyncRedis
from redis.asyncio import Redis

from ghapp.errors import StoreRefusedError
from ghapp.redis_errors import redis_errors
from ghapp.store import keys

MOST_SHARDS = 20
OTHER_SHARD = "other"
"""The shard of all others: names of shards come from labels and names of runners."""

_SHARD = """
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 1 then return 1 end
if redis.call('SCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
return redis.call('SADD', KEYS[1], ARGV[1])
"""


class MetricCounters:
    """Prometheus counters in Redis, one field per series."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._shard: Any = redis.register_script(_SHARD)

    async def add(self, metric: str, amount: float = 1, **labels: str) -> None:
        """Adds to a counter. Labels must come from closed sets or the configuration, never from untrusted payloads."""
        series = series_name(metric, labels)
        try:
            await self._redis.hincrbyfloat(keys.COUNTERS, series, amount)
        except StoreRefusedError as error:
            if "not a float" not in error.why:
                raise
            await self._restart({series: amount})

    async def observe(self, metric: str, values: Iterable[float], buckets: Sequence[float], **labels: str) -> None:
        """Adds values to a histogram: a counter for each bucket (cumulative), for the sum and for the count.

        Args:
            metric: its name, without a suffix.
            values: what was measured.
            buckets: upper bounds, ascending, without infinity.
            labels: as of `add`.
        """
        measured = list(values)
        if not measured:
            return
        below = {f"{bound:g}": sum(value <= bound for value in measured) for bound in buckets}
        below["+Inf"] = len(measured)
        added = {
            series_name(f"{metric}_bucket", {**labels, "le": bound}): float(count) for bound, count in below.items()
        }
        added |= {
            series_name(f"{metric}_sum", labels): sum(measured),
            series_name(f"{metric}_count", labels): len(measured),
        }
        async with self._redis.pipeline(transaction=False) as pipe:
            for series, amount in added.items():
                pipe.hincrbyfloat(keys.COUNTERS, series, amount)
            results = await pipe.execute(raise_on_error=False)
        failed = {series: error for series, error in zip(added, results, strict=True) if isinstance(error, Exception)}
        if other := next((error for error in failed.values() if "not a float" not in str(error)), None):
            raise other
        if failed:
            await self._restart({series: added[series] for series in failed})

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
            await self._restart(unreadable)
        return {series: value or 0.0 for series, value in values.items()}

    async def _restart(self, counted: Mapping[str, float]) -> None:
        """Sets unreadable series aside and restarts them; for Prometheus this is an ordinary counter reset."""
        from ghapp.store.quarantine import Quarantine  # imported here: it imports this module

        rows: Any = await self._redis.hmget(keys.COUNTERS, list(counted))
        restarted: Any = dict(counted)
        await self._redis.hset(keys.COUNTERS, mapping=restarted)
        unreadable = {series: row for series, row in zip(counted, rows, strict=True) if row is not None}
        await Quarantine(self._redis).set_aside("counter", keys.COUNTERS, unreadable)


def _number(row: bytes) -> float | None:
    try:
        return float(row)
    except ValueError:
        return None


def count(redis: SyncRedis, metric: str, **labels: str) -> None:
    """Adds one, in synchronous code. An unreadable series is restarted by `MetricCounters`."""
    with suppress(StoreRefusedError), redis_errors():
        redis.hincrbyfloat(keys.COUNTERS, series_name(metric, labels), 1)


def series_name(metric: str, labels: Mapping[str, str]) -> str:
    """Returns the name of a series as it is stored: `metric{label="value"}`, the labels sorted."""
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in sorted(labels.items()))
    return f"{metric}{{{pairs}}}" if pairs else metric


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
