"""The incidents of the last month: written while runners are lost or a fuse is not closed, read by the pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from redis.asyncio import Redis

from ghapp.errors import StoreUnavailableError
from ghapp.incidents.fold import KEPT_SECONDS, IncidentsById, outdated
from ghapp.incidents.incident import LossIncident
from ghapp.incidents.loss import LossEnd
from ghapp.remediation.fuse import FuseReason, Position
from ghapp.runners.verdict import Reason
from ghapp.store import keys
from ghapp.store.codec import Codec
from ghapp.store.compare_and_set import ATTEMPTS, RecordWriter
from ghapp.store.quarantine import RecordReader

MOST_BYTES = 4 * 1024 * 1024
"""Maximum size of an installation's incidents; one lost runner takes 100 to 200 bytes."""

_incidents = Codec(
    "incident",
    LossIncident,
    unknown={
        LossEnd: LossEnd.UNKNOWN,
        Reason: Reason.REGISTRATION_INVALIDATED,
        Position: Position.STOPPED,
        FuseReason: FuseReason.NONE,
    },
)

_EXPIRE = f"redis.call('EXPIRE', KEYS[1], {int(KEPT_SECONDS) + 86_400})"


class Incidents:
    """The incidents of all installations."""

    def __init__(self, redis: Redis) -> None:
        self._redis, self._read = redis, RecordReader(redis, _incidents)
        self._write = RecordWriter(redis, _incidents, self._read, index=_EXPIRE)

    async def all(self, installation: int) -> dict[str, LossIncident]:
        """Returns all incidents, by id, those that others took over included."""
        key = keys.incidents(installation)
        rows: Any = await self._redis.hgetall(key)
        return await self._read.many(key, {identifier.decode(): row for identifier, row in rows.items()})

    async def revise(
        self, installation: int, change: Callable[[IncidentsById], IncidentsById], now: float
    ) -> IncidentsById:
        """Changes the incidents, safe against concurrent writers; deletes the oldest that ended if there are too many.

        Args:
            installation: the installation.
            change: from all incidents to all incidents; called again after a concurrent write.
            now: epoch seconds.

        Returns:
            The incidents as they are now.

        Raises:
            StoreUnavailableError: an incident was changed concurrently at each of `ATTEMPTS`.
        """
        key = keys.incidents(installation)
        for _ in range(ATTEMPTS):
            known = await self.all(installation)
            after = _bounded(change(known), now)
            folds = {
                each: partial(_if_unchanged, before=known.get(each), after=after.get(each))
                for each in {**known, **after}
                if known.get(each) != after.get(each)
            }
            revised = await self._write.revise([key], folds, {each: known[each] for each in folds if each in known})
            if all(revised.get(each) == after.get(each) for each in folds):
                return after
        raise StoreUnavailableError(f"{key} was changed concurrently {ATTEMPTS} times; try again")


def _if_unchanged(
    stored: LossIncident | None, before: LossIncident | None, after: LossIncident | None
) -> LossIncident | None:
    return after if stored == before else stored


def _bounded(incidents: IncidentsById, now: float) -> Mapping[str, LossIncident]:
    """Returns the incidents that are kept."""
    deleted = set(outdated(incidents, now))
    kept = {identifier: each for identifier, each in incidents.items() if identifier not in deleted}
    sizes = {identifier: len(_incidents.encode(each)) for identifier, each in kept.items()}
    total = sum(sizes.values())
    ended = sorted((each.ended, each.id) for each in kept.values() if each.ended is not None)
    for _, identifier in ended:
        if total <= MOST_BYTES:
            break
        total -= sizes[identifier]
        del kept[identifier]
    return kept
