"""Unreadable records: kept aside for a person, counted once, and left out of what is read.

One unreadable record must not take down the reads of all others. Whoever reads it gets none, or a safe substitute;
its bytes are copied here, and stay where they are until the record is written again.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from math import isfinite
from typing import Any, Generic, NamedTuple, TypeVar

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from ghapp.log import logger
from ghapp.store import keys
from ghapp.store.codec import Codec, Key, Record, UnreadableError
from ghapp.store.metric_counters import MetricCounters

log = logger(__name__)

MOST = 1_000
"""Unreadable records that are kept aside. Further ones are left out of reads all the same, and are not counted."""

KEPT_SECONDS = 7 * 86_400
"""After the last one was set aside."""

MOST_BYTES = 65_536
"""Of each record, from its beginning."""

MOST_LOGGED = 10
"""Lines a read: a thousand unreadable records need no thousand lines."""

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
        key: of Redis.
        field: of the hash at that key; empty where the key is a string.
        found_at: when it was first read in vain (epoch seconds).
        row: its bytes, the first 65,536 of them.
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
        """Keep unreadable rows of one key, by field (empty for a string). A row that is known already adds nothing.

        A Redis that refuses this, because it is full or a replica, does not fail the read.
        """
        if not rows:
            return
        args: list[str | bytes | int] = [MOST, KEPT_SECONDS]
        for field, row in rows.items():
            entry = UnreadableRecord(kind, key, field, self._clock(), row[:MOST_BYTES])
            args += [_place(key, field), _digest(row), _entries.encode(entry)]
        with suppress(ResponseError):
            fresh = await self._set_aside(keys=[keys.QUARANTINE], args=args)
            if fresh:
                await self._counters.add("ghapp_unreadable_records_total", len(fresh), kind=kind)
            for place in fresh[:MOST_LOGGED]:
                log.warning("unreadable record set aside", kind=kind, record=place.decode(errors="replace"))

    async def all(self) -> list[UnreadableRecord]:
        """Every record that was set aside in the last week, the oldest first, whether or not it was written again."""
        rows: Any = await self._redis.hgetall(keys.QUARANTINE)
        records, _ = _entries.decode_all(rows)
        return sorted(records.values(), key=lambda each: (each.found_at, each.key, each.field))

    async def standing(self) -> list[UnreadableRecord]:
        """Those that still stand where they were found, the oldest first."""
        return [each for each in await self.all() if await self._stands(each)]

    async def _stands(self, record: UnreadableRecord) -> bool:
        row: Any = None
        with suppress(ResponseError):  # something else has that key by now
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
                    row = record.row  # entries are never written again; those of the inbox are taken out
        return row is not None and row[:MOST_BYTES] == record.row


class RecordReader(Generic[Record]):
    """Reads records of one kind, and sets the unreadable ones aside."""

    def __init__(self, redis: Redis, codec: Codec[Record], clock: Callable[[], float] = time.time) -> None:
        self._codec, self._quarantine = codec, Quarantine(redis, clock)

    async def one(self, key: str, row: bytes | None, field: str = "") -> Record | None:
        """The record of a row at a key, or at a field of the hash there; None for no row, and for an unreadable one."""
        if row is None:
            return None
        try:
            return self._codec.decode(row)
        except UnreadableError:
            await self._quarantine.set_aside(self._codec.name, key, {field: row})
            return None

    async def many(self, key: str, rows: Mapping[Key, bytes]) -> dict[Key, Record]:
        """The readable records of a hash, by the fields as they were given."""
        records, unreadable = self._codec.decode_all(rows)
        if unreadable:
            await self.set_aside(key, unreadable)
        return records

    async def set_aside(self, key: str, rows: Mapping[Key, bytes]) -> None:
        """Set rows of a hash aside that are no records for another reason than their encoding."""
        await self._quarantine.set_aside(self._codec.name, key, {_text(field): row for field, row in rows.items()})


Value = TypeVar("Value")


class PlainReader(Generic[Value]):
    """Reads values that are kept as text, and sets aside those that are none of their kind."""

    def __init__(self, redis: Redis, kind: str, parse: Callable[[bytes], Value]) -> None:
        """`parse` makes a value of its bytes, and raises ValueError where they are none."""
        self._kind, self._parse, self._quarantine = kind, parse, Quarantine(redis)

    async def one(self, key: str, row: bytes | None, field: str = "") -> Value | None:
        """The value of a string, or of a field of a hash; None for no value, and for an unreadable one."""
        return None if row is None else (await self.many(key, {field: row})).get(field)

    async def many(self, key: str, rows: Mapping[Key, bytes]) -> dict[Key, Value]:
        """The readable values of a hash or stream, by field or entry as they were given."""
        values: dict[Key, Value] = {}
        unreadable: dict[str, bytes] = {}
        for field, row in rows.items():
            try:
                values[field] = self._parse(row)
            except ValueError:  # bytes that are no UTF-8 are one
                unreadable[_text(field)] = row
        await self._quarantine.set_aside(self._kind, key, unreadable)
        return values

    async def members(self, key: str, rows: Iterable[bytes]) -> list[Value]:
        """The readable members of a set or list, in their order."""
        return [*(await self.many(key, {Member(row): row for row in rows})).values()]


class Member(bytes):
    """A member of a set or list: it has no field, and goes by a short digest of its own."""

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:  # noqa: ARG002
        """The digest."""
        return _digest(self)[:8]


def finite(row: bytes) -> float:
    """A number as it is kept; raises ValueError for all else."""
    number = float(row)
    if not isfinite(number):
        raise ValueError(row)
    return number


def text(row: bytes) -> str:
    """A text as it is kept; raises ValueError where it is none."""
    return row.decode()


def _text(field: object) -> str:
    return field.decode(errors="replace") if isinstance(field, bytes) else str(field)


def _place(key: str, field: str) -> str:
    return f"{key} {field}" if field else key


def _digest(row: bytes) -> str:
    return hashlib.blake2b(row, digest_size=DIGEST_LENGTH // 2).hexdigest()
