"""Who is alive: each long-lived role says so every few seconds."""

from __future__ import annotations

from typing import Any

from redis.asyncio import Redis

from ghapp.store import keys
from ghapp.store.quarantine import PlainReader, text

SILENT_SECONDS = 30.0
"""Whoever was silent for longer is dead, or cannot reach Redis, which is the same to the others."""


class Heartbeats:
    """The living, by role."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._read = PlainReader(redis, "heartbeat", text)

    async def beat(self, role: str, who: str, now: float) -> None:
        """`who` is alive; the long dead are forgotten."""
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.zadd(keys.heartbeats(role), {who: now})
            pipe.zremrangebyscore(keys.heartbeats(role), "-inf", now - 10 * SILENT_SECONDS)
            await pipe.execute()

    async def alive(self, role: str, now: float) -> list[str]:
        """Who was heard of lately."""
        rows: Any = await self._redis.zrangebyscore(keys.heartbeats(role), now - SILENT_SECONDS, "+inf")
        return await self._read.members(keys.heartbeats(role), rows)
