"""Changes records of a hash, safe against concurrent writers: the only compare-and-set, and its only retry loop.

A record is written only if its row is still the one that was read. Otherwise the record is read again, and the change
is applied to what the other process wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic

from redis.asyncio import Redis

from ghapp.errors import StoreUnavailableError
from ghapp.store.codec import Codec, Key, Record
from ghapp.store.quarantine import RecordReader

ATTEMPTS = 20
"""Attempts of one change before it is given up."""

CHUNK = 500
"""Records per script call: about 100 KB, a millisecond or two of Redis' single thread."""

_COMPARE_AND_SET = """
local refused, is_refused, changed = {}, {}, {}
for i = 2, #ARGV, 4 do
    if (redis.call('HGET', KEYS[1], ARGV[i]) or '') ~= ARGV[i + 1] then
        refused[#refused + 1] = ARGV[i]
        is_refused[ARGV[i]] = true
    end
end
if ARGV[1] ~= '' and (#refused > 0 or redis.call('HLEN', KEYS[1]) ~= tonumber(ARGV[1])) then return {'*'} end
for i = 2, #ARGV, 4 do
    local field, new, extra = ARGV[i], ARGV[i + 2], ARGV[i + 3]
    if not is_refused[field] then
        if new == '' then redis.call('HDEL', KEYS[1], field) else redis.call('HSET', KEYS[1], field, new) end
        changed[#changed + 1] = field
        %s
    end
end
%s
return refused
"""
"""KEYS[1]: the hash. ARGV[1]: the number of its fields if all of it is compared, else empty; then four a record: field,
old row, new row (empty: none), and what the index needs. Returns the fields that were changed meanwhile."""

Fold = Callable[[Record | None], Record | None]
"""From the old to the new record; None: there is none. Called again after a concurrent write."""


class RecordWriter(Generic[Record]):
    """Changes records of one kind.

    Args:
        redis: the client.
        codec: of the records.
        read: sets unreadable records aside. Their rows are replaced like those of any other record.
        index: Lua that keeps further keys in step with one written record: KEYS[2] and later, `field`, `new`, `extra`.
        extra: what that Lua needs of a record.
        after: Lua that runs once after the records of a call were written; `changed` has their fields.
        unreadable: given to a fold in place of an unreadable record; None: as if there were none.
    """

    def __init__(
        self,
        redis: Redis,
        codec: Codec[Record],
        read: RecordReader[Record],
        *,
        index: str = "",
        extra: Callable[[Record], str] = lambda _: "",
        after: str = "",
        unreadable: Record | None = None,
    ) -> None:
        self._redis, self._codec, self._read = redis, codec, read
        self._extra, self._unreadable = extra, unreadable
        self._script: Any = redis.register_script(_COMPARE_AND_SET % (index, after))

    async def revise(
        self,
        where: Sequence[str],
        folds: Mapping[Key, Fold[Record]],
        known: Mapping[Key, Record] | None = None,
        *,
        create: bool = True,
    ) -> dict[Key, Record]:
        """Changes single records, each for itself.

        Args:
            where: the key of the hash, and those of the index.
            folds: by field. A fold that returns what it got writes nothing.
            known: records that were read before, which saves a read.
            create: False: a field that is not stored is left out.

        Returns:
            The records as they are now, of fields that have one.

        Raises:
            StoreUnavailableError: a record was changed concurrently at each of `ATTEMPTS`.
        """
        key, left = where[0], list(folds)
        stored: dict[Key, bytes] = {}
        records = dict(known or {})
        if known is None:
            stored, records = await self._stored(key, left)
        revised: dict[Key, Record] = {}
        for _ in range(ATTEMPTS):
            if not create:
                left = [field for field in left if field in records or field in stored]
            chunks = (left[at : at + CHUNK] for at in range(0, len(left), CHUNK))
            changes = (self._fold(chunk, folds, stored, records, revised) for chunk in chunks)
            refused = await self._write_each(where, changes)
            left = [field for field in left if str(field).encode() in refused] if refused else []
            if not left:
                return revised
            for field in left:
                records.pop(field, None)
                stored.pop(field, None)
                revised.pop(field, None)
            rows, fresh = await self._stored(key, left)
            stored.update(rows)
            records.update(fresh)
        raise _too_busy(key)

    def _fold(
        self,
        fields: Iterable[Key],
        folds: Mapping[Key, Fold[Record]],
        stored: Mapping[Key, bytes],
        records: Mapping[Key, Record],
        revised: dict[Key, Record],
    ) -> list[str | bytes]:
        """Applies the folds of these fields, adds the results to `revised`, and returns what `_write` needs."""
        args: list[str | bytes] = []
        for field in fields:
            before = records.get(field)
            after = folds[field](before)
            if after is not None:
                revised[field] = after
            if after is not before:
                # Of a record that was read before, the row is made again only now: most of them do not change.
                row = stored[field] if field in stored else self._row(before)
                args += self._change(field, row, before, after)
        return args

    async def revise_all(
        self, key: str, change: Callable[[Mapping[str, Record]], Mapping[str, Record]], *, keep_unreadable: bool
    ) -> Mapping[str, Record]:
        """Replaces all records of a hash by the result of `change`, which is called again after a concurrent write.

        Returns:
            The records as they are now.

        Raises:
            StoreUnavailableError: the hash was changed concurrently at each of `ATTEMPTS`.
        """
        for _ in range(ATTEMPTS):
            rows: Any = await self._redis.hgetall(key)
            stored = {field.decode(errors="surrogateescape"): row for field, row in rows.items()}
            known = await self._read.many(key, stored)
            after = change(known)
            args: list[str | bytes] = []
            for field in {**stored, **after}:
                is_kept = keep_unreadable and field not in known and field not in after
                row = stored[field] if is_kept else self._row(after.get(field))
                args += (field.encode(errors="surrogateescape"), stored.get(field, b""), row, "")
            if not await self._script(keys=[key], args=[len(stored), *args]):
                return after
        raise _too_busy(key)

    async def delete(self, where: Sequence[str], rows: Mapping[Key, bytes]) -> None:
        """Deletes rows, by field, that are still as they were read."""
        fields = list(rows)
        chunks = (fields[at : at + CHUNK] for at in range(0, len(fields), CHUNK))
        await self._write_each(
            where, ([p for each in chunk for p in (str(each), rows[each], b"", "")] for chunk in chunks)
        )

    async def _stored(self, key: str, fields: Iterable[Key]) -> tuple[dict[Key, bytes], dict[Key, Record]]:
        """Returns the rows of these fields, and their records."""
        asked = list(fields)
        rows: Any = await self._redis.hmget(key, [str(field) for field in asked]) if asked else []
        stored = {field: row for field, row in zip(asked, rows, strict=True) if row is not None}
        records = await self._read.many(key, stored)
        if self._unreadable is not None:
            records = {field: records.get(field, self._unreadable) for field in stored}
        return stored, records

    def _change(self, field: object, stored: bytes, before: Record | None, after: Record | None) -> list[str | bytes]:
        subject = before if after is None else after
        return [str(field), stored, self._row(after), "" if subject is None else self._extra(subject)]

    def _row(self, record: Record | None) -> bytes:
        return b"" if record is None else self._codec.encode(record)

    async def _write_each(self, where: Sequence[str], changes: Iterable[Sequence[str | bytes]]) -> set[bytes]:
        """Writes parts as `_write`; each part is made when the one before is written."""
        refused: set[bytes] = set()
        for args in filter(None, changes):
            refused |= await self._write(where, args)
        return refused

    async def _write(self, where: Sequence[str], args: Sequence[str | bytes]) -> set[bytes]:
        """Writes the changes whose rows are still as they were read; returns the fields of the others."""
        return {*await self._script(keys=list(where), args=["", *args])}


def _too_busy(key: str) -> StoreUnavailableError:
    return StoreUnavailableError(f"{key} was changed concurrently {ATTEMPTS} times; try again")
