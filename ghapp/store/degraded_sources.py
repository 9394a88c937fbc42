"""Degraded sources of cluster data, each with the error that was last seen, for the report.

An error stays until its source works again, and at most a quarter of an hour after it was last reported, because the
process that reports the end may have crashed. The watch repeats its errors each minute while they last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis.asyncio import Redis

from ghapp.store import keys
from ghapp.store.quarantine import PlainReader, text

KEPT_SECONDS = 900


class DegradedSources:
    """The errors of all sources: namespaces, and the log store."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._read = PlainReader(redis, "trouble", text)

    async def record(self, place: str, why: str) -> None:
        """Records the error of a source, in place of an earlier one."""
        await self._redis.set(keys.trouble(place), why, ex=KEPT_SECONDS)

    async def over(self, *places: str) -> None:
        """Records that these sources work again."""
        if places:
            await self._redis.delete(*map(keys.trouble, places))

    async def of(self, places: Sequence[str]) -> dict[str, str]:
        """Returns the errors by source, in the given order."""
        if not places:
            return {}
        rows: Any = await self._redis.mget([keys.trouble(place) for place in places])
        found = {place: await self._read.one(keys.trouble(place), row) for place, row in zip(places, rows, strict=True)}
        return {place: why for place, why in found.items() if why is not None}
