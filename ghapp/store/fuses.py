"""Each pool's fuse, and who paused what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
from redis.asyncio import Redis

from ghapp.health.fuse import Fuse
from ghapp.store import keys

WHOLE_ORG = "*"

_encode = msgspec.msgpack.Encoder().encode
_decode_fuse = msgspec.msgpack.Decoder(Fuse).decode


@dataclass(frozen=True, slots=True)
class Pause:
    """A person stopped remediation: who, why, and when (epoch seconds)."""

    who: str
    why: str
    at: float


_decode_pause = msgspec.msgpack.Decoder(Pause).decode

_SAVE = """
if (redis.call('HGET', KEYS[1], ARGV[1]) or '') ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
"""


class Fuses:
    """The fuses and pauses of all installations."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._save: Any = redis.register_script(_SAVE)

    async def all(self, installation: int) -> dict[str, Fuse]:
        """Every fuse that ever turned, by pool; the others are closed."""
        rows: Any = await self._redis.hgetall(keys.fuses(installation))
        return {pool.decode(): _decode_fuse(row) for pool, row in rows.items()}

    async def save(self, installation: int, pool: str, before: Fuse | None, after: Fuse) -> bool:
        """Record a turn; False when the fuse is not what it was, and nothing was recorded."""
        row: Any = await self._redis.hget(keys.fuses(installation), pool)
        if (_decode_fuse(row) if row is not None else None) != before:  # as values: an older version wrote fewer fields
            return False
        return bool(await self._save(keys=[keys.fuses(installation)], args=[pool, row or b"", _encode(after)]))

    async def pauses(self, installation: int) -> dict[str, Pause]:
        """Every pause, by pool; `WHOLE_ORG` for the org's."""
        rows: Any = await self._redis.hgetall(keys.pauses(installation))
        return {pool.decode(): _decode_pause(row) for pool, row in rows.items()}

    async def pause(self, installation: int, pool: str, pause: Pause) -> None:
        """Stop remediation in a pool, or in the whole org."""
        await self._redis.hset(keys.pauses(installation), pool, _encode(pause))

    async def unpause(self, installation: int, pool: str) -> bool:
        """Let it go on; False when it was not paused."""
        return bool(await self._redis.hdel(keys.pauses(installation), pool))
