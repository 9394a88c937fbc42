"""The inbox of deliveries: stored before the 202, drained in batches, and deleted after their effects are stored.

`Inbox.keep` collects deliveries that arrive during a write into the next write, so that a burst costs one command per
batch. A GUID is marked as seen when its entry is deleted: a delivery whose processing failed can therefore be sent
again, and a delivery whose effects are stored has no second effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from redis.asyncio import Redis

from ghapp.deliveries.log_store import SeenDeliveries
from ghapp.deliveries.redelivery import LastRequest
from ghapp.errors import StoreRefusedError, StoreUnavailableError
from ghapp.log import logger
from ghapp.redis_errors import FOREIGN, translated
from ghapp.store import keys
from ghapp.store.quarantine import PlainReader, finite

HOUR = 3600
ASKED_MILLISECONDS = 500
"""How long no further drain is requested. The clock requests one for deliveries that arrive after that drain."""

log = logger(__name__)

MOST_AT_ONCE = 500
"""Deliveries per write: a few hundred kilobytes, and a few milliseconds of Redis' single thread."""

MOST_WAITING = 100_000
"""Deliveries that wait: some 70 MB, and what a minute brings at the rate of the largest fleets."""

KEPT_SECONDS = 7 * 24 * HOUR
"""After the last delivery. GitHub repeats none that is older than three days, and an older one proves nothing now."""

MOST_TRIES = 3
MOST_DEAD, DEAD_SECONDS = 1_000, 30 * 24 * HOUR

MOST_PLANNED = 1_000
"""Attempts that GitHub is to repeat; the next search plans the others."""

MOST_SCANNED = 10_000
"""Waiting entries that are searched for a GUID; a GUID that is missed only causes a second delivery."""

Ask = Callable[[], Awaitable[None]]


class Entry(NamedTuple):
    """A stored delivery: its stream id, GitHub's GUID, the event's name, and its encoded facts."""

    id: bytes
    guid: str
    event: str
    facts: bytes


class DeadLetter(NamedTuple):
    """A delivery that was given up: its stream id, GitHub's GUID, the event, the error, and when (epoch seconds)."""

    id: str
    guid: str
    event: str
    why: str
    at: float


class RedeliveryCursor(NamedTuple):
    """Where the search of GitHub's delivery log continues: a cursor, and the start of that search (epoch seconds)."""

    cursor: str
    at: float


TOP = RedeliveryCursor("", 0.0)
"""The newest end of GitHub's delivery log."""

_KEEP = """
if redis.call('XLEN', KEYS[1]) >= tonumber(ARGV[3]) then
    redis.call('EXPIRE', KEYS[1], ARGV[4])
    return -1
end
local rows, at = ARGV[2], 1
while at <= #rows do
    local guid, event, facts
    guid, event, facts, at = struct.unpack('>I4c0I4c0I4c0', rows, at)
    redis.call('XADD', KEYS[1], '*', 'g', guid, 'e', event, 'f', facts)
end
redis.call('EXPIRE', KEYS[1], ARGV[4])
return redis.call('SET', KEYS[2], '1', 'NX', 'PX', ARGV[1]) and 1 or 0
"""
"""All rows are one argument, each field after its length: the client takes a microsecond for each argument.

Returns 1 if no drain is requested yet, -1 if the inbox is full."""

_REPLAY = """
local row = redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1])[1]
if not row then return 0 end
local letter = {}
for i = 1, #row[2], 2 do letter[row[2][i]] = row[2][i + 1] end
redis.call('XADD', KEYS[2], '*', 'g', letter.g, 'e', letter.e, 'f', letter.f)
redis.call('XDEL', KEYS[1], ARGV[1])
redis.call('ZADD', KEYS[3], redis.call('TIME')[1], letter.g)
redis.call('EXPIRE', KEYS[3], 7200)
return 1
"""
"""A delivery that is replayed is old by nature, as one that GitHub repeats."""


_ENTRY, _LETTER = (b"g", b"e", b"f"), (b"t", b"g", b"e", b"w")
"""The fields of an entry: GUID, event, facts; of a dead letter: time, GUID, event, why."""


def _joined(row: Mapping[bytes, bytes], *names: bytes) -> bytes:
    """Joins these fields, for `_entry` and `_letter`, which reject a row that lacks a field."""
    return b"\0".join(row[name] for name in names if name in row)


def _entry(joined: bytes) -> tuple[str, str]:
    guid, event, _ = joined.split(b"\0", 2)
    return guid.decode(), event.decode()


def _letter(joined: bytes) -> tuple[str, str, str, float]:
    at, guid, event, why = joined.split(b"\0", 3)
    return guid.decode(), event.decode(), why.decode(), finite(at)


def _request(row: bytes) -> LastRequest:
    at, arrival = row.split(b" ")
    return LastRequest(finite(at), arrival.decode())


def _place(row: bytes) -> RedeliveryCursor:
    at, _, cursor = row.decode().partition(" ")
    return RedeliveryCursor(cursor, float(at))


_Waiting = tuple[bytes, bytes, bytes, asyncio.Future[Any]]
"""GUID, event and facts of a delivery, and what ends when it is stored."""


class Inbox:
    """The stream of deliveries."""

    def __init__(self, redis: Redis, ask_for_drain: Ask | None = None) -> None:
        """`ask_for_drain` is called, at most twice a second, after a delivery was stored."""
        self._redis = redis
        self._ask = ask_for_drain
        self._seen, self._ended = SeenDeliveries(redis), SeenDeliveries(redis, "jobs")
        self._read_entries = PlainReader(redis, "delivery", _entry)
        self._read_dead = PlainReader(redis, "dead-letter", _letter)
        self._read_time, self._read_cursor = (
            PlainReader(redis, "complete-until", finite),
            PlainReader(redis, "redelivery-cursor", _place),
        )
        self._read_request = PlainReader(redis, "redelivery-request", _request)
        self._read_attempts, self._read_tries = PlainReader(redis, "redelivery", int), PlainReader(redis, "tries", int)
        self._keep: Any = redis.register_script(_KEEP)
        self._replay: Any = redis.register_script(_REPLAY)
        self._waiting: list[_Waiting] = []
        self._writer: asyncio.Task[None] | None = None

    def keep(self, guid: str, event: str, facts: bytes, kept: asyncio.Future[Any] | None = None) -> asyncio.Future[Any]:
        """Begins to store a delivery; the future, `kept` or a new one, is None when it is in the stream.

        Raises:
            StoreUnavailableError: by the future: it could not be stored, and GitHub must get an error.
        """
        kept = asyncio.get_running_loop().create_future() if kept is None else kept
        self._waiting.append((guid.encode(), event.encode(), facts, kept))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write())
        return kept

    async def take(self, most: int) -> list[Entry]:
        """Returns the oldest entries; only one process may drain at a time."""
        rows: Any = await self._redis.xrange(keys.INBOX, count=most)
        found = await self._read_entries.many(keys.INBOX, {entry_id: _joined(row, *_ENTRY) for entry_id, row in rows})
        if unreadable := [entry_id for entry_id, _ in rows if entry_id not in found]:
            await self._redis.xdel(keys.INBOX, *unreadable)  # otherwise each call would return the same entries
        return [Entry(entry_id, *found[entry_id], row[b"f"]) for entry_id, row in rows if entry_id in found]

    async def without_effect(self, entries: Sequence[Entry], now: float) -> list[Entry]:
        """Returns the entries whose effects are not stored yet, one per GUID."""
        fresh = {entry.guid: entry for entry in entries}
        seen = await self._seen.among(fresh, now)
        return [entry for guid, entry in fresh.items() if guid not in seen]

    async def known(self, guids: Collection[str], now: float) -> set[str]:
        """Returns those of the GUIDs whose effects are stored, that wait to be drained, or that were given up."""
        if not guids:
            return set()
        rows: Any = await self._redis.xrange(keys.INBOX, count=MOST_SCANNED)
        dead: Any = await self._redis.xrange(keys.DEAD_LETTERS)
        waiting = {row.get(b"g", b"").decode(errors="replace") for _, row in (*rows, *dead)}
        return waiting & set(guids) | await self._seen.among(guids, now)

    async def mark_ended(self, installation: int, job_ids: Collection[int], now: float) -> None:
        """Records that the ends of these jobs had their effect. Only one process may drain at a time."""
        if not job_ids:
            return
        async with self._redis.pipeline(transaction=True) as pipe:
            await self._ended.add(pipe, {f"{installation}:{each}" for each in job_ids}, now)
            await pipe.execute()

    async def ended_jobs(self, installation: int, job_ids: Collection[int], now: float) -> set[int]:
        """Returns those of the jobs whose ends had their effect, for as long as GitHub can repeat a delivery."""
        names = {f"{installation}:{each}": each for each in job_ids}
        return {names[each] for each in await self._ended.among(names, now)}

    async def complete_until(self) -> float | None:
        """Returns until when all deliveries of GitHub's log have arrived (epoch seconds); None: never checked."""
        row: Any = await self._redis.get(keys.COMPLETE_UNTIL)
        return await self._read_time.one(keys.COMPLETE_UNTIL, row)

    async def mark_complete_until(self, at: float) -> None:
        """Records that all deliveries until then have arrived."""
        await self._redis.set(keys.COMPLETE_UNTIL, repr(at))

    async def take_cursor(self) -> RedeliveryCursor:
        """Takes the cursor where the last search of GitHub's log stopped early; `TOP` if it was complete."""
        row: Any = await self._redis.getdel(keys.REDELIVERY_CURSOR)
        return await self._read_cursor.one(keys.REDELIVERY_CURSOR, row) or TOP

    async def save_cursor(self, place: RedeliveryCursor) -> None:
        """Records the cursor where the next search continues."""
        await self._redis.set(keys.REDELIVERY_CURSOR, f"{place.at!r} {place.cursor}", ex=HOUR)

    async def plan_redeliveries(self, attempts: Sequence[int]) -> None:
        """Records the first `MOST_PLANNED` attempts that GitHub is to repeat, in place of an earlier plan."""
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.delete(keys.REDELIVERIES)
            if attempts:
                pipe.rpush(keys.REDELIVERIES, *attempts[:MOST_PLANNED])
                pipe.expire(keys.REDELIVERIES, HOUR)
            await pipe.execute()

    async def return_redeliveries(self, attempts: Sequence[int]) -> None:
        """Puts attempts that were taken and not requested back to the head of the plan, in this order."""
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.lpush(keys.REDELIVERIES, *reversed(attempts))
            pipe.expire(keys.REDELIVERIES, HOUR)
            await pipe.execute()

    async def take_redeliveries(self, most: int) -> list[int]:
        """Removes and returns the next attempts of the plan. The next search finds those lost in a crash."""
        rows: Any = await self._redis.lpop(keys.REDELIVERIES, most)
        return await self._read_attempts.members(keys.REDELIVERIES, rows or [])

    async def last_arrival(self) -> str:
        """Returns the id of the last entry that the stream ever had; `0-0` without any."""
        try:
            stream: Any = await self._redis.xinfo_stream(keys.INBOX)
        except StoreRefusedError:  # there is no stream
            return "0-0"
        last: bytes = stream["last-generated-id"]
        return last.decode()

    async def last_request(self) -> LastRequest | None:
        """Returns the last request for redeliveries within an hour."""
        row: Any = await self._redis.get(keys.REDELIVERY_REQUEST)
        return await self._read_request.one(keys.REDELIVERY_REQUEST, row)

    async def save_request(self, request: LastRequest) -> None:
        """Records a request for redeliveries that GitHub accepted."""
        await self._redis.set(keys.REDELIVERY_REQUEST, f"{request.at!r} {request.arrival}", ex=HOUR)

    async def planned_redeliveries(self) -> int:
        """Returns the number of attempts left in the plan."""
        return int(await self._redis.llen(keys.REDELIVERIES))

    async def done(
        self, entries: Sequence[Entry], now: float, counts: Mapping[str, float] = MappingProxyType({})
    ) -> list[str]:
        """Marks entries as seen, deletes them, and counts them, in one transaction, after their effects were stored.

        So a drain that breaks before, and is repeated, counts once.

        Args:
            entries: the entries.
            now: epoch seconds.
            counts: what to add to counters, by series.

        Returns:
            The series that are unreadable, to which nothing was added.
        """
        if not entries:
            return []
        async with self._redis.pipeline(transaction=True) as pipe:
            await self._seen.add(pipe, {entry.guid for entry in entries}, now)
            pipe.xdel(keys.INBOX, *[entry.id for entry in entries])
            pipe.hdel(keys.INBOX_TRIES, *[entry.id for entry in entries])
            for series, amount in counts.items():
                pipe.hincrbyfloat(keys.COUNTERS, series, amount)
            results = await pipe.execute(raise_on_error=False)
        stored = results[: len(results) - len(counts)]
        if error := next((each for each in stored if isinstance(each, FOREIGN)), None):
            raise translated(error)
        counted = results[len(stored) :]
        return [series for series, each in zip(counts, counted, strict=True) if isinstance(each, FOREIGN)]

    async def failed(self, entry: Entry, why: str, now: float) -> bool:
        """Counts a failed try; returns True if it was the last one, and the delivery is now a dead letter."""
        tries = await self._tried(entry)
        if tries < MOST_TRIES:
            return False
        async with self._redis.pipeline(transaction=True) as pipe:
            letter: Any = {"g": entry.guid, "e": entry.event, "f": entry.facts, "w": why, "t": repr(now)}
            pipe.xadd(keys.DEAD_LETTERS, letter, maxlen=MOST_DEAD, approximate=False)
            pipe.expire(keys.DEAD_LETTERS, DEAD_SECONDS)
            pipe.xdel(keys.INBOX, entry.id)
            pipe.hdel(keys.INBOX_TRIES, entry.id)
            await pipe.execute()
        return True

    async def _tried(self, entry: Entry) -> int:
        """Counts one more try; an unreadable count restarts at 1."""
        try:
            tries = int(await self._redis.hincrby(keys.INBOX_TRIES, entry.id, 1))
            await self._redis.expire(keys.INBOX_TRIES, KEPT_SECONDS)
        except StoreRefusedError:
            row: Any = await self._redis.hget(keys.INBOX_TRIES, entry.id)
            if row is None:
                raise
            await self._read_tries.one(keys.INBOX_TRIES, row, entry.id.decode())
            await self._redis.hset(keys.INBOX_TRIES, entry.id, 1)
            return 1
        return tries

    async def dead(self) -> list[DeadLetter]:
        """Returns the dead letters, oldest first."""
        rows: Any = await self._redis.xrange(keys.DEAD_LETTERS)
        found = await self._read_dead.many(
            keys.DEAD_LETTERS, {entry_id: _joined(row, *_LETTER) for entry_id, row in rows}
        )
        return [DeadLetter(entry_id.decode(), *letter) for entry_id, letter in found.items()]

    async def dead_letters(self) -> int:
        """Returns the number of dead letters."""
        return int(await self._redis.xlen(keys.DEAD_LETTERS))

    async def replay(self, letter: DeadLetter) -> bool:
        """Moves a dead letter back to the stream; returns False if another process did."""
        return bool(await self._replay(keys=[keys.DEAD_LETTERS, keys.INBOX, keys.REDELIVERED], args=[letter.id]))

    async def lag(self) -> int:
        """Returns the number of waiting deliveries."""
        return int(await self._redis.xlen(keys.INBOX))

    async def _write(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:MOST_AT_ONCE], self._waiting[MOST_AT_ONCE:]
            try:
                is_first = await self._store(batch)
            except StoreUnavailableError as error:
                self._fail(batch, error)
                continue
            except Exception as error:  # their senders get an answer in any case
                log.exception("deliveries not stored", deliveries=len(batch))
                self._fail(batch, error)
                continue
            for *_, kept in batch:
                if not kept.done():
                    kept.set_result(None)
            if is_first and self._ask is not None:
                try:
                    await self._ask()
                except StoreUnavailableError:
                    pass  # stored all the same; the next one asks again
                except Exception:
                    log.exception("drain not requested")

    async def _store(self, batch: Sequence[_Waiting]) -> bool:
        """Stores deliveries; returns True if a drain is to be requested.

        Raises:
            StoreUnavailableError: Redis does not take them, or too many wait.
        """
        rows = b"".join(len(field).to_bytes(4, "big") + field for *fields, _ in batch for field in fields)
        args = [ASKED_MILLISECONDS, rows, MOST_WAITING, KEPT_SECONDS]
        outcome = await self._keep(keys=[keys.INBOX, keys.INBOX_ASKED], args=args)
        if outcome < 0:
            raise StoreUnavailableError(f"{MOST_WAITING:,} deliveries wait, the maximum; see whether workers run")
        return bool(outcome)

    @staticmethod
    def _fail(batch: list[_Waiting], error: Exception) -> None:
        for *_, kept in batch:
            if not kept.done():
                kept.set_exception(StoreUnavailableError(f"the delivery could not be stored: {error}"))
