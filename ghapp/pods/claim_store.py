"""Pod claims: a controller declares a pod busy, until the claim is released or expires."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from redis.asyncio import Redis

from ghapp.errors import PodClaimsFullError
from ghapp.pods.pod_claim import PodClaim
from ghapp.store import keys
from ghapp.store.codec import Codec
from ghapp.store.quarantine import Member, PlainReader, RecordReader, text

MOST = 10_000
"""Maximum of claims per installation."""

SHORTEST_SECONDS, LONGEST_SECONDS = 1.0, 86_400.0
"""Limits of a claim's duration."""

_claims = Codec("pod-claim", PodClaim)

LEEWAY_SECONDS = 3_600.0
"""How long a claim is kept that expired or was released: a clock that jumped ahead does not delete valid ones, and the
reaper sees a claim that came and went between two of its ticks.
"""

_CLAIM = """
local function forget(until_at)
    for _, each in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', until_at)) do
        redis.call('HDEL', KEYS[1], each)
        redis.call('ZREM', KEYS[2], each)
    end
end
local now, pod, row, expires_at, most, kept_for = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6]
forget(ARGV[7])
if redis.call('HLEN', KEYS[1]) >= most then forget(now) end
if redis.call('HEXISTS', KEYS[1], pod) == 0 and redis.call('HLEN', KEYS[1]) >= most then return 0 end
local former = redis.call('ZSCORE', KEYS[2], pod)
local is_new = (not former or tonumber(former) <= tonumber(now)) and 1 or 0
redis.call('HSET', KEYS[1], pod, row)
redis.call('ZADD', KEYS[2], expires_at, pod)
redis.call('EXPIRE', KEYS[1], kept_for)
redis.call('EXPIRE', KEYS[2], kept_for)
return 1 + is_new
"""

_RELEASE = """
local expires_at = redis.call('ZSCORE', KEYS[2], ARGV[1])
if not expires_at or tonumber(expires_at) <= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[2], ARGV[2], ARGV[1])
return 1
"""

_ALL = """
local found = {}
local live = redis.call('ZRANGEBYSCORE', KEYS[2], ARGV[1], '+inf', 'WITHSCORES')
for i = 1, #live, 2 do
    local row = redis.call('HGET', KEYS[1], live[i])
    if row then
        for _, each in ipairs({live[i], live[i + 1], row}) do found[#found + 1] = each end
    end
end
return found
"""


class PodClaims:
    """The pod claims of all installations.

    Args:
        redis: the client.
        clock: epoch seconds; decides which claims have expired when the store is full.
    """

    def __init__(self, redis: Redis, clock: Callable[[], float] = time.time) -> None:
        self._redis, self._clock, self._read = redis, clock, RecordReader(redis, _claims)
        self._read_pods = PlainReader(redis, "claimed-pod", text)
        self._claim: Any = redis.register_script(_CLAIM)
        self._release: Any = redis.register_script(_RELEASE)
        self._all: Any = redis.register_script(_ALL)

    async def claim(self, installation: int, pod: str, runner_name: str, job_id: int | None, expires_at: float) -> bool:
        """Claims a pod; replaces an earlier claim. Returns False if there was one.

        Raises:
            PodClaimsFullError: there are 10,000 other claims that have not expired.
        """
        now = self._clock()
        claim = PodClaim(pod, runner_name, job_id, min(expires_at, now + LONGEST_SECONDS), now)
        # Both keys expire when no pod is claimed any more: a claim lasts a day at most.
        kept_for = int(LONGEST_SECONDS) + 60
        args: list[str | bytes | float] = [
            now,
            pod,
            _claims.encode(claim),
            claim.expires_at,
            MOST,
            kept_for,
            now - LEEWAY_SECONDS,
        ]
        if not (claimed := await self._claim(keys=_keys(installation), args=args)):
            raise PodClaimsFullError(f"{MOST:,} pods are claimed, the maximum; release claims of finished pods")
        return bool(claimed > 1)

    async def is_claimed(self, installation: int, pod: str) -> bool:
        """True if there is a claim of this pod, be it expired."""
        return bool(await self._redis.hexists(keys.pod_claims(installation), pod))

    async def release(self, installation: int, pod: str) -> bool:
        """Releases a claim: it expires now. Returns False if there was none that had not expired."""
        return bool(await self._release(keys=_keys(installation), args=[pod, self._clock()]))

    async def all(self, installation: int, now: float) -> list[PodClaim]:
        """Returns all claims valid at `now`; deletes none, because `now` may come from a clock that jumped."""
        return await self._held(installation, f"({now}")

    async def stored(self, installation: int) -> list[PodClaim]:
        """Returns all stored claims, including expired ones, for callers that cache them and check expiry later."""
        return await self._held(installation, "-inf")

    async def _held(self, installation: int, after: str) -> list[PodClaim]:
        """Returns claims that expire after a time. A claim with an unreadable record protects the pod of its name."""
        found: Any = await self._all(keys=_keys(installation), args=[after])
        names = await self._read_pods.many(
            keys.pod_claim_expiries(installation), {Member(pod): pod for pod in found[::3]}
        )
        held = [
            (names[pod], at, row)
            for pod, at, row in zip(found[::3], found[1::3], found[2::3], strict=True)
            if pod in names
        ]
        expiries = {pod: float(at) for pod, at, _ in held}
        rows = {pod: row for pod, _, row in held}
        records = await self._read.many(keys.pod_claims(installation), rows)
        # A claim that was released expired before the time that its record has.
        return [
            (records.get(pod) or PodClaim(pod, pod, None, expiry))._replace(expires_at=expiry)
            for pod, expiry in expiries.items()
        ]


def _keys(installation: int) -> list[str]:
    return [keys.pod_claims(installation), keys.pod_claim_expiries(installation)]
