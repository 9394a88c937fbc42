"""What is known of how complete deliveries are: when they arrive, GitHub's delivery log, and the age of the inbox.

Which deliveries have taken effect, by a hash of their GUID, for three days; and, likewise, which jobs have ended.

Redis keeps a set of integers in 8 bytes each while the set is small, and a set of GUIDs in some 80 each. A fleet of
10,000 ephemeral runners with a job a day has 90,000 deliveries in three days: more bytes than its records had. So each
quarter of a day has 32 small sets, and 32 more whenever those are full. A delivery is 69 bits of its GUID's hash, set
and integer together: of ten million marked deliveries, one new delivery in 10^13 would be mistaken for one of them. The
GUID's own bits are not spread evenly: it begins with a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from math import ceil
from typing import Any

from redis.asyncio import Redis

from ghapp.runners.delivery_lag import DeliveryArrivals, DeliveryFacts, DeliveryLog
from ghapp.store import keys
from ghapp.store.codec import Codec
from ghapp.store.quarantine import PlainReader, RecordReader, finite

KEPT_SECONDS = 30 * 86_400
"""How long the store keeps when an installation's deliveries came. After a longer time without any delivery, and
without new work at GitHub, none are expected.
"""

REDELIVERED_SECONDS = 7200
"""How long a missing delivery is known by its GUID since GitHub's log had it: twice as long as an absence waits."""

MOST_REDELIVERED = 20_000
"""Missing deliveries that are known by their GUID, the latest."""

_arrivals = Codec("delivery-arrivals", DeliveryArrivals)
_log = Codec("delivery-log", DeliveryLog)


class DeliveryStatus:
    """The facts of all installations from which `health.delivery_lag` judges their deliveries."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._read_arrivals, self._read_log = RecordReader(redis, _arrivals), RecordReader(redis, _log)
        self._read_date = PlainReader(redis, "delivery-expected", finite)

    async def facts(self, installations: Sequence[int]) -> dict[int, DeliveryFacts]:
        """Returns the facts of these installations in one round trip."""
        named = [keys.delivery_arrivals(each) for each in installations]
        expected = [keys.delivery_expected(each) for each in installations]
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.xrange(keys.INBOX, count=1)
            pipe.time()
            pipe.get(keys.DELIVERY_LOG)
            if named:
                pipe.mget([*named, *expected])
            oldest, time, row, *rows = await pipe.execute()
        log = await self._read_log.one(keys.DELIVERY_LOG, row) or DeliveryLog()
        backlog = max(0.0, redis_seconds(time) - arrived_at(oldest[0][0])) if oldest else 0.0
        found = {}
        for installation, key, other, row, date in (
            zip(installations, named, expected, rows[0][: len(named)], rows[0][len(named) :], strict=True)
            if named
            else ()
        ):
            arrivals = await self._read_arrivals.one(key, row) or DeliveryArrivals()
            expected_at = await self._read_date.one(other, date)
            found[installation] = DeliveryFacts(installation, arrivals, log, backlog, expected_at)
        return found

    async def expect(self, installation: int, at: float) -> None:
        """Records since when a delivery must have come, and keeps what is known. The next arrival ends that."""
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.set(keys.delivery_expected(installation), repr(at), ex=KEPT_SECONDS)
            pipe.expire(keys.delivery_arrivals(installation), KEPT_SECONDS)
            await pipe.execute()

    async def arrivals(self, installations: Collection[int]) -> dict[int, DeliveryArrivals]:
        """Returns what is known of the deliveries of these installations, by one command."""
        named = {keys.delivery_arrivals(each): each for each in installations}
        rows: Any = await self._redis.mget([*named]) if named else []
        read = {key: await self._read_arrivals.one(key, row) for key, row in zip(named, rows, strict=True)}
        return {installation: read[key] or DeliveryArrivals() for key, installation in named.items()}

    async def save_arrivals(self, arrivals: Mapping[int, DeliveryArrivals]) -> None:
        """Records it by installation. Only one process at a time may: the one that drains."""
        async with self._redis.pipeline(transaction=False) as pipe:
            for installation, known in arrivals.items():
                pipe.set(keys.delivery_arrivals(installation), _arrivals.encode(known), ex=KEPT_SECONDS)
            await pipe.execute()

    async def log(self) -> DeliveryLog:
        """Returns GitHub's delivery log as it was last read."""
        row: Any = await self._redis.get(keys.DELIVERY_LOG)
        return await self._read_log.one(keys.DELIVERY_LOG, row) or DeliveryLog()

    async def save_log(self, log: DeliveryLog) -> None:
        """Records it. Only the holder of the log's lock may."""
        await self._redis.set(keys.DELIVERY_LOG, _log.encode(log))

    async def mark_missing(self, guids: Collection[str], now: float) -> None:
        """Records that these deliveries failed: when they come after all, their age says nothing of others."""
        if not guids:
            return
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.zadd(keys.REDELIVERED, dict.fromkeys(guids, now))
            pipe.zremrangebyscore(keys.REDELIVERED, "-inf", now - REDELIVERED_SECONDS)
            pipe.zremrangebyrank(keys.REDELIVERED, 0, -MOST_REDELIVERED - 1)
            pipe.expire(keys.REDELIVERED, REDELIVERED_SECONDS)
            await pipe.execute()

    async def were_missing(self, guids: Collection[str]) -> set[str]:
        """Returns those of the GUIDs that were recorded as missing within the last two hours."""
        asked = [*guids]
        if not asked:
            return set()
        scores: Any = await self._redis.zmscore(keys.REDELIVERED, asked)
        return {guid for guid, score in zip(asked, scores, strict=True) if score is not None}

    async def redis_time(self) -> float:
        """Returns the time by Redis' clock, which dates the entries of the inbox."""
        return redis_seconds(await self._redis.time())


def arrived_at(entry_id: bytes) -> float:
    """Returns when a delivery was stored in the inbox (epoch seconds by Redis' clock)."""
    return int(entry_id.split(b"-")[0]) / 1000


def redis_seconds(time: Any) -> float:
    """Returns the answer of TIME, seconds and microseconds, as epoch seconds."""
    return float(time[0]) + float(time[1]) / 1e6


HOUR = 3600
SEEN_SECONDS = 3 * 24 * HOUR
"""GitHub keeps deliveries for three days; an older one cannot be sent again."""

WINDOW_SECONDS = 6 * HOUR
"""A window expires as a whole, three days after its end."""

PARTS = 32
FULL = 400 * PARTS
"""Deliveries in the sets of a level. Redis keeps at most 512 integers in 8 bytes each; more deliveries are in the sets
of the next level."""

_BACK = -(-SEEN_SECONDS // WINDOW_SECONDS)


class SeenDeliveries:
    """The GUIDs of deliveries whose effects are stored. Only one process at a time may add."""

    def __init__(self, redis: Redis, kind: str = "") -> None:
        """`kind` is of what is marked, if not deliveries by their GUIDs."""
        self._redis, self._kind, self._read_count = redis, kind, PlainReader(redis, "seen-count", int)

    async def add(self, pipe: Any, guids: Collection[str], now: float) -> None:
        """Adds to a pipeline what marks these GUIDs as seen at `now` (epoch seconds)."""
        window = int(now // WINDOW_SECONDS)
        lasts = ceil((window + 1) * WINDOW_SECONDS + SEEN_SECONDS - now)
        (count,) = (await self._counts([window])).values()
        for part, numbers in _by_part(guids).items():
            key = keys.seen(self._kind, window, count // FULL, part)
            pipe.sadd(key, *numbers)
            pipe.expire(key, lasts)
        pipe.set(keys.seen_count(self._kind, window), count + len(guids), ex=lasts)

    async def among(self, guids: Collection[str], now: float) -> set[str]:
        """Returns those of the GUIDs that are marked as seen, in three round trips."""
        if not guids:
            return set()
        window, parts = int(now // WINDOW_SECONDS), _by_part(guids)
        counts = await self._counts([window - back for back in range(_BACK + 1)])
        levels = [(each, level) for each, count in counts.items() if count for level in range(count // FULL + 1)]
        async with self._redis.pipeline(transaction=False) as pipe:
            for part, numbers in parts.items():
                for each, level in levels:
                    pipe.smismember(keys.seen(self._kind, each, level, part), [*numbers])
            answers = iter(await pipe.execute())
        found = set[str]()
        for numbers in parts.values():
            for _ in levels:
                members = zip(numbers.values(), next(answers), strict=True)
                found.update(guid for guid, is_member in members if is_member)
        return found

    async def _counts(self, windows: Sequence[int]) -> dict[int, int]:
        """Returns how many deliveries were marked in each of these windows."""
        rows: Any = await self._redis.mget([keys.seen_count(self._kind, each) for each in windows])
        by_key = zip(windows, rows, strict=True)
        return {each: await self._read_count.one(keys.seen_count(self._kind, each), row) or 0 for each, row in by_key}


def _by_part(guids: Iterable[str]) -> dict[int, dict[int, str]]:
    """Returns the GUIDs by the set that has them, and by the integer that stands for them there."""
    found: dict[int, dict[int, str]] = defaultdict(dict)
    for guid in guids:
        digest = blake2b(guid.encode(), digest_size=9).digest()
        found[digest[0] % PARTS][int.from_bytes(digest[1:], signed=True)] = guid
    return found
