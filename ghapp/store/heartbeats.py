"""Heartbeats: each long-running process reports every few seconds that it is alive."""

from __future__ import annotations

from typing import Any

from redis.asyncio import Redis

from ghapp.redis_clock import TOLERATED_SECONDS, SharedClock
from ghapp.store import keys
from ghapp.store.quarantine import PlainReader, text

SILENT_SECONDS = 30.0
"""A process silent for longer has crashed, or cannot reach Redis, which has the same effect."""

KEPT_SECONDS = 3600
"""After the last heartbeat of a role, and after the last machine with another time."""

OFF_SECONDS = 120.0
"""How long a machine with another time is reported: its processes measure it again within a minute."""


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
            pipe.expire(keys.heartbeats(role), KEPT_SECONDS)
            await pipe.execute()

    async def measure_clock(self, clock: SharedClock, who: str) -> None:
        """Sets the clock of the process `who` by Redis' time, and records it if its machine has another time."""
        await clock.measure(self._redis)
        if abs(clock.ahead) > TOLERATED_SECONDS:
            now = clock()
            async with self._redis.pipeline(transaction=False) as pipe:
                pipe.zadd(keys.CLOCKS_OFF, {f"{clock.ahead:+.0f} {who}": now})
                pipe.zremrangebyscore(keys.CLOCKS_OFF, "-inf", now - OFF_SECONDS)
                pipe.expire(keys.CLOCKS_OFF, KEPT_SECONDS)
                await pipe.execute()

    async def clocks_off(self, now: float) -> dict[str, float]:
        """Returns the processes whose machine had another time lately, and by how many seconds it was ahead."""
        rows: Any = await self._redis.zrangebyscore(keys.CLOCKS_OFF, now - OFF_SECONDS, "+inf")
        found = (each.partition(" ") for each in await self._read.members(keys.CLOCKS_OFF, rows))
        return {who: float(ahead) for ahead, _, who in found}

    async def alive(self, role: str, now: float) -> list[str]:
        """Returns the processes with a recent heartbeat."""
        rows: Any = await self._redis.zrangebyscore(keys.heartbeats(role), now - SILENT_SECONDS, "+inf")
        return await self._read.members(keys.heartbeats(role), rows)
