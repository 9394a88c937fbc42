"""What happened, as CloudEvents: a bounded stream for those who listen, and the record of why we acted.

An event is appended once, whoever retries: its id is marked in the same script.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from redis.asyncio import Redis

from ghapp.store import keys
from ghapp.store.codec import Codec
from ghapp.store.quarantine import PlainReader, RecordReader

MOST = 10_000
"""Events kept for each installation."""

START = "0"
"""Stands for the stream id of the event before the first."""

_APPEND = """
if redis.call('SET', KEYS[1], '1', 'NX', 'EX', 604800) == false then return 0 end
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[3], '*', 'e', ARGV[2])
if ARGV[4] ~= '' then redis.call('HSET', KEYS[3], ARGV[1], ARGV[4]) end
return 1
"""


class Outgoing(NamedTuple):
    """An event that a pool's url is still to accept."""

    installation: int
    pool: str
    event: bytes


_outgoing = Codec("outgoing-event", Outgoing)


def _event(row: bytes) -> bytes:
    msgspec.json.decode(row)  # a DecodeError is a ValueError
    return row


class Events:
    """The events of all installations, and the outbox."""

    def __init__(self, redis: Redis) -> None:
        self._redis, self._read = redis, RecordReader(redis, _outgoing)
        self._read_events = PlainReader(redis, "event", _event)
        self._append: Any = redis.register_script(_APPEND)

    async def append(self, installation: int, event: Mapping[str, Any], send_to_pool: str | None) -> bool:
        """Record an event, and put it in the outbox when its pool has a url; False when its id was there before."""
        body = msgspec.json.encode(event)
        outgoing = _outgoing.encode(Outgoing(installation, send_to_pool, body)) if send_to_pool is not None else b""
        event_id = str(event["id"])
        fresh = await self._append(
            keys=[keys.event(event_id), keys.events(installation), keys.OUTBOX], args=[event_id, body, MOST, outgoing]
        )
        return bool(fresh)

    async def since(self, installation: int, last_id: str, most: int = 100) -> list[tuple[str, bytes]] | None:
        """Events after the one of that stream id: (stream id, CloudEvent as JSON). `START` is before the first.

        None when that one is not kept any more: what came after it may be gone, too.
        """
        rows: Any = await self._redis.xrange(keys.events(installation), min=last_id, count=most + 1)
        if last_id != START:
            if not rows or rows[0][0].decode() != last_id:
                return None
            del rows[0]
        return await self._readable(installation, rows[:most])

    async def last_id(self, installation: int) -> str:
        """The stream id of the last event; `START` when there is none."""
        rows: Any = await self._redis.xrevrange(keys.events(installation), count=1)
        return rows[0][0].decode() if rows else START

    async def latest(self, installation: int, most: int) -> list[tuple[str, bytes]]:
        """The last events, oldest first."""
        rows: Any = await self._redis.xrevrange(keys.events(installation), count=most)
        return await self._readable(installation, [*reversed(rows)])

    async def _readable(
        self, installation: int, rows: Sequence[tuple[bytes, Mapping[bytes, bytes]]]
    ) -> list[tuple[str, bytes]]:
        found = await self._read_events.many(
            keys.events(installation), {entry_id.decode(): row.get(b"e", b"") for entry_id, row in rows}
        )
        return [*found.items()]

    async def missing(self, event_ids: Sequence[str]) -> set[str]:
        """Those of these ids under which nothing was appended in the last week."""
        async with self._redis.pipeline(transaction=False) as pipe:
            for event_id in event_ids:
                pipe.exists(keys.event(event_id))
            answers = await pipe.execute()
        return {event_id for event_id, there in zip(event_ids, answers, strict=True) if not there}

    async def outgoing(self, event_id: str) -> Outgoing | None:
        """What is still to be accepted under that id. An unreadable record leaves the outbox: it can never be sent."""
        row: Any = await self._redis.hget(keys.OUTBOX, event_id)
        found = await self._read.one(keys.OUTBOX, row, event_id)
        if row is not None and found is None:
            await self._redis.hdel(keys.OUTBOX, event_id)
        return found

    async def accepted(self, event_id: str) -> None:
        """The pool's url has it."""
        await self._redis.hdel(keys.OUTBOX, event_id)

    async def unsent(self) -> list[str]:
        """Ids of all events that wait for their url."""
        rows: Any = await self._redis.hkeys(keys.OUTBOX)
        return [row.decode() for row in rows]
