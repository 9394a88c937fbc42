"""The summary of the last cluster snapshots, for reports and for the next snapshot."""

from __future__ import annotations

from typing import Any

from redis.asyncio import Redis

from ghapp.deaths.cause import Cause
from ghapp.deaths.cluster_summary import BRIDGED_SECONDS, ClusterSummary
from ghapp.pods.phantom_kinds import PhantomKind, PhantomReason
from ghapp.store import keys
from ghapp.store.codec import DROPPED, Codec
from ghapp.store.quarantine import RecordReader

_summaries = Codec(
    "cluster-summary", ClusterSummary, unknown={PhantomKind: DROPPED, PhantomReason: DROPPED, Cause: Cause.UNKNOWN}
)


class ClusterSummaries:
    """The summaries of all installations."""

    def __init__(self, redis: Redis) -> None:
        self._redis, self._read = redis, RecordReader(redis, _summaries)

    async def keep(self, installation: int, cluster_summary: ClusterSummary) -> None:
        """Records a summary; it expires unless another one follows."""
        await self._redis.set(
            keys.cluster_summary(installation), _summaries.encode(cluster_summary), ex=int(BRIDGED_SECONDS)
        )

    async def of(self, installation: int) -> ClusterSummary | None:
        """Returns the last summary; None if it is older than ten minutes, or unreadable."""
        row: Any = await self._redis.get(keys.cluster_summary(installation))
        return await self._read.one(keys.cluster_summary(installation), row)
