"""The health report of each org (its last post, the branch's head, the last failure), and recent check runs."""

from __future__ import annotations

import secrets
from typing import Any

from redis.asyncio import Redis

from ghapp.report.check_run_state import CheckRunState, Head, Posted, PostFailure, newer
from ghapp.store import keys
from ghapp.store.codec import Codec
from ghapp.store.compare_and_set import RecordWriter
from ghapp.store.quarantine import RecordReader

_posted = Codec("posted-report", Posted)
_heads = Codec("report-head", Head)
_setbacks = Codec("report-setback", PostFailure)


class Reports:
    """The reports of all installations."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._read_posted, self._read_head = RecordReader(redis, _posted), RecordReader(redis, _heads)
        self._read_setback = RecordReader(redis, _setbacks)
        self._posted = RecordWriter(redis, _posted, self._read_posted)
        self._heads = RecordWriter(redis, _heads, self._read_head)

    async def check_run_state(self, installation: int) -> CheckRunState:
        """Returns the state of an installation's check run."""
        key = keys.report(installation)
        row: Any = await self._redis.hgetall(key)
        return CheckRunState(
            await self._read_posted.one(key, row.get(b"posted"), "posted"),
            await self._read_head.one(key, row.get(b"head"), "head"),
            await self._read_setback.one(key, row.get(b"setback"), "setback"),
        )

    async def posted(self, installation: int, posted: Posted) -> None:
        """Records a post, and clears the last failure."""
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.hset(keys.report(installation), "posted", _posted.encode(posted))
            pipe.hdel(keys.report(installation), "setback")
            await pipe.execute()

    async def request_repost(self, installation: int) -> None:
        """Makes the next report post even if its content is unchanged."""

        def undone(posted: Posted | None) -> Posted | None:
            """None: never posted, or unreadable: the next report posts anyway."""
            return None if posted is None else posted._replace(digest="")

        await self._posted.revise([keys.report(installation)], {"posted": undone})

    async def record_head(self, installation: int, reported: Head) -> Head:
        """Records the head of the branch; returns the newest head known."""
        revised = await self._heads.revise([keys.report(installation)], {"head": lambda known: newer(known, reported)})
        return revised["head"]

    async def forget_head(self, installation: int) -> None:
        """Deletes the head, because GitHub no longer knows that commit."""
        await self._redis.hdel(keys.report(installation), "head")

    async def put_off(self, installation: int, setback: PostFailure) -> bool:
        """Records a failure to post; returns True if its reason differs from the last one's, which else began it."""
        before = (await self.check_run_state(installation)).setback
        is_new = before is None or before[:2] != setback[:2]
        if before is not None and not is_new:
            setback = setback._replace(since=before.since)
        await self._redis.hset(keys.report(installation), "setback", _setbacks.encode(setback))
        return is_new

    async def try_again(self, installation: int) -> None:
        """Clears the last failure, so that posting is tried again."""
        await self._redis.hdel(keys.report(installation), "setback")


A_MINUTE, AN_HOUR = 75, 480
"""Creations; a little below GitHub's limits, because its clock and ours differ."""

MINUTE_SECONDS, HOUR_SECONDS = 60.0, 3600.0

_TAKE = """
local now, share, id, each = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.17g', now - 3600))
redis.call('ZREMRANGEBYSCORE', KEYS[1], string.format('(%.17g', now + 60), '+inf')
redis.call('ZREM', KEYS[2], id)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', ARGV[1])
local hour, waiting = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES'), redis.call('ZCARD', KEYS[2])
local count = #hour / 2
local function free_at(most, lasts, ahead)
    local number, rounds = count - most + 1 + ahead, 0
    if number < 1 then return nil end
    while number > count do number, rounds = number - most, rounds + 1 end
    local at = (number < 1 and now or tonumber(hour[2 * number]) + lasts) + rounds * lasts
    return at > now and at or nil
end
local minute, hourly = math.floor(A_MINUTE * share), math.floor(AN_HOUR * share)
if free_at(minute, 60, 0) or free_at(hourly, 3600, 0) then
    local turn = math.max(free_at(minute, 60, waiting) or 0, free_at(hourly, 3600, waiting) or 0)
    redis.call('ZADD', KEYS[2], string.format('%.17g', turn), id)
    redis.call('EXPIRE', KEYS[2], math.ceil(turn - now) + 60)
    return string.format('%.17g', turn - now)
end
redis.call('ZADD', KEYS[1], ARGV[1], each)
redis.call('EXPIRE', KEYS[1], 3600)
return '0'
"""
"""Each that waits gets a turn of its own, so that not all of them ask again at once: each try costs requests."""


class CheckCreations:
    """The creations of all installations.

    GitHub permits 80 creations of content a minute, and 500 an hour; what exceeds it gets a 403 with a wait for all
    requests, so it is not sent. One count for each installation, over all kinds of check runs and all processes. Less
    useful kinds stop earlier, so that they leave room for the others.
    """

    def __init__(self, redis: Redis) -> None:
        script = _TAKE.replace("A_MINUTE", str(A_MINUTE)).replace("AN_HOUR", str(AN_HOUR))
        self._take: Any = redis.register_script(script)

    async def take(self, installation: int, creation_id: str, share: float, now: float) -> float:
        """Counts a creation, and returns 0; if too many were counted lately, returns the seconds until its turn.

        A repetition counts again: GitHub counts requests, also those that it answers with an error.

        Args:
            installation: the installation.
            creation_id: identifies the check run: while it waits, it has one turn.
            share: of the limits, up to 1, that this kind of check run may use.
            now: epoch seconds.
        """
        args = [repr(now), repr(share), creation_id, secrets.token_hex(8)]
        row: Any = await self._take(
            keys=[keys.creations(installation), keys.creations_waiting(installation, share)], args=args
        )
        return float(row)
