"""Jobs queued and running, as deliveries told of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from redis.asyncio import Redis

from ghapp.health.demand import Job
from ghapp.store import keys
from ghapp.store.codec import Codec
from ghapp.store.quarantine import RecordReader

_jobs = Codec("job", Job, unknown={frozenset({"queued", "running", "over"}): "queued"})

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
        self._redis, self._read = redis, RecordReader(redis, _jobs)
        self._tell: Any = redis.register_script(_TELL.replace("3600", str(OVER_SECONDS)))

    async def tell(self, installation: int, jobs: Iterable[Job]) -> None:
        """Record what is queued and running, and let go what is over."""
        args: list[str | bytes] = []
        for job in jobs:
            args += [str(job.id), job.status, _jobs.encode(job)]
        if args:
            await self._tell(keys=[keys.jobs(installation), keys.over(installation)], args=args)

    async def all(self, installation: int) -> list[Job]:
        """Every job that is not over."""
        key = keys.jobs(installation)
        rows: Any = await self._redis.hgetall(key)
        return [*(await self._read.many(key, rows)).values()]

    async def forget(self, installation: int, jobs: Iterable[Job]) -> None:
        """Their end was never told, and must have come. Whoever changed meanwhile is told of again, or next time."""
        ids = [str(job.id) for job in jobs]
        if ids:
            await self._redis.hdel(keys.jobs(installation), *ids)

    async def one(self, installation: int, job_id: int) -> Job | None:
        """A job that is queued or running, or was over within the last hour; None when nobody told of it."""
        key, over_key, field = keys.jobs(installation), f"{keys.over(installation)}:{job_id}", str(job_id)
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.hget(key, field)
            pipe.get(over_key)
            present, over = await pipe.execute()
        found = await self._read.one(key, present, field)
        return found or await self._read.one(over_key, None if over == _UNTOLD else over)
