"""The last sweep whose judgement still holds: forgotten by each write of one of the installation's runners or jobs.

A sweep marks its begin before it reads the records, and keeps its result only if that mark is still there. A write in
between, also by another process, has deleted it. A write of the previous version deletes nothing, and the sweep reads
its records at the next step of the history.
"""

from __future__ import annotations

from typing import Any

from redis.asyncio import Redis

from ghapp.incidents.history import STEP_SECONDS
from ghapp.incidents.settled import Settled
from ghapp.store import keys
from ghapp.store.codec import Codec
from ghapp.store.quarantine import RecordReader

_BEGUN = b""

_settled = Codec("settled", Settled)


class SettledSweeps:
    """The settled sweeps of all installations."""

    def __init__(self, redis: Redis) -> None:
        self._redis, self._read = redis, RecordReader(redis, _settled)

    async def of(self, installation: int) -> Settled | None:
        """Returns the last settled sweep; None if a record was written since."""
        key = keys.settled(installation)
        row: Any = await self._redis.get(key)
        return await self._read.one(key, row or None)

    async def begin(self, installation: int) -> None:
        """Marks that a sweep is about to read the records; one at a time."""
        await self._redis.set(keys.settled(installation), _BEGUN, ex=STEP_SECONDS)

    async def keep(self, installation: int, settled: Settled) -> None:
        """Records that the sweep is settled, unless a record was written since it began."""
        await self._redis.set(keys.settled(installation), _settled.encode(settled), ex=STEP_SECONDS, xx=True)
