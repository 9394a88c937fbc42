"""The reaper's state: its memory between ticks, unfinished deletions, and pods reaped in the last day."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from redis.asyncio import Redis

from ghapp.leaks.guards import TickMemory
from ghapp.leaks.leak_fuse import ReapedPod
from ghapp.leaks.orphan import Orphan, reason_of
from ghapp.leaks.reaper_status import Example, LeakingPod, Stop
from ghapp.store import keys
from ghapp.store.codec import Codec
from ghapp.store.quarantine import Member, PlainReader, RecordReader

KEPT_SECONDS = 86_400
"""After the last tick. Timers are useless after minutes, but unfinished deletions should still be finished."""

MOST_REAPED = 10_000
"""Maximum of reaped pods of the last day that are kept per installation, the latest."""

MOST_BEGUN = 1_000
"""Maximum of unfinished deletions per installation; while it is reached, no further deletion begins."""

_BEGIN = """
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 and redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[4])
return 1
"""


class Tick(NamedTuple):
    """The result of the last tick, for reports. Fields are only ever appended.

    Attributes:
        memory: input of the next tick.
        at: time of the tick (epoch seconds); None before the first.
        trouble: the error that prevented judging or reaping; empty without one.
        trouble_since: since when; None without an error.
        stamped: pods with the owner label.
        reaped: pods reaped in this tick.
        deferred: leaks left for a later tick.
        would_reap: leaks that are only reported: dry-run, or a pause.
        without_owner: pods in a namespace of several organizations whose runner none of them knows, or several do.
        never_runners: pods with the label that never ran a runner.
        held: leaks that the fuse holds back.
        kept: number of pods that each guard keeps, by the guard's code.
        examples: the oldest pods of the guards that are reported with examples, by the guard's code.
        stops: why the reaper's fuses are stopped, by pool: the `StopReason`, and the deleted pod that was in use.
        leaking: unused pods that were not deleted, oldest first, at most `MOST_LEAKING`.
        kept_pods: the oldest pods of the other guards as `namespace/pod`, by the guard's code.
    """

    memory: TickMemory = TickMemory()
    at: float | None = None
    trouble: str = ""
    trouble_since: float | None = None
    stamped: int = 0
    reaped: int = 0
    deferred: int = 0
    would_reap: int = 0
    without_owner: int = 0
    never_runners: int = 0
    held: int = 0
    kept: Mapping[str, int] = {}
    examples: Mapping[str, tuple[Example, ...]] = {}
    stops: Mapping[str, Stop] = {}
    leaking: tuple[LeakingPod, ...] = ()
    kept_pods: Mapping[str, tuple[str, ...]] = {}


_ticks = Codec("reaper-tick", Tick)
_orphans = Codec("orphan", Orphan)


class Leaks:
    """The reaper states of all installations."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._read_tick, self._read_orphans = RecordReader(redis, _ticks), RecordReader(redis, _orphans)
        self._read_reaped = PlainReader(redis, "reaped-pod", _parse_reaped)
        self._begin: Any = redis.register_script(_BEGIN)

    async def last(self, installation: int) -> Tick:
        """Returns the last tick; an empty one before the first, a day after the last, or if it is unreadable."""
        row: Any = await self._redis.get(keys.leaks(installation))
        return await self._read_tick.one(keys.leaks(installation), row) or Tick()

    async def remember(self, installation: int, tick: Tick) -> None:
        """Records a tick."""
        await self._redis.set(keys.leaks(installation), _ticks.encode(tick), ex=KEPT_SECONDS)

    async def begin(self, installation: int, orphan: Orphan) -> bool:
        """Records that a pod's deletion begins; returns False, and records nothing, at `MOST_BEGUN` unfinished ones."""
        args: list[str | bytes | int] = [orphan.uid, _orphans.encode(orphan), MOST_BEGUN, KEPT_SECONDS]
        return bool(await self._begin(keys=[keys.orphans(installation)], args=args))

    async def unfinished(self, installation: int) -> list[Orphan]:
        """Returns the unfinished deletions, oldest first."""
        rows: Any = await self._redis.hgetall(keys.orphans(installation))
        records = await self._read_orphans.many(keys.orphans(installation), rows)
        return sorted(records.values(), key=lambda each: (each.found_at, each.uid))

    async def done(self, installation: int, orphan: Orphan) -> None:
        """Ends a deletion: it is complete, or was abandoned."""
        await self._redis.hdel(keys.orphans(installation), orphan.uid)

    async def reaped(self, installation: int, orphan: Orphan, at: float) -> None:
        """Records that a pod was deleted, or is being deleted; repeated calls have no further effect."""
        key = keys.reaped(installation)
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.zadd(key, {_reaped_row(orphan): at}, nx=True)
            pipe.zremrangebyscore(key, "-inf", at - KEPT_SECONDS)
            pipe.zremrangebyrank(key, 0, -MOST_REAPED - 1)
            pipe.expire(key, KEPT_SECONDS)
            await pipe.execute()

    async def was_reaped(self, installation: int, uid: str) -> bool:
        """True if the reaper's deletion of this pod is unfinished, or was done within the last day."""
        if await self._redis.hexists(keys.orphans(installation), uid):
            return True
        found = self._redis.zscan_iter(keys.reaped(installation), match=f"{uid} *", count=MOST_REAPED)
        return bool([row async for row in found])

    async def reaped_since(self, installation: int, at: float) -> int:
        """Returns the number of pods reaped after that time, within the last day and at most `MOST_REAPED`."""
        return int(await self._redis.zcount(keys.reaped(installation), f"({at}", "+inf"))

    async def reaped_after(self, installation: int, at: float) -> list[ReapedPod]:
        """Returns the pods reaped after that time, oldest first, within the last day and at most `MOST_REAPED`."""
        key = keys.reaped(installation)
        rows: Any = await self._redis.zrange(key, f"({at}", "+inf", byscore=True, withscores=True)
        times = {row: float(score) for row, score in rows}
        found = await self._read_reaped.many(key, {Member(row): row for row in times})
        return [each._replace(at=times[row]) for row, each in found.items()]

    async def reaped_by_pool(self, installation: int, since: float) -> dict[str, int]:
        """Returns the number of pods reaped after that time by pool, as `reaped_after` does."""
        return dict(Counter(each.pool for each in await self.reaped_after(installation, since)))


_ReapedFields = tuple[str, str, str, str, bool, str]


def _reaped_row(orphan: Orphan) -> bytes:
    """Returns the member of a reaped pod: its uid, which has no space, and the other fields."""
    fields = (
        orphan.pool,
        orphan.namespace,
        orphan.pod,
        orphan.runner_name,
        orphan.was_registered,
        reason_of(orphan),
    )
    return orphan.uid.encode() + b" " + msgspec.json.encode(fields)


def _parse_reaped(row: bytes) -> ReapedPod:
    """Parses such a member; the time is its score. Raises ValueError if it is invalid."""
    uid, _, fields = row.partition(b" ")
    pool, namespace, pod, name, was_registered, reason = msgspec.json.decode(fields, type=_ReapedFields)
    return ReapedPod(uid.decode(), pool, namespace, pod, name, was_registered, 0.0, reason)
