"""What is left of each installation's hourly calls, as GitHub last said, for all processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from redis.asyncio import Redis

from ghapp.health.cadence import Allowance
from ghapp.store import keys

_HEAR = """
local reset = tonumber(redis.call('HGET', KEYS[1], 'reset') or '0')
local used = tonumber(redis.call('HGET', KEYS[1], 'used') or '0')
if tonumber(ARGV[3]) < reset then return end
if tonumber(ARGV[3]) == reset and tonumber(ARGV[2]) < used then return end
redis.call('HSET', KEYS[1], 'limit', ARGV[1], 'used', ARGV[2], 'reset', ARGV[3])
"""
"""Answers may arrive out of order: within one hour the largest `used` is the latest."""


class Budget:
    """The budgets of all installations."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._hear: Any = redis.register_script(_HEAR)

    async def hear(self, installation: int, headers: Mapping[str, str]) -> None:
        """Take note of an answer's `x-ratelimit-*` headers; answers without them say nothing."""
        limit, used, reset = (headers.get(f"x-ratelimit-{name}", "") for name in ("limit", "used", "reset"))
        if limit.isdigit() and used.isdigit() and reset.isdigit():
            await self._hear(keys=[keys.budget(installation)], args=[limit, used, reset])

    async def left(self, installation: int, now: float) -> Allowance:
        """What GitHub last said, as of `now`; a full hour when its reset has passed."""
        row: Any = await self._redis.hgetall(keys.budget(installation))
        if not row:
            return Allowance()
        resets_in = float(row[b"reset"]) - now
        used = int(row[b"used"]) if resets_in > 0 else 0
        return Allowance(limit=int(row[b"limit"]), used=used, resets_in=max(0.0, resets_in))
