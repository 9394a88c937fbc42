"""A copy of the runners of each installation in this process, kept current by the feed of changed records.

Reading a record from Redis for each request would cost more than everything else that a request does. Once a second, a
copy asks which records changed (`Runners.changes`), and reads only those. It reads all runners when Redis cannot say
what changed, and every minute: a process of an older version writes records without announcing them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from cachetools import LRUCache

from ghapp.runners.evidence import Evidence
from ghapp.runners.store import Runners

RELOAD_SECONDS = 60.0

MOST_COPIED = 500_000
"""Runners in memory, of all installations together; the copies that were not read for longest go first."""


class Fleet(NamedTuple):
    """All known runners of an installation by id, and the latest id of each name. Replaced when a record changes."""

    runners: Mapping[int, Evidence]
    ids: Mapping[str, int]


NO_RUNNERS = Fleet({}, {})


class _Copy(NamedTuple):
    """A fleet, the position in the feed up to which it is current, and when all of it was read (monotonic seconds)."""

    fleet: Fleet
    position: str
    loaded_at: float


class FleetCopies:
    """The copies of all installations that are read here.

    Args:
        store: the runners.
        clock: monotonic seconds.
    """

    def __init__(self, store: Runners, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._clock = store, clock
        self._copies: LRUCache[int, _Copy] = LRUCache(MOST_COPIED, getsizeof=_size)

    async def current(self, installation: int) -> Fleet:
        """Returns the runners as they are now; the same object as before if no record changed.

        Raises:
            StoreUnavailableError: Redis does not answer.
        """
        known = self._copies.get(installation)
        if known is not None and self._clock() - known.loaded_at < RELOAD_SECONDS:
            copy = await self._follow(installation, known)
        else:
            copy = None
        if copy is None:
            copy = await self._load(installation, NO_RUNNERS if known is None else known.fleet)
        if _size(copy) <= MOST_COPIED:
            self._copies[installation] = copy
        return copy.fleet

    async def _load(self, installation: int, before: Fleet) -> _Copy:
        loaded_at, feed = self._clock(), await self._store.changes(installation)
        runners: dict[int, Evidence] = {}
        async for part in self._store.scan(installation):
            runners |= part
        fleet = before if runners == before.runners else _with(NO_RUNNERS, runners, runners)
        copy = _Copy(fleet, feed.position, loaded_at)
        return await self._follow(installation, copy) or copy  # what changed while all were read

    async def _follow(self, installation: int, known: _Copy) -> _Copy | None:
        """Returns the copy with what changed since; None if Redis cannot say what changed."""
        changes = await self._store.changes(installation, known.position)
        if changes.ids is None:
            return None
        if not changes.ids:
            return known
        records = await self._store.some(installation, changes.ids)
        return _Copy(_with(known.fleet, changes.ids, records), changes.position, known.loaded_at)


def _with(fleet: Fleet, changed: Iterable[int], records: Mapping[int, Evidence]) -> Fleet:
    """Returns a fleet in which the changed runners have these records; a runner without one is left out."""
    runners, ids = dict(fleet.runners), dict(fleet.ids)
    for runner_id in changed:
        before, after = runners.pop(runner_id, None), records.get(runner_id)
        if before is not None and ids.get(before.name) == runner_id:
            del ids[before.name]
        if after is not None:
            runners[runner_id] = after
            ids[after.name] = max(runner_id, ids.get(after.name, 0))
    return Fleet(runners, ids)


def _size(copy: _Copy) -> int:
    return max(1, len(copy.fleet.runners))
