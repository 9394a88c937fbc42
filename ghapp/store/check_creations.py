"""How many check runs were created lately: GitHub permits 80 creations of content a minute, and 500 an hour.

One count for each installation, over all kinds of check runs and all processes. What exceeds it gets a 403 with a wait
for all requests; so it is not sent. Less useful kinds stop earlier, so that they leave room for the others.
"""

from __future__ import annotations

from typing import Any

from redis.asyncio import Redis

from ghapp.store import keys

A_MINUTE, AN_HOUR = 75, 480
"""Creations; a little below GitHub's limits, because its clock and ours differ."""

MINUTE_SECONDS, HOUR_SECONDS = 60.0, 3600.0

_TAKE = """
local now, share, id = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.17g', now - 3600))
redis.call('ZREMRANGEBYSCORE', KEYS[1], string.format('(%.17g', now + 60), '+inf')
local hour = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
local count, first = #hour / 2, nil
local function free_at(most, lasts)
    if count < most then return nil end
    local at = tonumber(hour[2 * (count - most + 1)]) + lasts
    return at > now and at or nil
end
local minute = free_at(math.floor(A_MINUTE * share), 60)
local later = free_at(math.floor(AN_HOUR * share), 3600) or minute
if later then return string.format('%.17g', later - now) end
redis.call('ZADD', KEYS[1], ARGV[1], id)
redis.call('EXPIRE', KEYS[1], 3600)
return '0'
"""


class CheckCreations:
    """The creations of all installations."""

    def __init__(self, redis: Redis) -> None:
        script = _TAKE.replace("A_MINUTE", str(A_MINUTE)).replace("AN_HOUR", str(AN_HOUR))
        self._take: Any = redis.register_script(script)

    async def take(self, installation: int, creation_id: str, share: float, now: float) -> float:
        """Counts a creation, and returns 0; if too many were counted lately, returns the seconds until there is room.

        Args:
            installation: the installation.
            creation_id: identifies it: a repetition of the same creation is counted once.
            share: of the limits, up to 1, that this kind of check run may use.
            now: epoch seconds.
        """
        row: Any = await self._take(keys=[keys.creations(installation)], args=[repr(now), repr(share), creation_id])
        return float(row)
