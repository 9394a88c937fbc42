"""The gate's check runs on deployed commits: the state of each."""

from __future__ import annotations

from typing import Any

from redis.asyncio import Redis

from ghapp.gate.gate_checks import GateCheck
from ghapp.store import keys
from ghapp.store.codec import Codec
from ghapp.store.quarantine import RecordReader

KEPT_SECONDS = 30 * 86_400

_gate_checks = Codec("gate-check", GateCheck)


class GateChecks:
    """The gate checks of all installations. Writers must have the lock `gate` of the installation."""

    def __init__(self, redis: Redis) -> None:
        self._redis, self._read = redis, RecordReader(redis, _gate_checks)

    async def list(self, installation: int) -> dict[str, GateCheck]:
        """Returns the last gate check of each shard, by `gate_checks.place_of`."""
        rows: Any = await self._redis.hgetall(keys.gates(installation))
        return await self._read.many(keys.gates(installation), {place.decode(): row for place, row in rows.items()})

    async def keep(self, installation: int, place: str, gate_check: GateCheck) -> None:
        """Records a gate check, in place of the shard's last one."""
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.hset(keys.gates(installation), place, _gate_checks.encode(gate_check))
            pipe.expire(keys.gates(installation), KEPT_SECONDS)
            await pipe.execute()
