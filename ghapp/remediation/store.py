"""The fuse of each pool, the reaper's fuse of each pool, and pauses.

The fuse `*` is one for an installation and the scopes of its repositories. It is kept with the installation's own
fuses; each of these scopes reads and changes it as its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Any

from redis.asyncio import Redis

from ghapp.installations.installation import Installation
from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.installations.store import Installations
from ghapp.leaks import leak_fuse
from ghapp.leaks.leak_fuse import LeakFuse, StopReason
from ghapp.log import logger
from ghapp.redis_clock import redis_time
from ghapp.remediation.fuse import Fuse, FuseLimits, FuseReason, Position, resume
from ghapp.remediation.pause import Pause, PauseOutcome, PauseResult
from ghapp.store import keys
from ghapp.store.codec import Codec, Record
from ghapp.store.compare_and_set import RecordWriter
from ghapp.store.quarantine import PlainReader, RecordReader, finite
from ghapp.wording import bounded, time_of

log = logger(__name__)

FAMILY_PLAN_SECONDS = 10.0
"""While the fuse `*` is not closed, the scopes of an installation are planned together at most once in this time: that
reads the runners of all of them.
"""

FAMILY_PLANNED_SECONDS = 60
"""Lifetime of the record of it."""


MOST_IN_WORDS = 3
"""Pauses and fuses that are named; the others are counted."""


@dataclass(frozen=True, slots=True)
class Resumption:
    """The result of a resume: the pauses that ended and the fuses that are proving again, by pool.

    `reaping`: the pools whose fuse of the reaper is proving again.
    """

    ended: Mapping[str, Pause] = field(default_factory=dict)
    proving: Mapping[str, Fuse] = field(default_factory=dict)
    reaping: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.ended or self.proving or self.reaping)

    @property
    def in_words(self) -> str:
        """Whose pauses ended, with their reasons, and which fuses restarted; empty if nothing changed."""
        pauses = [
            f"ended the pause of {_named(pool)} by {each.who} since {time_of(each.at)}: {each.why}"
            for pool, each in sorted(self.ended.items())
        ]
        parts = bounded(pauses, MOST_IN_WORDS)
        for kind, pools in (("fuse", self.proving), ("fuse of the reaper", self.reaping)):
            if pools:
                parts.append(f"restarted the {kind} of {', '.join(bounded(map(_named, sorted(pools)), MOST_IN_WORDS))}")
        return "; ".join(parts)


def _named(pool: str) -> str:
    return "all pools" if pool == ALL_POOLS else pool


_fuses = Codec("fuse", Fuse, unknown={Position: Position.STOPPED, FuseReason: FuseReason.NONE})
_pauses = Codec("pause", Pause)
_of_reaper = Codec("reaper-fuse", LeakFuse, unknown={Position: Position.STOPPED, StopReason: StopReason.NONE})

UNREADABLE_FUSE = Fuse(Position.STOPPED, reason=FuseReason.UNREADABLE)
"""The substitute of an unreadable fuse: it blocks everything until a person resumes it."""

UNREADABLE_OF_REAPER = LeakFuse(Position.STOPPED, reason=StopReason.UNREADABLE)
"""The same of the reaper's fuse."""

UNREADABLE_PAUSE = Pause(who="unknown", why="The record of this pause is unreadable.", at=0.0)
"""The substitute of an unreadable pause: it lasts until a person resumes."""


class Fuses:
    """The fuses and pauses of all installations."""

    def __init__(self, redis: Redis) -> None:
        self._redis, self._installations = redis, Installations(redis)
        self._read_fuses, self._read_pauses = RecordReader(redis, _fuses), RecordReader(redis, _pauses)
        self._fuses = RecordWriter(redis, _fuses, self._read_fuses, unreadable=UNREADABLE_FUSE)
        self._pauses = RecordWriter(redis, _pauses, self._read_pauses, unreadable=UNREADABLE_PAUSE)
        self._read_planned = PlainReader(redis, "family-planned", finite)
        self._read_of_reaper = RecordReader(redis, _of_reaper)
        self._of_reaper = RecordWriter(redis, _of_reaper, self._read_of_reaper, unreadable=UNREADABLE_OF_REAPER)

    async def all(self, installation: int) -> dict[str, Fuse]:
        """Returns all fuses that ever changed, by pool; the others are closed. An unreadable fuse is stopped."""
        caller = await self._caller(installation)
        own = await _all(self._redis, keys.fuses(installation), self._read_fuses, UNREADABLE_FUSE)
        if caller == installation:
            return own
        row: Any = await self._redis.hget(keys.fuses(caller), ALL_POOLS)
        if row is None:
            return own
        whole = await self._read_fuses.one(keys.fuses(caller), row, ALL_POOLS)
        return own | {ALL_POOLS: whole or UNREADABLE_FUSE}

    async def save(self, installation: int, pool: str, before: Fuse | None, after: Fuse) -> bool:
        """Saves a changed fuse; returns False, and saves nothing, if the fuse is no longer as `before`."""

        def saved(known: Fuse | None) -> Fuse | None:
            return after if known == before else known  # compared as values: other versions encode to other bytes

        revised = await self._fuses.revise([await self._fuses_with(installation, pool)], {pool: saved})
        return revised.get(pool) is after

    async def _fuses_with(self, installation: int, pool: str) -> str:
        """Returns the key of the hash that has the fuse of this pool."""
        return keys.fuses(await self._caller(installation) if pool == ALL_POOLS else installation)

    async def _caller(self, installation: int) -> int:
        """Returns the installation whose fuse `*` holds for this one: a repository's scope has that of its owner."""
        known = await self._installations.one(installation) if installation < 0 else None
        return installation if known is None else known.caller

    async def is_family_plan_due(self, installation: int, now: float) -> bool:
        """True if the scopes of an installation were planned together longer than `FAMILY_PLAN_SECONDS` ago."""
        row: Any = await self._redis.get(keys.family_planned(installation))
        last = None if row is None else await self._read_planned.one(keys.family_planned(installation), row)
        return last is None or not 0.0 <= now - last < FAMILY_PLAN_SECONDS

    async def family_planned(self, installation: int, now: float) -> None:
        """Records that the scopes of an installation were planned together."""
        await self._redis.set(keys.family_planned(installation), now, ex=FAMILY_PLANNED_SECONDS)

    async def forget(self, installation: int, fuses: Mapping[str, Fuse]) -> None:
        """Deletes fuses, by pool, that are still as given: closed ones of pools that are no more."""

        def forgotten(known: Fuse | None, before: Fuse) -> Fuse | None:
            return None if known == before else known

        by_key: dict[str, dict[str, partial[Fuse | None]]] = {}
        for pool, fuse in fuses.items():
            by_key.setdefault(await self._fuses_with(installation, pool), {})[pool] = partial(forgotten, before=fuse)
        for key, folds in by_key.items():
            await self._fuses.revise([key], folds)

    async def of_reaper(self, installation: int) -> dict[str, LeakFuse]:
        """Returns the reaper's fuses that are not closed, by pool. An unreadable fuse is stopped."""
        return await _all(self._redis, keys.leak_fuses(installation), self._read_of_reaper, UNREADABLE_OF_REAPER)

    async def save_of_reaper(self, installation: int, pool: str, before: LeakFuse | None, after: LeakFuse) -> bool:
        """Saves a changed fuse of the reaper, as `save` does; a closed one is deleted."""
        kept = None if after.position is Position.CLOSED else after

        def saved(known: LeakFuse | None) -> LeakFuse | None:
            return kept if known == before else known

        revised = await self._of_reaper.revise([keys.leak_fuses(installation)], {pool: saved})
        return revised.get(pool) is kept

    async def pauses(self, installation: int) -> dict[str, Pause]:
        """Returns the pauses that are not over, by pool; `ALL_POOLS` for the org's. An unreadable one counts as one."""
        known = await _all(self._redis, keys.pauses(installation), self._read_pauses, UNREADABLE_PAUSE)
        if not any(each.until for each in known.values()):
            return known
        now = await redis_time(self._redis)
        return {pool: each for pool, each in known.items() if not each.is_over(now)}

    async def pause(self, installation: int, pool: str, asked: Pause) -> PauseOutcome:
        """Stops remediation of a pool or the whole org, or changes the pause that lasts (`Pause.changed_by`).

        A request without a reason begins no pause. Nothing acts between the old end of a pause and its new one.
        """
        now, running = await redis_time(self._redis), list[Pause]()

        def paused(known: Pause | None) -> Pause | None:
            if known is None or known.is_over(now):
                running.clear()
                return asked if asked.why else known
            running[:] = [known]
            after = known.changed_by(asked)
            return known if after == known else after

        pause = (await self._pauses.revise([keys.pauses(installation)], {pool: paused})).get(pool, asked)
        if not running:
            return PauseOutcome(asked, PauseResult.PAUSED if asked.why else PauseResult.NEEDS_REASON)
        before = running[0]
        if pause == before:
            return PauseOutcome(pause, PauseResult.ALREADY_PAUSED)
        result = PauseResult.EXTENDED if pause.ends_after(before) else PauseResult.CHANGED
        return PauseOutcome(pause, result, before)

    async def unpause(self, installation: int, pool: str) -> bool:
        """Ends a pause; returns False if there was none."""
        return bool(await self._redis.hdel(keys.pauses(installation), pool))

    async def resume(
        self, installation: Installation, pool: str | None, by: str, now: float, limits: FuseLimits
    ) -> Resumption:
        """Resumes remediation: ends pauses, and restarts stopped fuses as `restart` does.

        Args:
            installation: the installation.
            pool: the pool to resume; None: the org's pause and those of all pools.
            by: the person; logged, and recorded in each fuse.
            now: epoch seconds.
            limits: the org's `[fuse]` table.
        """
        ended = {
            name: pause
            for name, pause in (await self.pauses(installation.id)).items()
            if pool in (None, name) and await self.unpause(installation.id, name)
        }
        for name in sorted(ended):
            log.info("pause ended", installation=installation.id, org=installation.org, pool=name, by=by)
        return replace(await self.restart(installation, pool, by, now, limits), ended=ended)

    async def restart(
        self, installation: Installation, pool: str | None, by: str, now: float, limits: FuseLimits, until: float = inf
    ) -> Resumption:
        """Restarts stopped fuses, the reaper's too, which are then proving; a pause stays.

        The fuse `*` that a repository's scope shares is restarted with its owner's alone: it holds the owner's runners.

        Args:
            installation: the installation.
            pool: of the fuse; None: all of them.
            by: the person; logged, and recorded in each fuse.
            now: epoch seconds.
            limits: the org's `[fuse]` table.
            until: fuses that stopped after this time are not changed (epoch seconds).
        """
        proving = {}
        for name, fuse in (await self.all(installation.id)).items():
            is_owners = name == ALL_POOLS and installation.caller != installation.id
            if pool not in (None, name) or fuse.position is not Position.STOPPED or is_owners:
                continue
            if (fuse.stopped_at or fuse.since or 0.0) > until:
                continue
            after = resume(fuse, now, limits, by)
            if await self.save(installation.id, name, fuse, after):  # False: another process changed it first
                proving[name] = after
        reaping = set()
        for name, own in (await self.of_reaper(installation.id)).items():
            if pool not in (None, name) or own.position is not Position.STOPPED or (own.stopped_at or 0.0) > until:
                continue
            if await self.save_of_reaper(installation.id, name, own, leak_fuse.resume(now, limits, by)):
                reaping.add(name)
        for name in sorted({*proving, *reaping}):
            log.info("fuse restarted", installation=installation.id, org=installation.org, pool=name, by=by)
        return Resumption({}, proving, frozenset(reaping))


async def _all(redis: Redis, key: str, read: RecordReader[Record], substitute: Record) -> dict[str, Record]:
    """Returns the records of a hash, by pool, with the substitute for unreadable ones."""
    rows: Any = await redis.hgetall(key)
    by_pool = {pool.decode(): row for pool, row in rows.items()}
    records = await read.many(key, by_pool)
    return {pool: records.get(pool, substitute) for pool in by_pool}
