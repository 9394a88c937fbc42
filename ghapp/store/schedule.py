"""When each installation's next sweep is due."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from redis.asyncio import Redis

from ghapp.store import keys
from ghapp.store.quarantine import Member, PlainReader, finite

FAR_SECONDS = 7200.0
"""No sweep waits longer than GitHub's hour: a later date was written by a clock that had jumped, and counts as due."""

_TAKE = """
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'WITHSCORES', 'LIMIT', 0, ARGV[4])
if #due == 0 then due = redis.call('ZRANGEBYSCORE', KEYS[1], ARGV[3], '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[4]) end
for i = 1, #due, 2 do redis.call('ZADD', KEYS[1], ARGV[1] + ARGV[2], due[i]) end
return due
"""


_PUT_OFF = """
for i = 2, #ARGV, 2 do
    local at = redis.call('ZSCORE', KEYS[1], ARGV[i])
    local is_unchanged = at and math.abs(tonumber(at) - tonumber(ARGV[i + 1])) < 0.001
    if is_unchanged then redis.call('ZADD', KEYS[1], 'GT', ARGV[1], ARGV[i]) end
end
"""


class Schedule:
    """The next sweep of each installation. A due sweep is given to one job only, and postponed at once."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._read_time, self._read_due = PlainReader(redis, "discovery", finite), PlainReader(redis, "due-sweep", int)
        self._take: Any = redis.register_script(_TAKE)
        self._put_off: Any = redis.register_script(_PUT_OFF)

    async def due_at(self, installation: int, at: float) -> None:
        """Sets when the next sweep of an installation is due (epoch seconds), unless the installation was removed."""
        await self._redis.zadd(keys.DUE, {str(installation): at}, xx=True)

    async def due_by(self, installation: int, at: float) -> None:
        """Makes the next sweep due at `at` (epoch seconds) if it is due later: who asks for one puts none off."""
        await self._redis.zadd(keys.DUE, {str(installation): at}, xx=True, lt=True)

    async def put_off(self, dates: Mapping[int, float], until: float) -> None:
        """Makes sweeps due at `until` (epoch seconds) that are still due at these dates; others have set theirs."""
        args = [repr(until), *(part for each, at in dates.items() for part in (each, repr(at)))]
        await self._put_off(keys=[keys.DUE], args=args)

    async def next(self, installation: int) -> float | None:
        """Returns when the next sweep is due (epoch seconds); None if the installation is not swept."""
        at: Any = await self._redis.zscore(keys.DUE, str(installation))
        return at if at is None else float(at)

    async def add(self, installation: int, at: float) -> None:
        """Adds a new installation, whose first sweep is due at `at`; does not change one that is scheduled."""
        await self._redis.zadd(keys.DUE, {str(installation): at}, nx=True)

    async def all(self) -> dict[int, float]:
        """Returns when the next sweep of each installation is due (epoch seconds); those not swept are missing."""
        rows: Any = await self._redis.zrange(keys.DUE, 0, -1, withscores=True)
        ids = await self._read_due.many(keys.DUE, {Member(row): row for row, _ in rows})
        return {ids[row]: float(at) for row, at in rows if row in ids}

    async def discover_at(self, at: float) -> None:
        """Sets when GitHub is next asked for all installations (epoch seconds)."""
        await self._redis.set(keys.DISCOVERY, repr(at))

    async def next_discovery(self) -> float | None:
        """Returns when GitHub is next asked for all installations (epoch seconds); None if unknown."""
        at: Any = await self._redis.get(keys.DISCOVERY)
        return await self._read_time.one(keys.DISCOVERY, at)

    async def remove(self, installation: int) -> None:
        """Removes an installation, which is no longer swept."""
        await self._redis.zrem(keys.DUE, str(installation))

    async def is_any_due(self, now: float) -> bool:
        """True if a sweep is due at `now` (epoch seconds)."""
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.zcount(keys.DUE, "-inf", now)
            pipe.zcount(keys.DUE, now + FAR_SECONDS, "+inf")
            return any(await pipe.execute())

    async def take_due(self, now: float, put_off_seconds: float, most: int) -> dict[int, float]:
        """Returns the due installations, the longest due first, each with its due time, and postpones them.

        Their sweeps set another time.

        Args:
            now: epoch seconds.
            put_off_seconds: for how long they are not due again.
            most: how many to return.
        """
        rows = await self._take(keys=[keys.DUE], args=[now, put_off_seconds, now + FAR_SECONDS, most])
        since = dict(zip(rows[::2], rows[1::2], strict=True))
        ids = await self._read_due.many(keys.DUE, {Member(row): row for row in since})
        return {ids[row]: float(at) for row, at in since.items() if row in ids}
