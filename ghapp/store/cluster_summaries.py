"""What the last looks at the cluster have left, for whoever tells of it and for the next look."""

from __future__ import annotations

from typing import Any

from redis.asyncio import Redis

from ghapp.health.cluster_summary import BRIDGED_SECONDS, ClusterSummary
from ghapp.health.deaths.cause import Cause
from ghapp.health.pods.phantom_kinds import PhantomKind, PhantomReason
from ghapp.store import keys
from ghapp.store.codec import DROPPED, Codec
from ghapp.store.quarantine import RecordReader

_sides = Codec(
    "cluster-side", ClusterSummary, unknown={PhantomKind: DROPPED, PhantomReason: DROPPED, Cause: Cause.UNKNOWN}
)


class ClusterSummaries:
    """Those of all installations."""

    def __init__(self, redis: Redis) -> None:
        self._redis, self._read = redis, RecordReader(redis, _sides)

    async def keep(self, installation: int, side: ClusterSummary) -> None:
        """Record a look. It is forgotten when no other follows."""
        await self._redis.set(keys.cluster_side(installation), _sides.encode(side), ex=int(BRIDGED_SECONDS))

    async def of(self, installation: int) -> ClusterSummary | None:
        """What was left; None without a look in the last ten minutes, and for an unreadable record."""
        row: Any = await self._redis.get(keys.cluster_side(installation))
        return await self._read.one(keys.cluster_side(installation), row)
