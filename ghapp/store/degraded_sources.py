"""What keeps us from seeing the cluster side, in the words of whoever met it last: for the report.

A trouble stays until whoever met it gets on, and no longer than a quarter of an hour after it was said last: the one
who would say that it is over may be gone. The watch says its own again each minute while they last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis.asyncio import Redis

from ghapp.store import keys
from ghapp.store.quarantine import PlainReader, text

KEPT_SECONDS = 900


class DegradedSources:
    """Those of all places: a namespace's view, or the log store."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._read = PlainReader(redis, "trouble", text)

    async def say(self, place: str, why: str) -> None:
        """Something is in the way there; the last word holds."""
        await self._redis.set(keys.trouble(place), why, ex=KEPT_SECONDS)

    async def over(self, place: str) -> None:
        """Nothing is, any more."""
        await self._redis.delete(keys.trouble(place))

    async def of(self, places: Sequence[str]) -> dict[str, str]:
        """What is in the way, by the place, in the given order."""
        if not places:
            return {}
        said: Any = await self._redis.mget([keys.trouble(place) for place in places])
        found = {place: await self._read.one(keys.trouble(place), why) for place, why in zip(places, said, strict=True)}
        return {place: why for place, why in found.items() if why is not None}
