"""The App's installations: permissions, suspension, and the names of each organization."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from typing import Any

from redis.asyncio import Redis

from ghapp.installations.installation import Installation, known_as, named_by
from ghapp.store import keys
from ghapp.store.codec import Codec
from ghapp.store.compare_and_set import RecordWriter
from ghapp.store.quarantine import PlainReader, RecordReader

_installations = Codec("installation", Installation)

MOST_OWNERS = 20_000
"""Names whose account is recorded; later ones are not, so that no account loses its name."""

Rows = Mapping[str, Installation]


class Installations:
    """All installations, by the names in the configuration.

    Args:
        redis: the client.
        named: the orgs named by the configuration, in lower case, and how many settings name each. None without a
            configuration: then each installation has the name under which it was recorded.
    """

    def __init__(self, redis: Redis, named: Mapping[str, int] | None = None) -> None:
        self._redis, self._named = redis, named
        self._read = RecordReader(redis, _installations)
        self._read_owners = PlainReader(redis, "name-owner", int)
        self._write = RecordWriter(redis, _installations, self._read)

    async def all(self) -> list[Installation]:
        """Returns all installations, sorted by id."""
        rows: Any = await self._redis.hgetall(keys.INSTALLATIONS)
        records = await self._read.many(keys.INSTALLATIONS, rows)
        return sorted(map(self._by_name, records.values()), key=lambda installation: installation.id)

    async def batches(self, size: int) -> AsyncIterator[list[Installation]]:
        """Yields all installations, sorted by id, at most `size` at a time: to query the records of several at once."""
        known = await self.all()
        for start in range(0, len(known), size):
            yield known[start : start + size]

    async def one(self, installation: int) -> Installation | None:
        """Returns an installation by its id."""
        row: Any = await self._redis.hget(keys.INSTALLATIONS, str(installation))
        record = await self._read.one(keys.INSTALLATIONS, row, str(installation))
        return None if record is None else self._by_name(record)

    async def unknown(self, ids: Collection[int]) -> set[int]:
        """Returns those of the ids of which no installation is recorded, by one command."""
        asked = sorted(ids)
        rows: Any = await self._redis.hmget(keys.INSTALLATIONS, [str(each) for each in asked]) if asked else []
        return {each for each, row in zip(asked, rows, strict=True) if row is None}

    async def of(self, org: str) -> Installation | None:
        """Returns an installation by any of its own names, case-insensitively."""
        return next((each for each in await self.all() if each.answers_to(org)), None)

    async def put(self, installation: Installation) -> Installation:
        """Records GitHub's description of one installation; returns it with its known names."""
        field, owners = str(installation.id), await self.owners()
        rows = await self._write.revise_all(
            keys.INSTALLATIONS,
            lambda known: {**known, field: self._known_as(installation, known, owners)},
            keep_unreadable=True,
        )
        await self._own(rows.values(), owners)
        return rows[field]

    async def replace_all(self, installations: Iterable[Installation]) -> list[Installation]:
        """Records a complete list, and deletes all others; returns the list with known names, in the same order."""
        listed, owners = list(installations), await self.owners()

        def revise(known: Rows) -> Rows:
            seen = dict(known)  # names of deleted installations stay taken until the list is complete
            for each in listed:
                seen[str(each.id)] = self._known_as(each, seen, owners)
            return {str(each.id): seen[str(each.id)] for each in listed}

        rows = await self._write.revise_all(keys.INSTALLATIONS, revise, keep_unreadable=False)
        await self._own(rows.values(), owners)
        return [*rows.values()]

    def _known_as(self, described: Installation, known: Rows, owners: Mapping[str, int]) -> Installation:
        return known_as(described, known.values(), self._named or {}, owners)

    async def owners(self) -> dict[str, int]:
        """Returns the account of each name that an installation ever had here.

        The configuration and tokens have names, and outlive installations: another account that takes a name later must
        not come by them.
        """
        rows: Any = await self._redis.hgetall(keys.NAME_OWNERS)
        owners = await self._read_owners.many(keys.NAME_OWNERS, rows)
        return {name.decode(): account for name, account in owners.items()}

    async def _own(self, installations: Iterable[Installation], owners: Mapping[str, int]) -> None:
        names = {name.lower(): each.account_id for each in installations for name in each.own}
        new = {name: account for name, account in names.items() if name not in owners}
        async with self._redis.pipeline(transaction=False) as pipe:
            for name, account in [*new.items()][: max(0, MOST_OWNERS - len(owners))]:
                pipe.hsetnx(keys.NAME_OWNERS, name, account)
            await pipe.execute()

    def _by_name(self, record: Installation) -> Installation:
        return record if self._named is None else named_by(record, self._named)

    async def remove(self, installation: int) -> None:
        """Deletes an installation after the App was uninstalled there."""
        await self._redis.hdel(keys.INSTALLATIONS, str(installation))
