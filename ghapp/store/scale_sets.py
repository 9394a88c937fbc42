"""ARC's scale sets of each namespace, as the watch last read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis.asyncio import Redis

from ghapp.pods.scale_sets import ScaleSet
from ghapp.store import keys
from ghapp.store.codec import Codec
from ghapp.store.quarantine import RecordReader

KEPT_SECONDS = 600
"""They are read once a minute. Older ones say nothing about what is wanted now."""

_scale_sets = Codec("scale-sets", tuple[ScaleSet, ...])


class ScaleSets:
    """The scale sets of all namespaces."""

    def __init__(self, redis: Redis) -> None:
        self._redis, self._read = redis, RecordReader(redis, _scale_sets)

    async def put(self, namespace: str, found: Sequence[ScaleSet]) -> None:
        """Records all scale sets of a namespace."""
        await self._redis.set(keys.scale_sets(namespace), _scale_sets.encode(tuple(found)), ex=KEPT_SECONDS)

    async def get(self, namespace: str) -> tuple[ScaleSet, ...]:
        """Returns them; none if they were not read for minutes, as where they cannot be read."""
        row: Any = await self._redis.get(keys.scale_sets(namespace))
        return await self._read.one(keys.scale_sets(namespace), row) or ()
