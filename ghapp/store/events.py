"""Events as CloudEvents: a bounded stream for listeners, and the record of what ghapp did and why.

Retries append an event only once: the same script marks its id. That an event is in the stream does not mean that it
was sent: its pool may have had no URL.
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
"""Maximum of events per installation."""

START = "0"
"""The stream id before the first event."""

_APPEND = """
local fresh = redis.call('SET', KEYS[1], '1', 'NX', 'EX', 604800)
if fresh then redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[3], '*', 'e', ARGV[2]) end
local sends = ARGV[4] ~= '' and (fresh or ARGV[5] == '1')
if sends and redis.call('HSETNX', KEYS[3], ARGV[1], ARGV[4]) == 1 then
    redis.call('RPUSH', KEYS[4], '1')
    redis.call('LTRIM', KEYS[4], 0, 0)
    redis.call('EXPIRE', KEYS[4], 60)
    return 1
end
return fresh and 1 or 0
"""


class Outgoing(NamedTuple):
    """An event that its pool's url has not accepted yet."""

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

    async def append(
        self, installation: int, event: Mapping[str, Any], send_to_pool: str | None, *, until_accepted: bool = False
    ) -> bool:
        """Appends an event, also to the outbox if it is sent to a pool's URL; returns False if nothing was added.

        Args:
            installation: of the event.
            event: the CloudEvent.
            send_to_pool: the pool whose URL gets it; None: it is not sent.
            until_accepted: True: an event that was appended before and is not in the outbox is added there. The caller
                knows that no URL has accepted it.
        """
        body = msgspec.json.encode(event)
        outgoing = _outgoing.encode(Outgoing(installation, send_to_pool, body)) if send_to_pool is not None else b""
        event_id = str(event["id"])
        fresh = await self._append(
            keys=[keys.event(event_id), keys.events(installation), keys.OUTBOX, keys.OUTBOX_ADDED],
            args=[event_id, body, MOST, outgoing, int(until_accepted)],
        )
        return bool(fresh)

    async def since(self, installation: int, last_id: str, most: int = 100) -> list[tuple[str, bytes]] | None:
        """Returns events after that stream id as (stream id, CloudEvent as JSON). `START` is before the first.

        Returns None if the event of that id is no longer stored: events after it may be deleted, too.
        """
        rows: Any = await self._redis.xrange(keys.events(installation), min=last_id, count=most + 1)
        if last_id != START:
            if not rows or rows[0][0].decode() != last_id:
                return None
            del rows[0]
        return await self._readable(installation, rows[:most])

    async def last_id(self, installation: int) -> str:
        """Returns the stream id of the last event; `START` if there is none."""
        rows: Any = await self._redis.xrevrange(keys.events(installation), count=1)
        return rows[0][0].decode() if rows else START

    async def latest(self, installation: int, most: int) -> list[tuple[str, bytes]]:
        """Returns the last events, oldest first."""
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
        """Returns those of the ids for which no event was appended in the last week."""
        async with self._redis.pipeline(transaction=False) as pipe:
            for event_id in event_ids:
                pipe.exists(keys.event(event_id))
            answers = await pipe.execute()
        return {event_id for event_id, exists in zip(event_ids, answers, strict=True) if not exists}

    async def outgoing(self, event_id: str) -> Outgoing | None:
        """Returns an event of the outbox. An unreadable record is deleted there, because it can never be sent."""
        row: Any = await self._redis.hget(keys.OUTBOX, event_id)
        found = await self._read.one(keys.OUTBOX, row, event_id)
        if row is not None and found is None:
            await self._redis.hdel(keys.OUTBOX, event_id)
        return found

    async def accepted(self, event_id: str) -> None:
        """Deletes an event from the outbox: the pool's URL accepted it, or it is not sent any more."""
        await self._redis.hdel(keys.OUTBOX, event_id)

    async def await_added(self, seconds: float) -> None:
        """Waits until an event is added to the outbox, at most so long. Of several that wait, one is woken up.

        The call occupies a connection. The previous version adds events without a wake-up.
        """
        await self._redis.blpop([keys.OUTBOX_ADDED], seconds)

    async def unsent(self) -> list[str]:
        """Returns the ids of all events in the outbox."""
        rows: Any = await self._redis.hkeys(keys.OUTBOX)
        return [row.decode() for row in rows]
