"""The namespaces in which pods of each pool were seen.

A pool's configured namespace may be wrong and exist all the same. That none of its runners is found there must not be
taken as proof that their pods were deleted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from redis.asyncio import Redis

from ghapp.store import keys

KEPT_SECONDS = 30 * 86_400


class PodLocations:
    """The locations of all installations."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def seen(self, installation: int, places: Iterable[tuple[str, str]], at: float) -> None:
        """Records that pods of these pools were seen in these namespaces: (pool, namespace)."""
        fields: dict[Any, Any] = {_field(*place): repr(float(at)) for place in places}
        if not fields:
            return
        key = keys.places(installation)
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.hset(key, mapping=fields)
            pipe.expire(key, KEPT_SECONDS)
            await pipe.execute()

    async def is_known(self, installation: int, pool: str, namespace: str) -> bool:
        """True if a pod of the pool was seen there; forgotten after a month in which none was seen."""
        return bool(await self._redis.hexists(keys.places(installation), _field(pool, namespace)))

    async def all(self, installation: int) -> set[tuple[str, str]]:
        """Returns all known (pool, namespace)."""
        fields: Any = await self._redis.hkeys(keys.places(installation))
        found = (field.decode().rpartition("/") for field in fields)
        return {(pool, namespace) for pool, _, namespace in found}


def _field(pool: str, namespace: str) -> str:
    """Returns the field; neither name contains a slash."""
    return f"{pool}/{namespace}"
