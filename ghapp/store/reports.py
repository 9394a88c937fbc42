"""What was last posted of each org, where it belongs, and what keeps us from it."""

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

    async def standing(self, installation: int) -> CheckRunState:
        """All that is known."""
        key = keys.report(installation)
        row: Any = await self._redis.hgetall(key)
        return CheckRunState(
            await self._read_posted.one(key, row.get(b"posted"), "posted"),
            await self._read_head.one(key, row.get(b"head"), "head"),
            await self._read_setback.one(key, row.get(b"setback"), "setback"),
        )

    async def posted(self, installation: int, posted: Posted) -> None:
        """Record what was posted; whatever kept us from it is over."""
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.hset(keys.report(installation), "posted", _posted.encode(posted))
            pipe.hdel(keys.report(installation), "setback")
            await pipe.execute()

    async def request_repost(self, installation: int) -> None:
        """Have the same posted once more."""
        key = keys.report(installation)
        for _ in range(ATTEMPTS):
            row: Any = await self._redis.hget(key, "posted")
            posted = await self._read_posted.one(key, row, "posted")
            if posted is None:  # nothing was, or nobody knows what: it is posted anyhow
                return
            again = _posted.encode(posted._replace(digest=""))
            if await self._replace(keys=[key], args=["posted", row, again]):
                return
        raise _too_busy(ATTEMPTS)

    async def record_head(self, installation: int, told: Head) -> Head:
        """Record where the branch is; the newest of all that was told."""
        key = keys.report(installation)
        for _ in range(ATTEMPTS):
            row: Any = await self._redis.hget(key, "head")
            head = newer(await self._read_head.one(key, row, "head"), told)
            if await self._replace(keys=[key], args=["head", row or b"", _heads.encode(head)]):
                return head
        raise _too_busy(ATTEMPTS)

    async def forget_head(self, installation: int) -> None:
        """GitHub does not know that commit any more."""
        await self._redis.hdel(keys.report(installation), "head")

    async def put_off(self, installation: int, setback: PostFailure) -> bool:
        """Record what keeps us from posting; whether it is another reason than before."""
        before = (await self.standing(installation)).setback
        await self._redis.hset(keys.report(installation), "setback", _setbacks.encode(setback))
        return before is None or before[:2] != setback[:2]

    async def try_again(self, installation: int) -> None:
        """What kept us from posting may be over."""
        await self._redis.hdel(keys.report(installation), "setback")


def _too_busy(attempts: int) -> StoreUnavailableError:
    return StoreUnavailableError(f"a report's record changed {attempts} times under our hands")
