"""Each pool's fuse, and who paused what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

from redis.asyncio import Redis

from ghapp.health.installation import Installation
from ghapp.health.remediation.fuse import WHOLE_INSTALLATION, Fuse, FuseLimits, FuseReason, Position, resume
from ghapp.log import logger
from ghapp.store import keys
from ghapp.store.codec import Codec, Record
from ghapp.store.quarantine import RecordReader

log = logger(__name__)

WHOLE_ORG = WHOLE_INSTALLATION


@dataclass(frozen=True, slots=True)
class Pause:
    """A person stopped remediation: who, why, and when (epoch seconds)."""

    who: str
    why: str
    at: float


@dataclass(frozen=True, slots=True)
class Resumption:
    """What a person's word to go on has done: pauses that ended and fuses that prove anew, each by pool."""

    ended: Mapping[str, Pause] = field(default_factory=dict)
    proving: Mapping[str, Fuse] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.ended or self.proving)


_fuses = Codec("fuse", Fuse, unknown={Position: Position.STOPPED, FuseReason: FuseReason.NONE})
_pauses = Codec("pause", Pause)

UNREADABLE_FUSE = Fuse(Position.STOPPED, reason=FuseReason.UNREADABLE)
"""What an unreadable fuse is read as: nothing is let through until a person resumes it."""

UNREADABLE_PAUSE = Pause(who="unknown", why="The record of this pause is unreadable.", at=0.0)
"""What an unreadable pause is read as: it lasts until a person resumes."""

_SAVE = """
if (redis.call('HGET', KEYS[1], ARGV[1]) or '') ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
"""


class Fuses:
    """The fuses and pauses of all installations."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._read_fuses, self._read_pauses = RecordReader(redis, _fuses), RecordReader(redis, _pauses)
        self._save: Any = redis.register_script(_SAVE)

    async def all(self, installation: int) -> dict[str, Fuse]:
        """Every fuse that ever turned, by pool; the others are closed. An unreadable one is stopped."""
        return await _all(self._redis, keys.fuses(installation), self._read_fuses, UNREADABLE_FUSE)

    async def save(self, installation: int, pool: str, before: Fuse | None, after: Fuse) -> bool:
        """Record a turn; False when the fuse is not what it was, and nothing was recorded."""
        key = keys.fuses(installation)
        row: Any = await self._redis.hget(key, pool)
        known = None if row is None else await self._read_fuses.one(key, row, pool) or UNREADABLE_FUSE
        if known != before:  # as values: other versions write other bytes
            return False
        return bool(await self._save(keys=[key], args=[pool, row or b"", _fuses.encode(after)]))

    async def pauses(self, installation: int) -> dict[str, Pause]:
        """Every pause, by pool; `WHOLE_ORG` for the org's. An unreadable one is a pause."""
        return await _all(self._redis, keys.pauses(installation), self._read_pauses, UNREADABLE_PAUSE)

    async def pause(self, installation: int, pool: str, pause: Pause) -> Pause:
        """Stop remediation in a pool, or in the whole org; the pause that holds: this one, or one that came before.

        A second pause changes nothing, so that the first one's reason is not lost.
        """
        key = keys.pauses(installation)
        while not await self._redis.hsetnx(key, pool, _pauses.encode(pause)):
            row: Any = await self._redis.hget(key, pool)
            if row is not None:  # else it ended this moment
                return await self._read_pauses.one(key, row, pool) or UNREADABLE_PAUSE
        return pause

    async def unpause(self, installation: int, pool: str) -> bool:
        """Let it go on; False when it was not paused."""
        return bool(await self._redis.hdel(keys.pauses(installation), pool))

    async def resume(
        self, installation: Installation, pool: str | None, by: str, now: float, limits: FuseLimits, until: float = inf
    ) -> Resumption:
        """Let remediation go on: end pauses, and let stopped fuses prove anew.

        Args:
            installation: whose.
            pool: only this one's; None: the org's pause and every pool's.
            by: who says so; it is logged, and recorded in each fuse.
            now: epoch seconds.
            limits: the org's `[fuse]` table.
            until: what was paused or stopped later stays so.
        """
        ended = {
            name: pause
            for name, pause in (await self.pauses(installation.id)).items()
            if pool in (None, name) and pause.at <= until and await self.unpause(installation.id, name)
        }
        proving = {}
        for name, fuse in (await self.all(installation.id)).items():
            if pool not in (None, name) or fuse.position is not Position.STOPPED:
                continue
            if (fuse.stopped_at or fuse.since or 0.0) > until:
                continue
            after = resume(fuse, now, limits, by)
            if await self.save(installation.id, name, fuse, after):  # else: somebody else was faster
                proving[name] = after
        for name in sorted({*ended, *proving}):
            log.info("resumed", installation=installation.id, org=installation.org, pool=name, by=by)
        return Resumption(ended, proving)


async def _all(redis: Redis, key: str, read: RecordReader[Record], substitute: Record) -> dict[str, Record]:
    """The records of a hash, by pool; the substitute for each unreadable one."""
    rows: Any = await redis.hgetall(key)
    by_pool = {pool.decode(): row for pool, row in rows.items()}
    records = await read.many(key, by_pool)
    return {pool: records.get(pool, substitute) for pool in by_pool}
