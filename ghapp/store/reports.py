"""The health report of each org: its last post, the branch's head, and the last failure to post."""

from __future__ import annotations

from typing import Any

from redis.asyncio import Redis

from ghapp.errors import StoreUnavailableError
from ghapp.report.check_run_state import CheckRunState, Head, Posted, PostFailure, newer
from ghapp.store import keys
from ghapp.store.codec import Codec
from ghapp.store.quarantine import RecordReader

ATTEMPTS = 20

_posted = Codec("posted-report", Posted)
_heads = Codec("report-head", Head)
_setbacks = Codec("report-setback", PostFailure)

_REPLACE = """
if (redis.call('HGET', KEYS[1], ARGV[1]) or '') ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
"""


class Reports:
    """The reports of all installations."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._read_posted, self._read_head = RecordReader(redis, _posted), RecordReader(redis, _heads)
        self._read_setback = RecordReader(redis, _setbacks)
        self._replace: Any = redis.register_script(_REPLACE)

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
        key = keys.report(installation)
        for _ in range(ATTEMPTS):
            row: Any = await self._redis.hget(key, "posted")
            posted = await self._read_posted.one(key, row, "posted")
            if posted is None:  # never posted, or unreadable: the next report posts anyway
                return
            again = _posted.encode(posted._replace(digest=""))
            if await self._replace(keys=[key], args=["posted", row, again]):
                return
        raise _too_busy(ATTEMPTS)

    async def record_head(self, installation: int, reported: Head) -> Head:
        """Records the head of the branch; returns the newest head known."""
        key = keys.report(installation)
        for _ in range(ATTEMPTS):
            row: Any = await self._redis.hget(key, "head")
            head = newer(await self._read_head.one(key, row, "head"), reported)
            if await self._replace(keys=[key], args=["head", row or b"", _heads.encode(head)]):
                return head
        raise _too_busy(ATTEMPTS)

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


def _too_busy(attempts: int) -> StoreUnavailableError:
    return StoreUnavailableError(f"a report's record was changed concurrently {attempts} times")
