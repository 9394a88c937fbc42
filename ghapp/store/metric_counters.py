"""Counters that live longer than the process that counts: jobs are forked, and die with their work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from redis import Redis as SyncRedis
from redis.asyncio import Redis

from ghapp.store import keys


class MetricCounters:
    """Prometheus counters in Redis, one field a series."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def add(self, metric: str, amount: float = 1, **labels: str) -> None:
        """Count. Labels come from closed sets or from configuration, never from a stranger's payload."""
        await self._redis.hincrbyfloat(keys.COUNTERS, _series(metric, labels), amount)

    async def all(self) -> dict[str, float]:
        """Every series, as `name{label="value"}`."""
        rows: Any = await self._redis.hgetall(keys.COUNTERS)
        return {field.decode(): float(value) for field, value in rows.items()}


def count(redis: SyncRedis, metric: str, **labels: str) -> None:
    """Count one, where nothing is asynchronous."""
    redis.hincrbyfloat(keys.COUNTERS, _series(metric, labels), 1)


def _series(metric: str, labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in sorted(labels.items()))
    return f"{metric}{{{pairs}}}" if pairs else metric


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
