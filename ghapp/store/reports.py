"""The health report of each org: its last post, the branch's head, and the last failure to post."""

from __future__ import annotations

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
        """Records a failure to post; returns True if its reason differs from the last one's."""
        before = (await self.check_run_state(installation)).setback
        await self._redis.hset(keys.report(installation), "setback", _setbacks.encode(setback))
        return before is None or before[:2] != setback[:2]

    async def try_again(self, installation: int) -> None:
        """Clears the last failure, so that posting is tried again."""
        await self._redis.hdel(keys.report(installation), "setback")
