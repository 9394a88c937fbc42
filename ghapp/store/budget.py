"""The API budget of each installation, shared by all processes, and token buckets for what costs calls of it.

One script admits a call, another records its answer. Both are atomic, so that two processes never spend the same last
call. Times are epoch seconds by our clock, but GitHub's reset is by GitHub's clock; the skew is measured by the `Date`
header of each answer.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from redis.asyncio import Redis

from ghapp.errors import BudgetSpentError, SpentLimit
from ghapp.installations.pacing import MOST_IN_FLIGHT, Allowance, CallLimits
from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.installations.rate_limit import FAR_SECONDS, http_date
from ghapp.store import keys
from ghapp.store.metric_counters import COUNT, history_field, other_history_field
from ghapp.store.quarantine import PlainReader, finite

FLIGHT_SECONDS = 60.0
"""Time after which a call of a crashed process no longer counts as in flight; no call takes longer."""

TURN_LASTS_SECONDS = 60.0
"""A turn that is not taken so long is given to others."""

POINTS_WAIT_SECONDS = 0.5
"""How often a call without a turn tries again while the minute's points are spent."""

LEAST_WAIT_SECONDS = 0.05
"""Minimum wait, so that a rounding error of a billionth of a point does not cause a busy loop."""

_COUNT = re.compile(r"[0-9]{1,15}")
"""A number that Lua holds exactly. `str.isdigit` accepts others than 0 to 9, which end the script with an error."""

COST_LASTS_SECONDS = 2 * 3600.0
"""How long the expected cost of a scope's sweeps counts: a stretched sweep waits for the next hour at most."""

LIMIT_FIELDS = [b"held", b"limit", b"used", b"reset", b"skew"]

_ENTER = """
local now, share, points = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local row = {}
local flat = redis.call('HGETALL', KEYS[1])
for i = 1, #flat, 2 do row[flat[i]] = tonumber(flat[i + 1]) end
local held_for = (row.held or 0) - now
if held_for > 0 and held_for <= tonumber(ARGV[8]) then return {'held', tostring(held_for)} end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
local flights = redis.call('ZCARD', KEYS[2])
local resets_in = (row.reset or 0) - now - (row.skew or 0)
local known = row.used and row.limit -- false for an unreadable value
if known and resets_in > 0 and resets_in <= tonumber(ARGV[8]) and row.used + flights + 1 > row.limit * share then
    return {'spent', tostring(resets_in)}
end
if flights >= tonumber(ARGV[6]) then return {'in-flight', ARGV[9]} end
local second, spent, left_at = math.floor(now), 0, {}
for name, bucket in pairs(row) do
    local at = string.find(name, '^s%d') and math.floor(bucket / 1000)
    if at and at < second - 60 then redis.call('HDEL', KEYS[1], name)
    elseif at and at <= second then
        spent = spent + bucket % 1000
        left_at[at + 61] = bucket % 1000
    end
end
local most, turn, ahead = tonumber(ARGV[7]), ARGV[10], 0
if turn ~= '' then
    redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', string.format('%.17g', now - ARGV[11]))
    local own = redis.call('ZSCORE', KEYS[3], turn)
    ahead = own and redis.call('ZCOUNT', KEYS[3], '-inf', '(' .. own) or redis.call('ZCARD', KEYS[3])
end
local missing = spent + points * (1 + ahead) - most
if missing > 0 and turn == '' then return {'points', ARGV[12]} end
if missing > 0 then
    local later = 0
    while missing > spent and points <= most do
        missing = missing - math.floor(most / points) * points
        later = later + 61
    end
    local at = second + 1
    for each = second + 1, second + 61 do
        if missing <= 0 then break end
        missing = missing - (left_at[each] or 0)
        at = each
    end
    redis.call('ZADD', KEYS[3], at + later, turn)
    redis.call('EXPIRE', KEYS[3], math.ceil(redis.call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')[2] - now + ARGV[11]))
    return {'turn', tostring(at + later - now)}
end
if turn ~= '' then redis.call('ZREM', KEYS[3], turn) end
local field = 's' .. second % 61
local bucket = row[field]
local before = bucket and math.floor(bucket / 1000) == second and bucket % 1000 or 0
redis.call('HSET', KEYS[1], field, string.format('%.0f', second * 1000 + before + points))
redis.call('ZADD', KEYS[2], now + tonumber(ARGV[5]), ARGV[4])
return {'go', '0'}
"""

_LEAVE = (
    COUNT
    + """
redis.call('ZREM', KEYS[2], ARGV[1])
if ARGV[2] == '' then return end
local reset = tonumber(redis.call('HGET', KEYS[1], 'reset') or '0') or 0
local used = tonumber(redis.call('HGET', KEYS[1], 'used') or '0') or 0
local believable = reset - tonumber(ARGV[5]) - tonumber(ARGV[7]) <= tonumber(ARGV[6])
if believable and tonumber(ARGV[4]) < reset then return end
if tonumber(ARGV[4]) == reset and tonumber(ARGV[3]) < used then return end
local spent = tonumber(ARGV[3])
if reset == 0 then spent = math.min(spent, 1)
elseif math.abs(tonumber(ARGV[4]) - reset) < 600 then spent = spent - used end
if spent > 0 then count(KEYS[3], ARGV[8], ARGV[9], spent) end
redis.call('HSET', KEYS[1], 'limit', ARGV[2], 'used', ARGV[3], 'reset', ARGV[4], 'skew', ARGV[7])
"""
)
"""Answers may arrive out of order: within one hour the largest `used` is the latest.

The calls that GitHub charged since the answer before are counted for the history. Of the first hour ever only the
calls since the first answer are; calls at the end of an hour whose answers came after its reset are not."""

_LIMITS = """
local rows = {}
for number, key in ipairs(KEYS) do rows[number] = redis.call('HMGET', key, unpack(ARGV)) end
return rows
"""
"""One answer for many installations: redis-py takes longer to read an answer than Redis to give it."""

_HOLD = """
local held = tonumber(redis.call('HGET', KEYS[1], 'held') or '0') or 0
if tonumber(ARGV[1]) > held then redis.call('HSET', KEYS[1], 'held', ARGV[1]) end
"""


class SweepCost(NamedTuple):
    """The expected cost of a scope's sweeps.

    Attributes:
        calls_an_hour: if no sweep is stretched.
        at: when that was expected (epoch seconds).
    """

    calls_an_hour: float
    at: float


def _sweep_cost(row: bytes) -> SweepCost:
    calls_an_hour, at = row.split()
    return SweepCost(finite(calls_an_hour), finite(at))


class Budget:
    """The API budgets of all installations."""

    def __init__(self, redis: Redis, clock: Callable[[], float] = time.time) -> None:
        self._redis, self._clock = redis, clock
        self._read = PlainReader(redis, "budget", finite)
        self._read_costs = PlainReader(redis, "sweep-cost", _sweep_cost)
        self._enter: Any = redis.register_script(_ENTER)
        self._leave: Any = redis.register_script(_LEAVE)
        self._hold: Any = redis.register_script(_HOLD)
        self._limits: Any = redis.register_script(_LIMITS)

    async def enter(self, installation: int, limits: CallLimits, points: int) -> str:
        """Waits for admission of one call; returns its flight id, which must be passed to `leave`.

        Args:
            installation: the installation whose limits apply.
            limits: how much of the installation's limits this call may use up.
            points: the call's cost in the points per minute of GitHub's secondary limit.

        Raises:
            BudgetSpentError: the call may not be sent before the reset, or before the wait ends that GitHub asked for.
        """
        flight, patience = secrets.token_hex(8), limits.patience_seconds
        fixed = [flight, FLIGHT_SECONDS, MOST_IN_FLIGHT, limits.points_a_minute, FAR_SECONDS, LEAST_WAIT_SECONDS]
        fixed += [limits.turn, TURN_LASTS_SECONDS, POINTS_WAIT_SECONDS]
        while True:
            where = [keys.budget(installation), keys.flights(installation), keys.turns(installation)]
            outcome, wait = await self._enter(keys=where, args=[repr(self._clock()), limits.share, points, *fixed])
            match outcome, float(wait):
                case b"go", _:
                    return flight
                case b"in-flight" | b"points", seconds if patience > 0:
                    await asyncio.sleep(seconds)
                    patience -= seconds
                case limit, seconds:
                    limit = SpentLimit.SHARE if limit == b"spent" else SpentLimit(limit.decode())
                    raise BudgetSpentError(_why(limit, seconds, limits), limit, seconds)

    async def leave(self, installation: int, flight: str, headers: Mapping[str, str]) -> None:
        """Ends a call, and records its answer's `x-ratelimit-*` headers; they change nothing if one is no count."""
        limit, used, reset = (headers.get(f"x-ratelimit-{name}", "") for name in ("limit", "used", "reset"))
        is_complete = all(_COUNT.fullmatch(each) for each in (limit, used, reset))
        values = [limit, used, reset] if is_complete else ["", "", ""]
        now = self._clock()
        args = [flight, *values, repr(now), FAR_SECONDS, repr(skew(headers.get("date", ""), now))]
        named = [keys.budget(installation), keys.flights(installation), keys.history_counts(installation)]
        await self._leave(
            keys=named, args=[*args, history_field(now, "calls", ALL_POOLS), other_history_field(now, "calls")]
        )

    async def share_with_others(self, installation: int, scope: int, calls_an_hour: float, now: float) -> float:
        """Records the calls that a scope's sweeps are expected to make an hour; returns those of the other scopes.

        Args:
            installation: whose limit they share.
            scope: the scope's id.
            calls_an_hour: if no sweep was stretched.
            now: epoch seconds.
        """
        key = keys.sweep_costs(installation)
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.hset(key, str(scope), f"{calls_an_hour:.3f} {now!r}")
            pipe.expire(key, int(COST_LASTS_SECONDS))
            pipe.hgetall(key)
            *_, rows = await pipe.execute()
        known = await self._read_costs.many(key, rows)
        old = [each for each, cost in known.items() if not 0 <= now - cost.at <= COST_LASTS_SECONDS]
        if old:
            await self._redis.hdel(key, *old)
        return sum(cost.calls_an_hour for each, cost in known.items() if each not in {*old, str(scope).encode()})

    async def hold(self, installation: int, seconds: float) -> None:
        """Stops all calls of the installation for a time, as GitHub asked, and at most for `FAR_SECONDS`."""
        until = self._clock() + min(seconds, FAR_SECONDS)
        await self._hold(keys=[keys.budget(installation)], args=[repr(until)])

    async def left(self, installation: int, now: float) -> Allowance:
        """Returns GitHub's last rate limit as of `now`; a full one if its reset has passed."""
        return (await self.left_of([installation], now))[installation]

    async def left_of(self, installations: Sequence[int], now: float) -> dict[int, Allowance]:
        """Returns the last rate limit of each of these installations as `left` does, by one command."""
        answers = await self._limits(keys=[keys.budget(each) for each in installations], args=LIMIT_FIELDS)
        return {
            each: await self._allowance(keys.budget(each), values, now)
            for each, values in zip(installations, answers, strict=True)
        }

    async def _allowance(self, key: str, values: Sequence[bytes | None], now: float) -> Allowance:
        found = {name: value for name, value in zip(LIMIT_FIELDS, values, strict=True) if value is not None}
        row = await self._read.many(key, found)
        held_for = _ahead(row.get(b"held", 0.0), now)
        if not {b"limit", b"used", b"reset", b"skew"} <= row.keys():
            return Allowance(held_for=held_for)
        resets_in = _ahead(row[b"reset"] - row[b"skew"], now)
        used = int(row[b"used"]) if resets_in > 0 else 0
        return Allowance(limit=int(row[b"limit"]), used=used, resets_in=resets_in, held_for=held_for)


def _why(limit: SpentLimit, seconds: float, limits: CallLimits) -> str:
    """Returns the message of a refusal; `seconds` until the call may be sent."""
    match limit:
        case SpentLimit.HELD:
            return f"GitHub's rate limit: requests may resume in {seconds:.0f} s"
        case SpentLimit.SHARE:
            return f"the share of the hourly limit is spent; it resets in {seconds:.0f} s"
        case SpentLimit.TURN:
            return f"GitHub's {limits.points_a_minute} points of a minute are spent; its turn comes in {seconds:.0f} s"
        case SpentLimit.POINTS:
            waited = f"none were free within {limits.patience_seconds:.0f} s"
            return f"GitHub's {limits.points_a_minute} points of a minute are spent; {waited}"
        case _:
            return f"{MOST_IN_FLIGHT} calls are in flight; none ended within {limits.patience_seconds:.0f} s"


def skew(date: str, now: float) -> float:
    """Returns by how many seconds the clock of an answer's `Date` is ahead of ours; 0 without a valid date."""
    sent_at = http_date(date)
    return 0.0 if sent_at is None else sent_at - now


def _ahead(at: float, now: float) -> float:
    return at - now if 0 < at - now <= FAR_SECONDS else 0.0


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
    """The buckets of all installations.

    A burst at once, then a number per hour: a limit of each web process would grow with their number. A bucket is the
    time when it is full again. `web.rate_limit` is the same for one process.
    """

    def __init__(self, redis: Redis) -> None:
        self._grant: Any = redis.register_script(_GRANT)

    async def grant_look(self, installation: int, size: BucketSize, now: float) -> bool:
        """Takes one look for `…/alive` from an installation's bucket, at `now` (epoch seconds); False if it is empty.

        A clock that jumps back waits no longer than the bucket takes to fill.
        """
        args = [repr(now), size.at_once, repr(3600 / size.an_hour)]
        return bool(await self._grant(keys=[keys.alive_looks(installation)], args=args))
