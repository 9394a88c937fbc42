"""Counters that live longer than the process that counts: jobs are forked, and die with their work."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from redis import Redis as SyncRedis
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from ghapp.store import keys


class MetricCounters:
    """Prometheus counters in Redis, one field a series."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def add(self, metric: str, amount: float = 1, **labels: str) -> None:
        """Count. Labels come from closed sets or from configuration, never from a stranger's payload."""
        series = _series(metric, labels)
        try:
            await self._redis.hincrbyfloat(keys.COUNTERS, series, amount)
        except ResponseError as error:
            if "not a float" not in str(error):
                raise
            await self._restart({series: amount})

    async def all(self) -> dict[str, float]:
        """Every series, as `name{label="value"}`."""
        rows: Any = await self._redis.hgetall(keys.COUNTERS)
        found = {field.decode(errors="replace"): value for field, value in rows.items()}
        values = {series: _number(value) for series, value in found.items()}
        if unreadable := {series: 0.0 for series, value in values.items() if value is None}:
            await self._restart(unreadable)
        return {series: value or 0.0 for series, value in values.items()}

    async def _restart(self, counted: Mapping[str, float]) -> None:
        """Set unreadable series aside, and let them begin anew: for Prometheus that is a reset, like any other."""
        from ghapp.store.quarantine import Quarantine  # it counts what it sets aside

        rows: Any = await self._redis.hmget(keys.COUNTERS, list(counted))
        anew: Any = dict(counted)
        await self._redis.hset(keys.COUNTERS, mapping=anew)
        unreadable = {series: row for series, row in zip(counted, rows, strict=True) if row is not None}
        await Quarantine(self._redis).set_aside("counter", keys.COUNTERS, unreadable)


def _number(row: bytes) -> float | None:
    try:
        return float(row)
    except ValueError:
        return None


def count(redis: SyncRedis, metric: str, **labels: str) -> None:
    """Count one, where nothing is asynchronous. A series that is unreadable waits for `Counters` to begin anew."""
    with suppress(ResponseError):
        redis.hincrbyfloat(keys.COUNTERS, _series(metric, labels), 1)


def _series(metric: str, labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in sorted(labels.items()))
    return f"{metric}{{{pairs}}}" if pairs else metric


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
