"""The evidence about each runner: one compact record per runner, written only when it changes.

Sweeps, deliveries and jobs write concurrently. A record is therefore replaced only if it is still the version that was
read (`save` compares); otherwise `revise` reads it and folds again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from redis.asyncio import Redis

from ghapp.health.runner.evidence import Evidence, Fold, Survey
from ghapp.health.runner.remains import RemainsKind
from ghapp.store import keys
from ghapp.store.codec import DROPPED, Codec
from ghapp.store.compare_and_set import RecordWriter
from ghapp.store.quarantine import PlainReader, Quarantine, RecordReader

ABANDONED_SECONDS = 86_400
"""How long an unreadable record is kept that no sweep rewrites: as long as the record of a runner that left."""

_evidence = Codec("runner", Evidence, unknown={RemainsKind: DROPPED})
_surveys = Codec("survey", Survey)

_NAMES = """
local named = redis.call('HGET', KEYS[2], extra)
if new == '' then
    if named == field then redis.call('HDEL', KEYS[2], extra) end
elseif not named or tonumber(named) <= tonumber(field) then
    redis.call('HSET', KEYS[2], extra, field)
end
"""
"""Keeps the runner's id by its name: the latest id of each name."""


class StoredFleet(NamedTuple):
    """All runners of an installation, by id, and the rows from which they were decoded."""

    rows: Mapping[bytes, bytes]
    runners: dict[int, Evidence]


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
        self._write = RecordWriter(redis, _evidence, self._read, index=_NAMES, extra=lambda evidence: evidence.name)

    async def all(self, installation: int) -> dict[int, Evidence]:
        """Returns all known runners, by id."""
        rows: Any = await self._redis.hgetall(keys.runners(installation))
        by_id = {int(runner_id): row for runner_id, row in rows.items()}
        records = await self._read.many(keys.runners(installation), by_id)
        if len(records) < len(by_id):
            await self._forget_abandoned(installation, {each: by_id[each] for each in by_id if each not in records})
        return records

    async def refresh(self, installation: int, before: StoredFleet | None = None) -> StoredFleet:
        """Returns all known runners, and decodes only the records that changed since `before`.

        Without a change it returns `before` itself.
        """
        rows: Any = await self._redis.hgetall(keys.runners(installation))
        if before is not None and rows == before.rows:
            return before
        known = {} if before is None else before.rows
        changed = {int(runner_id): row for runner_id, row in rows.items() if known.get(runner_id) != row}
        records = await self._read.many(keys.runners(installation), changed)
        if before is not None:
            kept = {runner_id: each for runner_id, each in before.runners.items() if runner_id not in changed}
            if known.keys() - rows.keys():
                kept = {runner_id: each for runner_id, each in kept.items() if b"%d" % runner_id in rows}
            records = kept | records
        return StoredFleet(rows, records)

    async def some(self, installation: int, ids: Iterable[int]) -> dict[int, Evidence]:
        """Returns the known runners among these ids, by id."""
        rows = await self._rows(installation, list(ids))
        return await self._read.many(keys.runners(installation), rows)

    async def ids_of(self, installation: int, names: Iterable[str]) -> dict[str, int]:
        """Returns the latest known runner id of each name."""
        wanted = list(names)
        if not wanted:
            return {}
        rows: Any = await self._redis.hmget(keys.names(installation), wanted)
        known = {name: row for name, row in zip(wanted, rows, strict=True) if row is not None}
        return await self._read_ids.many(keys.names(installation), known)

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
        return await self._write.revise([keys.runners(installation), keys.names(installation)], folds, known)

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
        await self._write.delete([keys.runners(installation), keys.names(installation)], abandoned)

    async def _rows(self, installation: int, ids: list[int]) -> dict[int, bytes]:
        if not ids:
            return {}
        rows: Any = await self._redis.hmget(keys.runners(installation), [str(runner_id) for runner_id in ids])
        return {runner_id: row for runner_id, row in zip(ids, rows, strict=True) if row is not None}
