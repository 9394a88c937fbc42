"""The rounds of deployed commits with the gate: which check run tells of each, and what is to be remembered."""

from __future__ import annotations

from typing import Any

from redis.asyncio import Redis

from ghapp.health.gate.gate_checks import GateCheck
from ghapp.store import keys
from ghapp.store.codec import Codec
from ghapp.store.quarantine import RecordReader

KEPT_SECONDS = 30 * 86_400

_rounds = Codec("round", GateCheck)


class GateChecks:
    """The rounds of all installations. Whoever writes holds the claim `gate` of that installation."""

    def __init__(self, redis: Redis) -> None:
        self._redis, self._read = redis, RecordReader(redis, _rounds)

    async def rounds(self, installation: int) -> dict[str, GateCheck]:
        """The last round of each shard that ever had one, by place (`rounds.place_of`)."""
        rows: Any = await self._redis.hgetall(keys.gates(installation))
        return await self._read.many(keys.gates(installation), {place.decode(): row for place, row in rows.items()})

    async def keep(self, installation: int, place: str, begun: GateCheck) -> None:
        """Record a round, in place of the last one there."""
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.hset(keys.gates(installation), place, _rounds.encode(begun))
            pipe.expire(keys.gates(installation), KEPT_SECONDS)
            await pipe.execute()
