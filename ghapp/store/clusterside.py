"""What the last looks at the cluster have left, for whoever tells of it and for the next look."""

from __future__ import annotations

from typing import Any

import msgspec
from redis.asyncio import Redis

from ghapp.health.cluster.clusterside import BRIDGED_SECONDS, ClusterSide
from ghapp.store import keys

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ClusterSide).decode


class ClusterSides:
    """Those of all installations."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def keep(self, installation: int, side: ClusterSide) -> None:
        """Record a look. It is forgotten when no other follows."""
        await self._redis.set(keys.cluster_side(installation), _encode(side), ex=int(BRIDGED_SECONDS))

    async def of(self, installation: int) -> ClusterSide | None:
        """What was left; None where nobody has looked for ten minutes."""
        row: Any = await self._redis.get(keys.cluster_side(installation))
        return None if row is None else _decode(row)
