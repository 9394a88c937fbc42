"""Events as CloudEvents: a bounded stream for listeners, and the record of what ghapp did and why.

Retries append an event only once: the same script marks its id. That an event is in the stream does not mean that it
was sent: its pool may have had no URL.

The outbox has what a pool's URL has not accepted yet. Of the news of a pool the latest `MOST_NEWS` wait, of at most a
week: older news are dropped and counted, and are in the stream for as long as that has them. Requests for replacements
are never dropped; `health.remediation.plan` grants no more of them than a pool may have open.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from redis.asyncio import Redis

from ghapp.log import logger
from ghapp.metric import Counter
from ghapp.store import keys
from ghapp.store.codec import Codec
from ghapp.store.quarantine import PlainReader, RecordReader

log = logger(__name__)

EVENTS_DROPPED = Counter(
    "ghapp_events_dropped_total",
    "News for a pool's URL that were dropped because too many waited for it; requests for replacements are never "
    "dropped.",
    ("org", "pool"),
)

MOST = 10_000
"""Maximum of events in an installation's stream."""

KEPT_SECONDS = 30 * 86_400
"""After an installation's last event."""

MOST_IDS, ID_SECONDS = 20_000, 7 * 86_400
"""Of each type of event, the ids that are known as appended, the latest. Who appends an event again does so within a
day (a fuse's change) or while its record shows that it is not done (all others)."""

MOST_NEWS, NEWS_SECONDS = 1_000, 7 * 86_400
"""Of each pool, the events beside requests that wait for its URL, the latest."""

MOST_ADDED = 1_000
"""Ids of the feed of added events; who delivers reads the whole outbox now and then."""

ADDED_SECONDS = 60

START = "0"
"""The stream id before the first event."""

_APPEND = f"""
local id, body, outgoing, until_accepted, is_news, dropped_series, most, most_ids, most_news, most_added = unpack(ARGV)
local now = tonumber(redis.call('TIME')[1])
local fresh = redis.call('ZSCORE', KEYS[1], id) == false
if fresh then
    redis.call('ZADD', KEYS[1], now, id)
    redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. now - {ID_SECONDS})
    redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -most_ids - 1)
    redis.call('EXPIRE', KEYS[1], {ID_SECONDS})
    redis.call('XADD', KEYS[2], 'MAXLEN', '~', most, '*', 'e', body)
    redis.call('EXPIRE', KEYS[2], {KEPT_SECONDS})
end
local sends = outgoing ~= '' and (fresh or until_accepted == '1')
if not sends or redis.call('HSETNX', KEYS[3], id, outgoing) == 0 then return {{fresh and 1 or 0, 0}} end
redis.call('RPUSH', KEYS[4], id)
redis.call('LTRIM', KEYS[4], -most_added, -1)
redis.call('EXPIRE', KEYS[4], {ADDED_SECONDS})
local dropped = 0
if is_news == '1' then
    redis.call('ZADD', KEYS[5], now, id)
    local old = redis.call('ZRANGEBYSCORE', KEYS[5], '-inf', '(' .. now - {NEWS_SECONDS})
    local over = redis.call('ZCARD', KEYS[5]) - #old - most_news
    for _, each in ipairs(old) do dropped = dropped + redis.call('HDEL', KEYS[3], each) end
    redis.call('ZREMRANGEBYSCORE', KEYS[5], '-inf', '(' .. now - {NEWS_SECONDS})
    while over > 0 do
        dropped = dropped + redis.call('HDEL', KEYS[3], redis.call('ZPOPMIN', KEYS[5])[1])
        over = over - 1
    end
    if dropped > 0 then redis.pcall('HINCRBYFLOAT', KEYS[6], dropped_series, dropped) end
end
return {{1, dropped}}
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
            until_accepted: True for a request, which is never dropped: if it was appended before and is not in the
                outbox, it is added there. The caller knows that no URL has accepted it.
        """
        body, pool = msgspec.json.encode(event), send_to_pool or ""
        outgoing = _outgoing.encode(Outgoing(installation, pool, body)) if send_to_pool is not None else b""
        event_id, kind = str(event["id"]), str(event["type"])
        dropped = EVENTS_DROPPED.series(org=_org(event), pool=pool)
        added, count = await self._append(
            keys=[
                keys.event_ids(installation, kind),
                keys.events(installation),
                keys.OUTBOX,
                keys.OUTBOX_ADDED,
                keys.outbox_news(installation, pool),
                keys.COUNTERS,
            ],
            args=[event_id, body, outgoing, int(until_accepted), int(not until_accepted), dropped, *_bounds()],
        )
        if count:
            log.info("oldest news dropped, too many wait", installation=installation, pool=pool, count=int(count))
        return bool(added)

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

    async def missing(self, installation: int, kind: str, event_ids: Sequence[str]) -> set[str]:
        """Returns those of the ids for which no event of that type was appended in the last week."""
        if not event_ids:
            return set()
        scores: Any = await self._redis.zmscore(keys.event_ids(installation, kind), [*event_ids])
        return {event_id for event_id, score in zip(event_ids, scores, strict=True) if score is None}

    async def outgoing(self, event_id: str) -> Outgoing | None:
        """Returns an event of the outbox; None if it has none of that id."""
        return (await self.several_outgoing([event_id])).get(event_id)

    async def several_outgoing(self, event_ids: Sequence[str]) -> dict[str, Outgoing]:
        """Returns those of the events that are in the outbox, by id.

        An unreadable record is deleted there, because it can never be sent.
        """
        if not event_ids:
            return {}
        rows: Any = await self._redis.hmget(keys.OUTBOX, [*event_ids])
        stored = {event_id: row for event_id, row in zip(event_ids, rows, strict=True) if row is not None}
        found = await self._read.many(keys.OUTBOX, stored)
        if unreadable := stored.keys() - found.keys():
            await self._redis.hdel(keys.OUTBOX, *unreadable)
        return found

    async def accepted(self, event_id: str, outgoing: Outgoing) -> None:
        """Deletes an event from the outbox: the pool's URL accepted it, or it is not sent any more."""
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.hdel(keys.OUTBOX, event_id)
            pipe.zrem(keys.outbox_news(outgoing.installation, outgoing.pool), event_id)
            await pipe.execute()

    async def added(self, seconds: float) -> list[str]:
        """Waits until events are added to the outbox, at most so long; returns the ids of the latest `MOST_ADDED`.

        Of several that wait, one is woken up. The call occupies a connection.
        """
        first: Any = await self._redis.blpop([keys.OUTBOX_ADDED], seconds)
        if first is None:
            return []
        others: Any = await self._redis.lpop(keys.OUTBOX_ADDED, MOST_ADDED)
        return [row.decode(errors="replace") for row in (first[1], *(others or []))]

    async def unsent(self) -> list[str]:
        """Returns the ids of all events in the outbox."""
        rows: Any = await self._redis.hkeys(keys.OUTBOX)
        return [row.decode() for row in rows]

    async def unsent_of(self, event_ids: Iterable[str]) -> set[str]:
        """Returns those of the ids whose events are in the outbox."""
        return {*await self.several_outgoing([*event_ids])}


def _bounds() -> list[int]:
    return [MOST, MOST_IDS, MOST_NEWS, MOST_ADDED]


def _org(event: Mapping[str, Any]) -> str:
    """Returns the organization from the event's source, `/orgs/acme`."""
    return str(event.get("source", "")).removeprefix("/orgs/")
