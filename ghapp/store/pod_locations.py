"""In which namespaces pools really have their pods, as far as anybody has seen.

A pool's namespace may be wrong and exist all the same. There nothing of its runners is found, and that must not be
taken for the end of what was to be deleted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from redis.asyncio import Redis

from ghapp.store import keys

KEPT_SECONDS = 30 * 86_400


class PodLocations:
    """Those of all installations."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def seen(self, installation: int, places: Iterable[tuple[str, str]], at: float) -> None:
        """Something of these pools was seen in these namespaces: (pool, namespace)."""
        fields: dict[Any, Any] = {_field(*place): repr(float(at)) for place in places}
        if not fields:
            return
        key = keys.places(installation)
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.hset(key, mapping=fields)
            pipe.expire(key, KEPT_SECONDS)
            await pipe.execute()

    async def is_known(self, installation: int, pool: str, namespace: str) -> bool:
        """Whether anything of the pool was ever seen there; a month without any other sight forgets it."""
        return bool(await self._redis.hexists(keys.places(installation), _field(pool, namespace)))

    async def all(self, installation: int) -> set[tuple[str, str]]:
        """Every (pool, namespace) that is known."""
        fields: Any = await self._redis.hkeys(keys.places(installation))
        found = (field.decode().rpartition("/") for field in fields)
        return {(pool, namespace) for pool, _, namespace in found}


def _field(pool: str, namespace: str) -> str:
    """Neither has a slash."""
    return f"{pool}/{namespace}"
