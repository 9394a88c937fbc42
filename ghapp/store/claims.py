"""Claims: the exclusive, expiring right to act on one thing. Whoever dies holding one loses it by time."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from redis.asyncio import Redis

from ghapp.store import keys

_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


class Claims:
    """Who may act on what."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._release: Any = redis.register_script(_RELEASE)

    @asynccontextmanager
    async def hold(self, kind: str, of: str | int, seconds: float) -> AsyncIterator[bool]:
        """Hold a claim while the block runs; yields False when somebody else has it.

        `seconds` must outlast the block: choose the job's time-out.
        """
        key, token = keys.claim(kind, str(of)), secrets.token_hex(8)
        mine = bool(await self._redis.set(key, token, nx=True, px=int(seconds * 1000)))
        try:
            yield mine
        finally:
            if mine:
                await self._release(keys=[key], args=[token])
