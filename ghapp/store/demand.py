"""Queued and running jobs, from deliveries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from redis.asyncio import Redis

from ghapp.health.gate.shard_status import TakenJob
from ghapp.health.history import WAIT_PREFIX, bucket_of
from ghapp.health.job import Job, was_hosted
from ghapp.store import keys
from ghapp.store.codec import Codec
from ghapp.store.history_counts import COUNT, field, other_field
from ghapp.store.quarantine import Member, PlainReader, RecordReader

_jobs = Codec("job", Job, unknown={frozenset({"queued", "running", "over"}): "queued"})

OVER_SECONDS = 3600
"""How long an ended job is kept: a late delivery of its start must not revive it, and the post-mortem of its runner
needs its repository."""

MOST_OVER = 5_000
"""Maximum of ended jobs per installation that `over` returns, the latest. Older ones are still known by their id."""

MOST_TAKEN = 20_000
"""Maximum of jobs taken within the last hour that are kept per installation, the latest."""

_NO_POOLS: Mapping[int, str] = {}

_NO_RECORD = b"1"
"""The value of ended jobs before their records were stored."""

WAITED_SECONDS = 31 * 86_400
"""How long a job that waits for an approval is known: GitHub ends it after 30 days."""

_APPROVALS = """
local found = {}
for i = 3, #ARGV, 3 do
    local key, status = KEYS[1] .. ':' .. ARGV[i], ARGV[i + 1]
    local at = redis.call('GET', key)
    if status == 'waiting' and (not at or at == '0') then
        at = ''
        redis.call('SET', key, at, 'EX', ARGV[2])
    elseif not at and ARGV[i + 2] == '1' then
        at = '0'
        redis.call('SET', key, at, 'EX', ARGV[2])
    elseif status ~= 'waiting' and at == '' then
        at = ARGV[1]
        redis.call('SET', key, at, 'EX', ARGV[2])
    end
    if at and status == 'completed' then redis.call('EXPIRE', key, 3600) end
    found[#found + 1] = at
end
return found
"""
"""Jobs that waited for an approval, each with the time at which it was first reported not to wait any more; 0 for those
that deploy without one, because a later delivery may come without the deployment."""

_RECORD = (
    COUNT
    + """
local newest
redis.call('DEL', KEYS[5])
for i = 1, #ARGV, 11 do
    local id, status, row, ended, waited = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
    local over = KEYS[2] .. ':' .. id
    if waited ~= '' and redis.call('EXISTS', over) == 0 then
        local stored = redis.call('HGET', KEYS[1], id)
        local readable, known = pcall(cmsgpack.unpack, stored or '')
        if not (readable and type(known) == 'table' and known[2] == 'running') then
            count(KEYS[4], ARGV[i + 5], ARGV[i + 6], 1)
            if waited ~= '0' then count(KEYS[4], ARGV[i + 7], ARGV[i + 8], waited) end
            count(KEYS[4], ARGV[i + 9], ARGV[i + 10], 1)
        end
    end
    if status == 'over' then
        redis.call('HDEL', KEYS[1], id)
        redis.call('SET', over, row, 'EX', 3600)
        if ended ~= '' then
            redis.call('ZADD', KEYS[3], ended, id)
            newest = math.max(newest or 0, tonumber(ended))
        end
    elseif redis.call('EXISTS', over) == 0 then
        local stored = redis.call('HGET', KEYS[1], id)
        local approved = false
        if stored and status == 'queued' then
            local readable, known = pcall(cmsgpack.unpack, stored)
            approved = readable and type(known) == 'table' and known[2] == 'queued'
        end
        if status == 'running' or not stored or approved then
            redis.call('HSET', KEYS[1], id, row)
        end
    end
end
if newest then
    redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', string.format('(%.17g', newest - 3600))
    redis.call('ZREMRANGEBYRANK', KEYS[3], 0, -MOST - 1)
    redis.call('EXPIRE', KEYS[3], 3600)
end
"""
)
"""A job that a runner took is counted when its start is first known: by the delivery of its start, or of its end."""


def _taken(member: bytes) -> tuple[int, int]:
    job_id, runner_id = member.split()
    return int(job_id), int(runner_id)


class Demand:
    """The jobs of all installations. Deliveries may be repeated and in any order."""

    def __init__(self, redis: Redis) -> None:
        self._redis, self._read = redis, RecordReader(redis, _jobs)
        self._read_taken = PlainReader(redis, "taken-job", _taken)
        self._record_script: Any = redis.register_script(
            _RECORD.replace("3600", str(OVER_SECONDS)).replace("MOST", str(MOST_OVER))
        )
        self._approvals_script: Any = redis.register_script(_APPROVALS.replace("3600", str(OVER_SECONDS)))

    async def approvals(
        self, installation: int, delivered: Sequence[tuple[int, str, bool]], now: float
    ) -> dict[int, float | None]:
        """Records which jobs wait for an approval or deploy, and returns those that do or did.

        Args:
            installation: the installation.
            delivered: the jobs' ids, their statuses as GitHub names them, and whether the delivery shows a deployment,
                in the order of the deliveries.
            now: the time of an approval that is first reported now (epoch seconds).

        Returns:
            By the job's id, when it was approved; None while it waits, 0 if it needed no approval.
        """
        if not delivered:
            return {}
        args: list[str | float] = [repr(now), WAITED_SECONDS]
        for job_id, status, deploys in delivered:
            args += [str(job_id), status, "1" if deploys else ""]
        rows: Any = await self._approvals_script(keys=[keys.approval(installation)], args=args)
        return {
            job_id: None if row == b"" else float(row)
            for (job_id, _, _), row in zip(delivered, rows, strict=True)
            if row is not None
        }

    async def record(
        self, installation: int, jobs: Sequence[Job], pools: Mapping[int, str] = _NO_POOLS, now: float = 0.0
    ) -> None:
        """Records queued and running jobs; those that are over are kept apart, for an hour.

        Args:
            installation: the installation.
            jobs: as delivered.
            pools: by job id, the pool of the runner that took the job; the job is then counted in the history, once.
            now: of the count (epoch seconds).
        """
        args: list[str | bytes] = []
        for job in jobs:
            listed = job.ended_at is not None and not was_hosted(job)
            status = "waiting" if job.waiting else job.status
            args += [str(job.id), status, _jobs.encode(job), repr(job.ended_at) if listed else ""]
            # One batch may have the delivery of a job's creation, too, which has no start.
            pool = None if job.started_at is None or job.runner_id is None else pools.get(job.id)
            waited = round(max(0.0, (job.started_at or 0.0) - job.queued_at))
            args += ["" if pool is None else str(waited)]
            for name in ("jobs", "waited_seconds", f"{WAIT_PREFIX}{bucket_of(waited)}"):
                args += [field(now, name, pool or ""), other_field(now, name)]
        if args:
            named = [
                keys.jobs(installation),
                keys.over(installation),
                keys.ended(installation),
                keys.history_counts(installation),
                keys.settled(installation),
            ]
            await self._record_script(keys=named, args=args)
        await self._remember_taken(installation, jobs)

    async def _remember_taken(self, installation: int, jobs: Iterable[Job]) -> None:
        taken = {
            f"{job.id} {job.runner_id}": job.started_at
            for job in jobs
            if job.started_at is not None and job.runner_id is not None
        }
        if not taken:
            return
        key = keys.taken(installation)
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.zadd(key, taken)
            pipe.zremrangebyscore(key, "-inf", max(taken.values()) - OVER_SECONDS)
            pipe.zremrangebyrank(key, 0, -MOST_TAKEN - 1)
            pipe.expire(key, OVER_SECONDS)
            await pipe.execute()

    async def taken(self, installation: int, since: float) -> list[TakenJob]:
        """Returns all jobs that runners took since then, within the last hour, oldest first."""
        rows: Any = await self._redis.zrange(keys.taken(installation), since, "+inf", byscore=True, withscores=True)
        found = await self._read_taken.many(keys.taken(installation), {Member(member): member for member, _ in rows})
        return [TakenJob(*found[member], at) for member, at in rows if member in found]

    async def all(self, installation: int) -> list[Job]:
        """Returns all jobs that are not over."""
        key = keys.jobs(installation)
        rows: Any = await self._redis.hgetall(key)
        return [*(await self._read.many(key, rows)).values()]

    async def count(self, installation: int) -> int:
        """Returns the number of jobs that are not over."""
        return int(await self._redis.hlen(keys.jobs(installation)))

    async def over(self, installation: int) -> list[Job]:
        """Returns the jobs that ended within the last hour, the latest `MOST_OVER`, latest first; no hosted ones."""
        ids: Any = await self._redis.zrevrange(keys.ended(installation), 0, -1)
        if not ids:
            return []
        named = [f"{keys.over(installation)}:{job_id.decode()}" for job_id in ids]
        rows: Any = await self._redis.mget(named)
        found = {key: row for key, row in zip(named, rows, strict=True) if row not in (None, _NO_RECORD)}
        read = [await self._read.one(key, row) for key, row in found.items()]
        return [job for job in read if job is not None]

    async def forget(self, installation: int, jobs: Iterable[Job]) -> None:
        """Deletes jobs whose end was never delivered but must have come; a later delivery would add them again."""
        ids = [str(job.id) for job in jobs]
        if ids:
            await self._redis.hdel(keys.jobs(installation), *ids)

    async def one(self, installation: int, job_id: int) -> Job | None:
        """Returns a job that is queued, running, or over for less than an hour; None if it is unknown."""
        key, over_key, field = keys.jobs(installation), f"{keys.over(installation)}:{job_id}", str(job_id)
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.hget(key, field)
            pipe.get(over_key)
            present, over = await pipe.execute()
        found = await self._read.one(key, present, field)
        return found or await self._read.one(over_key, None if over == _NO_RECORD else over)
