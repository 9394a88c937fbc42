"""The evidence about each runner: one compact record per runner, written only when it changes.

Sweeps, deliveries and jobs write concurrently. A record is therefore replaced only if it is still the version that was
read (`save` compares); otherwise `revise` reads it and folds again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from redis.asyncio import Redis

from ghapp.runners.evidence import Evidence, Fold, Survey
from ghapp.runners.remains import RemainsKind
from ghapp.store import keys
from ghapp.store.codec import DROPPED, Codec
from ghapp.store.compare_and_set import RecordWriter
from ghapp.store.quarantine import PlainReader, Quarantine, RecordReader

ABANDONED_SECONDS = 86_400
"""How long an unreadable record is kept that no sweep rewrites: as long as the record of a runner that left."""

DECODED = 1000
"""Runners that are decoded at once, and read at once by `scan`: some milliseconds."""

_evidence = Codec("runner", Evidence, unknown={RemainsKind: DROPPED})
_surveys = Codec("survey", Survey)

MOST_NAMES = 128
"""Names in an installation's first hash. A name that comes when there are as many is in one of 256 more."""

_NAMES = f"""
local names = KEYS[2]
local part = names .. ':' .. string.sub(redis.sha1hex(extra), 1, 2)
if new == '' then
    for _, each in ipairs({{names, part}}) do
        if redis.call('HGET', each, extra) == field then redis.call('HDEL', each, extra) end
    end
else
    local named = redis.call('HGET', names, extra)
    if not named and redis.call('HLEN', names) >= {MOST_NAMES} then
        names = part
        named = redis.call('HGET', names, extra)
    end
    if (tonumber(named) or 0) < tonumber(field) then redis.call('HSET', names, extra, field) end
end
"""
"""Keeps the latest id of each name, in the first hash or in the one that a hash of the name selects.

Redis keeps up to 512 names in a third of the bytes that they need in one large hash: 29 for a name and its id. A name
may be in both with different ids, of which the larger one counts.
"""

MOST_CHANGES = 500
"""Entries of the feed of changes. Its readers read it each second; who falls behind reads all runners."""

FOLLOWED_SECONDS = 120
"""Lifetime of a feed that is not read."""

_ANNOUNCE = f"""
if #changed > 0 then
    redis.call('DEL', KEYS[4])
    redis.call('XADD', KEYS[3], 'NOMKSTREAM', 'MAXLEN', '~', '{MOST_CHANGES}', '*', 'i', table.concat(changed, ' '))
end
"""
"""A feed is created and kept by its readers: without a reader it would only take memory. KEYS[4]: `keys.settled`."""

_FOLLOW = f"""
local position, rows = ARGV[1], {{}}
if position ~= '' then rows = redis.call('XRANGE', KEYS[1], position, '+') end
if not rows[1] or rows[1][1] ~= position then
    rows = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', '1')
    position = rows[1] and rows[1][1] or redis.call('XADD', KEYS[1], '*', 'i', '')
    rows = {{{{position}}}}
end
redis.call('EXPIRE', KEYS[1], '{FOLLOWED_SECONDS}')
return rows
"""
"""Returns the entries from a position on, itself included. If Redis no longer has the entry at that position (trimmed,
expired, or lost in a failover), later ones may be missing, too: then returns the last entry alone, without its ids."""


class Changes(NamedTuple):
    """The runners whose records changed after a position of the feed; `ids` is None if some may be missing."""

    position: str
    ids: frozenset[int] | None


class Runners:
    """The runners of all installations.

    Unreadable records are left out of reads. To `revise` their runners are unknown, and their bytes are replaced.

    Args:
        redis: the client.
        clock: epoch seconds; measures how long a record has been unreadable.
    """

    def __init__(self, redis: Redis, clock: Callable[[], float] = time.time) -> None:
        self._redis, self._clock, self._quarantine = redis, clock, Quarantine(redis, clock)
        self._read, self._read_survey = RecordReader(redis, _evidence, clock), RecordReader(redis, _surveys)
        self._read_ids = PlainReader(redis, "runner-name", int)
        self._write = RecordWriter(
            redis, _evidence, self._read, index=_NAMES, extra=lambda evidence: evidence.name, after=_ANNOUNCE
        )
        self._follow: Any = redis.register_script(_FOLLOW)

    async def all(self, installation: int) -> dict[int, Evidence]:
        """Returns all known runners, by id. Rows are freed as they are decoded: those of 100,000 runners take 30 MB."""
        rows: Any = await self._redis.hgetall(keys.runners(installation))
        records: dict[int, Evidence] = {}
        unreadable: dict[int, bytes] = {}
        while rows:
            taken = (rows.popitem() for _ in range(min(DECODED, len(rows))))
            part = {int(runner_id): row for runner_id, row in taken}
            found = await self._read.many(keys.runners(installation), part)
            records |= found
            unreadable |= {each: row for each, row in part.items() if each not in found}
        if unreadable:
            await self._forget_abandoned(installation, unreadable)
        return records

    async def count(self, installation: int) -> int:
        """Returns the number of known runners."""
        return int(await self._redis.hlen(keys.runners(installation)))

    async def scan(self, installation: int) -> AsyncIterator[dict[int, Evidence]]:
        """Yields all known runners in parts; other tasks run in between. Changes meanwhile may be missing."""
        cursor = 0
        while True:
            answer: Any = await self._redis.hscan(keys.runners(installation), cursor, count=DECODED)
            cursor, rows = answer
            yield await self._read.many(keys.runners(installation), {int(each): row for each, row in rows.items()})
            if cursor == 0:
                return
            await asyncio.sleep(0)

    async def changes(self, installation: int, position: str = "") -> Changes:
        """Returns which records changed after a position of the feed; empty: from now on."""
        rows: Any = await self._follow(keys=[keys.runner_changes(installation)], args=[position])
        return Changes(rows[-1][0].decode(), _changed_ids(rows) if rows[0][0].decode() == position else None)

    async def some(self, installation: int, ids: Iterable[int]) -> dict[int, Evidence]:
        """Returns the known runners among these ids, by id."""
        rows = await self._rows(installation, list(ids))
        return await self._read.many(keys.runners(installation), rows)

    async def ids_of(self, installation: int, names: Iterable[str]) -> dict[str, int]:
        """Returns the latest known runner id of each name."""
        wanted = list(names)
        if not wanted:
            return {}
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.hmget(keys.names(installation), wanted)
            for name in wanted:
                pipe.hget(keys.names_part(installation, name), name)
            first, *others = await pipe.execute()
        known = {name: row for name, row in zip(wanted, first, strict=True) if row is not None}
        found = await self._read_ids.many(keys.names(installation), known)
        for name, row in zip(wanted, others, strict=True):
            other = await self._read_ids.one(keys.names_part(installation, name), row, name)
            if other is not None:
                found[name] = max(other, found.get(name, other))
        return found

    async def revise(
        self, installation: int, folds: Mapping[int, Fold], known: Mapping[int, Evidence] | None = None
    ) -> dict[int, Evidence]:
        """Applies observations, safe against concurrent writers.

        Args:
            installation: the installation.
            folds: for each runner id a function from the old to the new record; called again after a concurrent write.
            known: records that were read before, which saves a read.

        Returns:
            The records as they are now, of known runners.
        """
        return await self._write.revise(_written(installation), folds, known)

    async def survey(self, installation: int) -> Survey:
        """Returns the last survey; an empty one before the first, or if it is unreadable."""
        row: Any = await self._redis.get(keys.survey(installation))
        return await self._read_survey.one(keys.survey(installation), row) or Survey()

    async def surveys(self, installations: Sequence[int]) -> dict[int, Survey]:
        """Returns the last survey of each of these installations, in one round trip."""
        if not installations:
            return {}
        rows: Any = await self._redis.mget([keys.survey(each) for each in installations])
        return {
            each: await self._read_survey.one(keys.survey(each), row) or Survey()
            for each, row in zip(installations, rows, strict=True)
        }

    async def save_survey(self, installation: int, survey: Survey) -> None:
        """Records the survey of the last sweep."""
        await self._redis.set(keys.survey(installation), _surveys.encode(survey))

    async def _forget_abandoned(self, installation: int, unreadable: Mapping[int, bytes]) -> None:
        """Deletes rows that have been unreadable for a day: their runners are no longer registered."""
        long_ago = self._clock() - ABANDONED_SECONDS
        found_at = {
            each.field: each.found_at for each in await self._quarantine.all() if each.key == keys.runners(installation)
        }
        abandoned = {each: row for each, row in unreadable.items() if found_at.get(str(each), long_ago) < long_ago}
        await self._write.delete(_written(installation), abandoned)

    async def _rows(self, installation: int, ids: list[int]) -> dict[int, bytes]:
        if not ids:
            return {}
        rows: Any = await self._redis.hmget(keys.runners(installation), [str(runner_id) for runner_id in ids])
        return {runner_id: row for runner_id, row in zip(ids, rows, strict=True) if row is not None}


def _written(installation: int) -> list[str]:
    """Returns the keys that change with a runner's record."""
    return [
        keys.runners(installation),
        keys.names(installation),
        keys.runner_changes(installation),
        keys.settled(installation),
    ]


def _changed_ids(rows: Sequence[Any]) -> frozenset[int] | None:
    """Returns the ids in the entries after the first; None if an entry is unreadable."""
    try:
        return frozenset(int(each) for _, (_, ids) in rows[1:] for each in ids.split())
    except ValueError:
        return None
