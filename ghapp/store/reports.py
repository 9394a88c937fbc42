"""What was last posted of each org, where it belongs, and what keeps us from it."""

from __future__ import annotations

from typing import Any

import msgspec
from redis.asyncio import Redis

from ghapp.errors import StoreUnavailableError
from ghapp.health.posting import Head, Posted, Setback, Standing, newer
from ghapp.store import keys

ATTEMPTS = 20

_encode = msgspec.msgpack.Encoder().encode
_decode_posted = msgspec.msgpack.Decoder(Posted).decode
_decode_head = msgspec.msgpack.Decoder(Head).decode
_decode_setback = msgspec.msgpack.Decoder(Setback).decode

_REPLACE = """
if (redis.call('HGET', KEYS[1], ARGV[1]) or '') ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
"""


class Reports:
    """The reports of all installations."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._replace: Any = redis.register_script(_REPLACE)

    async def standing(self, installation: int) -> Standing:
        """All that is known."""
        row: Any = await self._redis.hgetall(keys.report(installation))
        posted, head, setback = (row.get(name) for name in (b"posted", b"head", b"setback"))
        return Standing(
            None if posted is None else _decode_posted(posted),
            None if head is None else _decode_head(head),
            None if setback is None else _decode_setback(setback),
        )

    async def posted(self, installation: int, posted: Posted) -> None:
        """Record what was posted; whatever kept us from it is over."""
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.hset(keys.report(installation), "posted", _encode(posted))
            pipe.hdel(keys.report(installation), "setback")
            await pipe.execute()

    async def say_again(self, installation: int) -> None:
        """Have the same posted once more."""
        key = keys.report(installation)
        for _ in range(ATTEMPTS):
            row: Any = await self._redis.hget(key, "posted")
            if row is None:
                return
            again = _encode(_decode_posted(row)._replace(digest=""))
            if await self._replace(keys=[key], args=["posted", row, again]):
                return
        raise _too_busy(ATTEMPTS)

    async def tell_head(self, installation: int, told: Head) -> Head:
        """Record where the branch is; the newest of all that was told."""
        key = keys.report(installation)
        for _ in range(ATTEMPTS):
            row: Any = await self._redis.hget(key, "head")
            head = newer(None if row is None else _decode_head(row), told)
            if await self._replace(keys=[key], args=["head", row or b"", _encode(head)]):
                return head
        raise _too_busy(ATTEMPTS)

    async def forget_head(self, installation: int) -> None:
        """GitHub does not know that commit any more."""
        await self._redis.hdel(keys.report(installation), "head")

    async def put_off(self, installation: int, setback: Setback) -> bool:
        """Record what keeps us from posting; whether it is another reason than before."""
        before = (await self.standing(installation)).setback
        await self._redis.hset(keys.report(installation), "setback", _encode(setback))
        return before is None or before[:2] != setback[:2]

    async def try_again(self, installation: int) -> None:
        """What kept us from posting may be over."""
        await self._redis.hdel(keys.report(installation), "setback")


def _too_busy(attempts: int) -> StoreUnavailableError:
    return StoreUnavailableError(f"a report's record changed {attempts} times under our hands")
