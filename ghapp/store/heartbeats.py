"""Heartbeats: each long-running process reports every few seconds that it is alive."""

from __future__ import annotations

from typing import Any

from redis.asyncio import Redis

from ghapp.store import keys
from ghapp.store.quarantine import PlainReader, text

SILENT_SECONDS = 30.0
"""A process silent for longer has crashed, or cannot reach Redis, which has the same effect."""


class Heartbeats:
    """The live processes, by role."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._read = PlainReader(redis, "heartbeat", text)

    async def beat(self, role: str, who: str, now: float) -> None:
        """Records a heartbeat of the process `who`, and deletes old entries."""
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.zadd(keys.heartbeats(role), {who: now})
            pipe.zremrangebyscore(keys.heartbeats(role), "-inf", now - 10 * SILENT_SECONDS)
            await pipe.execute()

    async def alive(self, role: str, now: float) -> list[str]:
        """Returns the processes with a recent heartbeat."""
        rows: Any = await self._redis.zrangebyscore(keys.heartbeats(role), now - SILENT_SECONDS, "+inf")
        return await self._read.members(keys.heartbeats(role), rows)
