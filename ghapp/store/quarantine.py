"""The quarantine of unreadable records: they are set aside for a person, counted once, and left out of reads.

One unreadable record must not break the reads of all others. Its reader gets None, or a safe substitute; the bytes are
copied to the quarantine, and stay in place until the record is rewritten.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from math import isfinite
from typing import Any, Generic, NamedTuple, TypeVar

from redis.asyncio import Redis

from ghapp.errors import StoreRefusedError
from ghapp.log import logger
from ghapp.store import keys
from ghapp.store.codec import Codec, Key, Record, UnreadableError
from ghapp.store.metric_counters import UNREADABLE_RECORDS, MetricCounters

log = logger(__name__)

MOST = 1_000
"""Maximum of records in the quarantine. Further ones are left out of reads, too, but are not counted."""

KEPT_SECONDS = 7 * 86_400
"""After the last record was set aside."""

MOST_BYTES = 65_536
"""Of each record; the rest is cut off."""

MOST_LOGGED = 10
"""Log lines per read, however many records are unreadable."""

DIGEST_LENGTH = 32

_SET_ASIDE = """
local fresh = {}
for i = 3, #ARGV, 3 do
    local place, digest, entry = ARGV[i], ARGV[i + 1], ARGV[i + 2]
    local known = redis.call('HGET', KEYS[1], place)
    if not (known and string.sub(known, 1, #digest) == digest)
        and (known or redis.call('HLEN', KEYS[1]) < tonumber(ARGV[1])) then
        redis.call('HSET', KEYS[1], place, digest .. entry)
        fresh[#fresh + 1] = place
    end
end
if #fresh > 0 then redis.call('EXPIRE', KEYS[1], ARGV[2]) end
return fresh
"""


class UnreadableRecord(NamedTuple):
    """A record that could not be read. Fields are only ever appended.

    Attributes:
        kind: the name of its codec.
        key: its Redis key.
        field: its field of the hash at that key; empty for a string.
        found_at: when reading it failed first (epoch seconds).
        row: its first 65,536 bytes.
    """

    kind: str
    key: str
    field: str
    found_at: float
    row: bytes


_entries = Codec("unreadable-record", UnreadableRecord, body=lambda row: row[DIGEST_LENGTH:])


class Quarantine:
    """The unreadable records of all installations."""

    def __init__(self, redis: Redis, clock: Callable[[], float] = time.time) -> None:
        self._redis, self._clock, self._counters = redis, clock, MetricCounters(redis)
        self._set_aside: Any = redis.register_script(_SET_ASIDE)

    async def set_aside(self, kind: str, key: str, rows: Mapping[str, bytes]) -> None:
        """Copies unreadable rows of one key, by field (empty for a string). Known rows have no further effect.

        If Redis rejects the write, because it is full or a replica, the read still succeeds.
        """
        if not rows:
            return
        args: list[str | bytes | int] = [MOST, KEPT_SECONDS]
        for field, row in rows.items():
            entry = UnreadableRecord(kind, key, field, self._clock(), row[:MOST_BYTES])
            args += [_place(key, field), _digest(row), _entries.encode(entry)]
        with suppress(StoreRefusedError):
            fresh = await self._set_aside(keys=[keys.QUARANTINE], args=args)
            if fresh:
                await self._counters.add(UNREADABLE_RECORDS, len(fresh), kind=kind)
            for place in fresh[:MOST_LOGGED]:
                log.warning("unreadable record set aside", kind=kind, record=place.decode(errors="replace"))

    async def all(self) -> list[UnreadableRecord]:
        """Returns all records set aside in the last week, oldest first, rewritten ones included."""
        rows: Any = await self._redis.hgetall(keys.QUARANTINE)
        records, _ = _entries.decode_all(rows)
        return sorted(records.values(), key=lambda each: (each.found_at, each.key, each.field))

    async def unresolved(self) -> list[UnreadableRecord]:
        """Returns the records that were not rewritten since, oldest first."""
        return [each for each in await self.all() if await self._is_unchanged(each)]

    async def _is_unchanged(self, record: UnreadableRecord) -> bool:
        row: Any = None
        with suppress(StoreRefusedError):  # the key has another type by now
            match await self._redis.type(record.key):
                case b"string":
                    row = await self._redis.get(record.key)
                case b"hash":
                    row = await self._redis.hget(record.key, record.field)
                case b"zset":
                    row = None if await self._redis.zscore(record.key, record.row) is None else record.row
                case b"list":
                    found: Any = await self._redis.lpos(record.key, record.row)  # type: ignore[arg-type]
                    row = None if found is None else record.row
                case b"stream":
                    row = record.row  # entries are never rewritten; unreadable ones of the inbox are deleted
        return row is not None and row[:MOST_BYTES] == record.row


class RecordReader(Generic[Record]):
    """Reads records of one kind, and sets unreadable ones aside."""

    def __init__(self, redis: Redis, codec: Codec[Record], clock: Callable[[], float] = time.time) -> None:
        self._codec, self._quarantine = codec, Quarantine(redis, clock)

    async def one(self, key: str, row: bytes | None, field: str = "") -> Record | None:
        """Returns the record of a row, of a string or of a hash's field; None without a row, or if it is unreadable."""
        if row is None:
            return None
        try:
            return self._codec.decode(row)
        except UnreadableError:
            await self._quarantine.set_aside(self._codec.name, key, {field: row})
            return None

    async def many(self, key: str, rows: Mapping[Key, bytes]) -> dict[Key, Record]:
        """Returns the readable records of a hash, by field."""
        records, unreadable = self._codec.decode_all(rows)
        if unreadable:
            by_field = {_text(field): row for field, row in unreadable.items()}
            await self._quarantine.set_aside(self._codec.name, key, by_field)
        return records


Value = TypeVar("Value")


class PlainReader(Generic[Value]):
    """Reads values that are stored as text, and sets invalid ones aside."""

    def __init__(self, redis: Redis, kind: str, parse: Callable[[bytes], Value]) -> None:
        """`parse` converts bytes to a value, and raises ValueError if they are invalid."""
        self._kind, self._parse, self._quarantine = kind, parse, Quarantine(redis)

    async def one(self, key: str, row: bytes | None, field: str = "") -> Value | None:
        """Returns the value of a string, or of a hash's field; None without a value, or if it is unreadable."""
        return None if row is None else (await self.many(key, {field: row})).get(field)

    async def many(self, key: str, rows: Mapping[Key, bytes]) -> dict[Key, Value]:
        """Returns the readable values of a hash or stream, by field or entry id."""
        values: dict[Key, Value] = {}
        unreadable: dict[str, bytes] = {}
        for field, row in rows.items():
            try:
                values[field] = self._parse(row)
            except ValueError:  # includes invalid UTF-8
                unreadable[_text(field)] = row
        await self._quarantine.set_aside(self._kind, key, unreadable)
        return values

    async def members(self, key: str, rows: Iterable[bytes]) -> list[Value]:
        """Returns the readable members of a set or list, in their order."""
        return [*(await self.many(key, {Member(row): row for row in rows})).values()]


class Member(bytes):
    """A member of a set or list. Members have no field, so a short digest takes its place."""

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:  # noqa: ARG002
        """Returns the digest."""
        return _digest(self)[:8]


def finite(row: bytes) -> float:
    """Parses a stored number; raises ValueError if it is not a finite number."""
    number = float(row)
    if not isfinite(number):
        raise ValueError(row)
    return number


def text(row: bytes) -> str:
    """Decodes a stored text; raises ValueError if it is not UTF-8."""
    return row.decode()


def _text(field: object) -> str:
    return field.decode(errors="replace") if isinstance(field, bytes) else str(field)


def _place(key: str, field: str) -> str:
    return f"{key} {field}" if field else key


def _digest(row: bytes) -> str:
    return hashlib.blake2b(row, digest_size=DIGEST_LENGTH // 2).hexdigest()
