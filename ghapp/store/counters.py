"""Counters that live longer than the process that counts: jobs are forked, and die with their work."""

from __future__ import annotations

from typing import Any

from redis.asyncio import Redis

from ghapp.store import keys


class Counters:
    """Prometheus counters in Redis, one field a series."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def add(self, metric: str, amount: float = 1, **labels: str) -> None:
        """Count. Labels come from closed sets or from configuration, never from a stranger's payload."""
        pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in sorted(labels.items()))
        field = f"{metric}{{{pairs}}}" if pairs else metric
        await self._redis.hincrbyfloat(keys.COUNTERS, field, amount)

    async def all(self) -> dict[str, float]:
        """Every series, as `name{label="value"}`."""
        rows: Any = await self._redis.hgetall(keys.COUNTERS)
        return {field.decode(): float(value) for field, value in rows.items()}


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
