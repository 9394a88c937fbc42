"""Jobs queued and running, as deliveries told of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from redis.asyncio import Redis

from ghapp.health.demand import Job
from ghapp.store import keys

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Job).decode

OVER_SECONDS = 3600
"""How long an ended job is remembered: a late word of its beginning must not raise it from the dead, and whoever
asks why its runner died must learn its repository."""

_UNTOLD = b"1"
"""How ended jobs were marked before their record was kept."""

_TELL = """
for i = 1, #ARGV, 3 do
    local id, status, row = ARGV[i], ARGV[i + 1], ARGV[i + 2]
    local over = KEYS[2] .. ':' .. id
    if status == 'over' then
        redis.call('HDEL', KEYS[1], id)
        redis.call('SET', over, row, 'EX', 3600)
    elseif redis.call('EXISTS', over) == 0 then
        if status == 'running' or redis.call('HEXISTS', KEYS[1], id) == 0 then
            redis.call('HSET', KEYS[1], id, row)
        end
    end
end
"""


class Demand:
    """The jobs of all installations. Deliveries may come twice and in any order."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._tell: Any = redis.register_script(_TELL.replace("3600", str(OVER_SECONDS)))

    async def tell(self, installation: int, jobs: Iterable[Job]) -> None:
        """Record what is queued and running, and let go what is over."""
        args: list[str | bytes] = []
        for job in jobs:
            args += [str(job.id), job.status, _encode(job)]
        if args:
            await self._tell(keys=[keys.jobs(installation), keys.over(installation)], args=args)

    async def all(self, installation: int) -> list[Job]:
        """Every job that is not over."""
        rows: Any = await self._redis.hvals(keys.jobs(installation))
        return [_decode(row) for row in rows]

    async def forget(self, installation: int, jobs: Iterable[Job]) -> None:
        """Their end was never told, and must have come. Whoever changed meanwhile is told of again, or next time."""
        ids = [str(job.id) for job in jobs]
        if ids:
            await self._redis.hdel(keys.jobs(installation), *ids)

    async def one(self, installation: int, job_id: int) -> Job | None:
        """A job that is queued or running, or was over within the last hour; None when nobody told of it."""
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.hget(keys.jobs(installation), str(job_id))
            pipe.get(f"{keys.over(installation)}:{job_id}")
            present, over = await pipe.execute()
        row = present or over
        return None if row is None or row == _UNTOLD else _decode(row)
