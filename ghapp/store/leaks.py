"""What the reaper remembers from one tick to the next, which deletions are not finished, and what it did lately."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from redis.asyncio import Redis

from ghapp.health.leaks.guards import TickMemory
from ghapp.health.leaks.orphan import Orphan
from ghapp.health.leaks.reaper_status import Example
from ghapp.store import keys
from ghapp.store.codec import Codec
from ghapp.store.quarantine import PlainReader, RecordReader, text

KEPT_SECONDS = 86_400
"""After the last tick. Clocks are worth nothing after minutes; what is half done is worth finishing."""

MOST_REAPED = 10_000
"""Remembered of the last day, for each installation, the latest."""

MOST_BEGUN = 1_000
"""Deletions begun and not finished, for each installation. While there are so many, no other one is begun."""

_BEGIN = """
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 and redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[4])
return 1
"""


class Tick(NamedTuple):
    """How the last tick went, for whoever tells people. Fields are only ever appended.

    Attributes:
        memory: what the next one needs.
        at: when it was (epoch seconds); None before the first.
        trouble: what kept it from judging or reaping; empty while all is well.
        trouble_since: since when; None while all is well.
        stamped: pods that bear the owner label.
        reaped: of them, in this tick.
        deferred: leaks that must wait for a later tick.
        told: leaks that are only told: dry-run, or a person paused it.
        nobodys: pods in a namespace of several organizations of which none, or more than one, knows the runner.
        strangers: pods that bear the label and were never a runner's.
        held: leaks that the fuse holds back.
        kept: how many pods each guard keeps, by the guard's code.
        examples: the oldest pods of the guards that people are told of, by the guard's code.
    """

    memory: TickMemory = TickMemory()
    at: float | None = None
    trouble: str = ""
    trouble_since: float | None = None
    stamped: int = 0
    reaped: int = 0
    deferred: int = 0
    told: int = 0
    nobodys: int = 0
    strangers: int = 0
    held: int = 0
    kept: Mapping[str, int] = {}
    examples: Mapping[str, tuple[Example, ...]] = {}


_ticks = Codec("reaper-tick", Tick)
_orphans = Codec("orphan", Orphan)


class Leaks:
    """The reapers' memories of all installations."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._read_tick, self._read_orphans = RecordReader(redis, _ticks), RecordReader(redis, _orphans)
        self._read_reaped = PlainReader(redis, "reaped-pod", text)
        self._begin: Any = redis.register_script(_BEGIN)

    async def last(self, installation: int) -> Tick:
        """The last tick; an empty one before the first, a day after the last, and for an unreadable record."""
        row: Any = await self._redis.get(keys.leaks(installation))
        return await self._read_tick.one(keys.leaks(installation), row) or Tick()

    async def remember(self, installation: int, tick: Tick) -> None:
        """Record how a tick went."""
        await self._redis.set(keys.leaks(installation), _ticks.encode(tick), ex=KEPT_SECONDS)

    async def begin(self, installation: int, orphan: Orphan) -> bool:
        """Record that a pod's deletion is about to be asked for; False, and nothing, when too many are unfinished."""
        args: list[str | bytes | int] = [orphan.uid, _orphans.encode(orphan), MOST_BEGUN, KEPT_SECONDS]
        return bool(await self._begin(keys=[keys.orphans(installation)], args=args))

    async def begun(self, installation: int) -> list[Orphan]:
        """Those that were begun and are not done, oldest first."""
        rows: Any = await self._redis.hgetall(keys.orphans(installation))
        records = await self._read_orphans.many(keys.orphans(installation), rows)
        return sorted(records.values(), key=lambda each: (each.found_at, each.uid))

    async def done(self, installation: int, orphan: Orphan) -> None:
        """All is done about it, or it is left alone."""
        await self._redis.hdel(keys.orphans(installation), orphan.uid)

    async def reaped(self, installation: int, orphan: Orphan, at: float) -> None:
        """Record that a pod is gone, or going; once, however often that is said."""
        key = keys.reaped(installation)
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.zadd(key, {f"{orphan.uid} {orphan.pool}": at}, nx=True)  # a uid has no space; earlier rows, no pool
            pipe.zremrangebyscore(key, "-inf", at - KEPT_SECONDS)
            pipe.zremrangebyrank(key, 0, -MOST_REAPED - 1)
            pipe.expire(key, KEPT_SECONDS)
            await pipe.execute()

    async def was_reaped(self, installation: int, uid: str) -> bool:
        """Whether this pod's deletion by the reaper was begun, or done in the last day."""
        if await self._redis.hexists(keys.orphans(installation), uid):
            return True
        found = self._redis.zscan_iter(keys.reaped(installation), match=f"{uid} *", count=MOST_REAPED)
        return bool([row async for row in found])

    async def reaped_since(self, installation: int, at: float) -> int:
        """How many pods were reaped after that time; of the last day, and no more than `MOST_REAPED`."""
        return int(await self._redis.zcount(keys.reaped(installation), f"({at}", "+inf"))

    async def reaped_by_pool(self, installation: int, since: float) -> dict[str, int]:
        """How many pods of each pool were reaped after that time; the pool is empty where it is not known.

        Of the last day, and no more than `MOST_REAPED` together.
        """
        rows: Any = await self._redis.zrange(keys.reaped(installation), f"({since}", "+inf", byscore=True)
        reaped = await self._read_reaped.members(keys.reaped(installation), rows)
        return dict(Counter(each.partition(" ")[2] for each in reaped))
