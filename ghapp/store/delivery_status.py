"""What is known of how complete deliveries are: when they arrive, GitHub's delivery log, and the age of the inbox."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
