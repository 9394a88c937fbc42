"""Token buckets that all processes share: a burst at once, then a number per hour.

For what costs calls of GitHub's budget: a limit of each web process would grow with their number. A bucket is the time
when it is full again. `web.rate_limit` is the same for one process.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from redis.asyncio import Redis

from ghapp.store import keys

_GRANT = """
local now, burst, refill = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local latest = now + burst * refill
local full_at = tonumber(redis.call('GET', KEYS[1]) or '') or now
full_at = math.min(math.max(full_at, now), latest)
local granted = full_at + refill <= latest + 0.0001
if granted then full_at = full_at + refill end
redis.call('SET', KEYS[1], string.format('%.6f', full_at), 'PX', math.ceil((burst + 1) * refill * 1000))
return granted and 1 or 0
"""


class BucketSize(NamedTuple):
    """How many are granted at once from a full bucket, and how many an hour after that."""

    at_once: int
    an_hour: int


class SharedRateLimits:
    """The buckets of all installations."""

    def __init__(self, redis: Redis) -> None:
        self._grant: Any = redis.register_script(_GRANT)

    async def grant_look(self, installation: int, size: BucketSize, now: float) -> bool:
        """Takes one look for `…/alive` from an installation's bucket, at `now` (epoch seconds); False if it is empty.

        A clock that jumps back waits no longer than the bucket takes to fill.
        """
        args = [repr(now), size.at_once, repr(3600 / size.an_hour)]
        return bool(await self._grant(keys=[keys.alive_looks(installation)], args=args))
