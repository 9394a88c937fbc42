"""Deletions that ghapp itself requested of lost runners' pods and ARC objects: their ends are no deaths.

They are kept apart from the runner's record, which changes: the registration may return while a finalizer is stuck, or
another registration gets the name. A deletion is recorded before it is requested, and withdrawn if the API server
refuses it or another client was faster; one without an answer stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from redis.asyncio import Redis

from ghapp.store import keys

KEPT_SECONDS = 7 * 86_400
"""A pod may be Terminating for days."""

MOST_DELETIONS = 10_000
"""Per installation, the latest."""


class OwnDeletions:
    """The deletions, by the uid of the pod or of its owner."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def record(self, installation: int, uid: str, at: float) -> None:
        """Records a deletion that is about to be requested (epoch seconds)."""
        key = keys.own_deletions(installation)
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.zadd(key, {uid: at})
            pipe.zremrangebyscore(key, "-inf", at - KEPT_SECONDS)
            pipe.zremrangebyrank(key, 0, -MOST_DELETIONS - 1)
            pipe.expire(key, KEPT_SECONDS)
            await pipe.execute()

    async def withdraw(self, installation: int, uid: str) -> None:
        """Records that this deletion was not ours."""
        await self._redis.zrem(keys.own_deletions(installation), uid)

    async def has_any(self, installation: int, uids: Iterable[str]) -> bool:
        """True if ghapp requested the deletion of an object with one of these uids."""
        asked = [uid for uid in uids if uid]
        if not asked:
            return False
        found: Any = await self._redis.zmscore(keys.own_deletions(installation), asked)
        return any(at is not None for at in found)
