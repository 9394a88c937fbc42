"""Incidents of the last month, the history of each pool, and the last sweep whose judgement still holds.

The history has steps of five minutes for a week and of an hour for 90 days, in two layers. What happens between sweeps
(a job was taken, a runner died, a call was spent) is added to the counts by the script that records it, so that a crash
neither loses nor doubles it. A sweep adds its sample, and raises the counts of each step to those of the first layer;
an hour is joined again from its twelve steps. Both may be repeated.

What may be wrong: a sweep that is killed after its transaction is repeated, and its gauges are then sampled twice in
one step; one that is killed before it loses the samples that it was to repeat. Both change a mean, never a count. Two
sweeps of one installation at once, which their lock prevents, may drop a sample of each other, and no count. After a
clock was set back, a step that is counted again keeps the higher count. A death is counted under the cause that was
recorded first.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby, product
from math import ceil
from typing import Any

from redis.asyncio import Redis

from ghapp.errors import StoreUnavailableError
from ghapp.incidents.fold import INCIDENT_KEPT_SECONDS, IncidentsById, outdated
from ghapp.incidents.history import (
    HOUR_SECONDS,
    KEPT_SECONDS,
    MOST_POOLS,
    STEP_SECONDS,
    HistorySample,
    HistoryStep,
    add_count,
    at_least,
    folded,
    joined,
    paused_steps,
    repeated,
    sampled,
    step_of,
)
from ghapp.incidents.incident import LossEnd, LossIncident
from ghapp.incidents.settled import Settled
from ghapp.installations.pool_matching import ALL_POOLS, OTHER_POOL
from ghapp.remediation.fuse import FuseReason, Position
from ghapp.runners.verdict import Reason
from ghapp.store import keys
from ghapp.store.codec import Codec
from ghapp.store.compare_and_set import ATTEMPTS, RecordWriter
from ghapp.store.metric_counters import parsed
from ghapp.store.quarantine import PlainReader, RecordReader

MOST_BYTES = 4 * 1024 * 1024
"""Maximum size of an installation's incidents; one lost runner takes 100 to 200 bytes."""

_incidents = Codec(
    "incident",
    LossIncident,
    unknown={
        LossEnd: LossEnd.UNKNOWN,
        Reason: Reason.REGISTRATION_INVALIDATED,
        Position: Position.STOPPED,
        FuseReason: FuseReason.NONE,
    },
)

_EXPIRE = f"redis.call('EXPIRE', KEYS[1], {int(INCIDENT_KEPT_SECONDS) + 86_400})"


class Incidents:
    """The incidents of all installations."""

    def __init__(self, redis: Redis) -> None:
        self._redis, self._read = redis, RecordReader(redis, _incidents)
        self._write = RecordWriter(redis, _incidents, self._read, index=_EXPIRE)

    async def all(self, installation: int) -> dict[str, LossIncident]:
        """Returns all incidents, by id, those that others took over included."""
        key = keys.incidents(installation)
        rows: Any = await self._redis.hgetall(key)
        return await self._read.many(key, {identifier.decode(): row for identifier, row in rows.items()})

    async def revise(
        self, installation: int, change: Callable[[IncidentsById], IncidentsById], now: float
    ) -> IncidentsById:
        """Changes the incidents, safe against concurrent writers; deletes the oldest that ended if there are too many.

        Args:
            installation: the installation.
            change: from all incidents to all incidents; called again after a concurrent write.
            now: epoch seconds.

        Returns:
            The incidents as they are now.

        Raises:
            StoreUnavailableError: an incident was changed concurrently at each of `ATTEMPTS`.
        """
        key = keys.incidents(installation)
        for _ in range(ATTEMPTS):
            known = await self.all(installation)
            after = _bounded(change(known), now)
            folds = {
                each: partial(_if_unchanged, before=known.get(each), after=after.get(each))
                for each in {**known, **after}
                if known.get(each) != after.get(each)
            }
            revised = await self._write.revise([key], folds, {each: known[each] for each in folds if each in known})
            if all(revised.get(each) == after.get(each) for each in folds):
                return after
        raise StoreUnavailableError(f"{key} was changed concurrently {ATTEMPTS} times; try again")


def _if_unchanged(
    stored: LossIncident | None, before: LossIncident | None, after: LossIncident | None
) -> LossIncident | None:
    return after if stored == before else stored


def _bounded(incidents: IncidentsById, now: float) -> Mapping[str, LossIncident]:
    """Returns the incidents that are kept."""
    deleted = set(outdated(incidents, now))
    kept = {identifier: each for identifier, each in incidents.items() if identifier not in deleted}
    sizes = {identifier: len(_incidents.encode(each)) for identifier, each in kept.items()}
    total = sum(sizes.values())
    ended = sorted((each.ended, each.id) for each in kept.values() if each.ended is not None)
    for _, identifier in ended:
        if total <= MOST_BYTES:
            break
        total -= sizes[identifier]
        del kept[identifier]
    return kept


BUCKET_SECONDS = {STEP_SECONDS: 86_400, HOUR_SECONDS: 10 * 86_400}
"""Steps of one key: 288 and 240, which Redis stores compactly."""

JOINED_AFTER_SECONDS = 900
"""A step's counts are complete this long after its end, however much the clocks of the processes differ."""

FORGOTTEN_SECONDS = 91 * 86_400
"""A pool without a sample for so long has no history."""

_steps = Codec("history-step", HistoryStep)

_WRITE = f"""
local at = 0
local function next()
    at = at + 1
    return ARGV[at]
end
for i = 3, #KEYS do
    local is_new, kept = redis.call('HSET', KEYS[i], next(), next()) == 1, next()
    if is_new then redis.call('EXPIRE', KEYS[i], kept) end
end
for _ = 1, next() do redis.call('HDEL', KEYS[1], next()) end
for _ = 1, next() do redis.call('HDEL', KEYS[2], next()) end
if at == #ARGV then return end
while at < #ARGV do redis.call('HSET', KEYS[2], next(), next()) end
redis.call('EXPIRE', KEYS[2], {FORGOTTEN_SECONDS})
"""
"""KEYS: counts, pools, and of each step its hash. ARGV: of each step its begin, its row and the seconds that its hash
is kept; the number of old counts, and they; the number of dropped pools, and they; pools, each with its time."""

Place = tuple[str, int]
"""A pool and the begin of a step."""


class HistoryStore:
    """The history of all installations."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._read = RecordReader(redis, _steps)
        self._write: Any = redis.register_script(_WRITE)
        self._read_counts, self._read_pools = (
            PlainReader(redis, "history-count", int),
            PlainReader(redis, "history-pool", int),
        )

    async def record(self, installation: int, seen: HistorySample | None, now: float) -> None:
        """Joins the counts, and the sample of a complete sweep, to the history; three round trips at most.

        Args:
            installation: the installation.
            seen: of a sweep; without gauges if its list was not complete, which leaves a gap. None: of no sweep.
            now: epoch seconds.
        """
        counts_key, pools_key = keys.history_counts(installation), keys.history_pools(installation)
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.hgetall(counts_key)
            pipe.hgetall(pools_key)
            count_rows, pool_rows = await pipe.execute()
        pools: dict[bytes, int] = await self._read_pools.many(pools_key, pool_rows)
        known = {name.decode(errors="replace"): at for name, at in pools.items()}
        gauges: dict[str, Counter[str]] = {}
        if seen is not None:
            dropped = [name for name, at in known.items() if at < now - FORGOTTEN_SECONDS]
            known = {name: at for name, at in known.items() if name not in dropped}
            own = _with_own_history(seen, known)
            written = {
                name: int(now)
                for name in own & seen.gauges.keys() - {ALL_POOLS, OTHER_POOL}
                if abs(now - known.get(name, 0)) >= HOUR_SECONDS
            }
            for pool, values in seen.gauges.items():
                gauges.setdefault(pool if pool in own else OTHER_POOL, Counter()).update(values)
        else:
            dropped, own, written = [], {*known, ALL_POOLS, OTHER_POOL}, {}
        counts, old = await self._counted(counts_key, count_rows, own, now)
        repeats: set[Place] = set()
        if seen is not None:
            if seen.repeats:
                repeats = {(pool, step_of(seen.repeated_at)) for pool in own}
            for place in product(own, seen.blind):
                counts[place]["blind_seconds"] = seen.blind[place[1]]
            pauses = [each._replace(pool=each.pool if each.pool in own else OTHER_POOL) for each in seen.pauses]
            for pool in own if pauses else ():
                for at, seconds in paused_steps(pauses, pool, now).items():
                    counts[pool, at]["paused_seconds"] = seconds
            for (pool, step), values in seen.counts.items():
                here = counts[pool if pool in own else OTHER_POOL, step]
                for name, number in values.items():
                    add_count(here, name, number)
        step = step_of(now)
        places = {*counts, *((pool, step) for pool in gauges), *repeats}
        rows = await self._rows(installation, places)
        changed = {}
        for place in places:
            before = rows.get(place, HistoryStep())
            after = at_least(before, counts.get(place, {}))
            if seen is not None and place in repeats:
                after = repeated(after, seen.repeats)
            if place[1] == step and place[0] in gauges:
                after = joined(after, sampled(gauges[place[0]], now))
            if after != before:
                changed[place] = after
        if not (changed or old):
            return
        await self._save(installation, [*_written({**rows, **changed}, changed)], written, dropped, old)

    async def _save(
        self,
        installation: int,
        steps: Sequence[tuple[int, str, int, HistoryStep]],
        pools: Mapping[str, int],
        dropped: Sequence[str],
        old: Sequence[bytes],
    ) -> None:
        """Writes steps and pools, and deletes dropped pools and old counts, all of it or nothing."""
        written = [keys.history_counts(installation), keys.history_pools(installation)]
        args: list[str | bytes | int] = []
        for width, pool, at, step in steps:
            written.append(keys.history_steps(installation, width, at // BUCKET_SECONDS[width], pool))
            args += [at, _steps.encode(step), KEPT_SECONDS[width] + BUCKET_SECONDS[width]]
        args += [len(old), *old, len(dropped), *dropped]
        for pool, at in pools.items():
            args += [pool, at]
        await self._write(keys=written, args=args)

    async def _counted(
        self, key: str, rows: Mapping[bytes, bytes], own: set[str], now: float
    ) -> tuple[dict[Place, Counter[str]], list[bytes]]:
        """Returns the counts by pool and step, and the fields that need not be kept."""
        counts: dict[Place, Counter[str]] = defaultdict(Counter)
        numbers: dict[bytes, int] = await self._read_counts.many(key, rows)
        old = [name for name in rows if name not in numbers]
        for name, number in numbers.items():
            if (found := parsed(name)) is None:
                old.append(name)
                continue
            step, what, pool = found
            for each in {pool if pool in own else OTHER_POOL, ALL_POOLS}:
                add_count(counts[each, step], what, max(0, number))
            if step + STEP_SECONDS + JOINED_AFTER_SECONDS < now:
                old.append(name)
        return counts, old

    async def _rows(self, installation: int, places: Iterable[Place]) -> dict[Place, HistoryStep]:
        """Returns the stored steps of each hour that one of these places is in."""
        fields: dict[tuple[str, str], list[int]] = {}
        for pool, hour in sorted({(pool, step_of(at, HOUR_SECONDS)) for pool, at in places}):
            key = keys.history_steps(installation, STEP_SECONDS, hour // BUCKET_SECONDS[STEP_SECONDS], pool)
            fields.setdefault((key, pool), []).extend(range(hour, hour + HOUR_SECONDS, STEP_SECONDS))
        if not fields:
            return {}
        async with self._redis.pipeline(transaction=False) as pipe:
            for (key, _), steps in fields.items():
                pipe.hmget(key, [str(at) for at in steps])
            answers = await pipe.execute()
        found: dict[Place, HistoryStep] = {}
        for ((key, pool), steps), answer in zip(fields.items(), answers, strict=True):
            rows = {at: row for at, row in zip(steps, answer, strict=True) if row is not None}
            found |= {(pool, at): step for at, step in (await self._read.many(key, rows)).items()}
        return found

    async def steps(self, installation: int, pool: str, begin: float, end: float, width: int) -> dict[int, HistoryStep]:
        """Returns the stored steps of a pool from `begin` to before `end`, by their begin; in one round trip.

        Args:
            installation: the installation.
            pool: its name; `*` for the sums of all pools, and the calls.
            begin: epoch seconds.
            end: epoch seconds.
            width: 300 or 3600.
        """
        return (await self.steps_of_pools(installation, [pool], begin, end, width))[pool]

    async def steps_of_pools(
        self, installation: int, pools: Sequence[str], begin: float, end: float, width: int
    ) -> dict[str, dict[int, HistoryStep]]:
        """Returns the stored steps of several pools as `steps` does, by pool; in one round trip."""
        first = step_of(begin, width) if begin % width == 0 else step_of(begin, width) + width
        found: dict[str, dict[int, HistoryStep]] = {pool: {} for pool in pools}
        asked = [
            (pool, keys.history_steps(installation, width, bucket, pool), steps)
            for bucket, steps in _buckets(range(first, ceil(end), width), BUCKET_SECONDS[width])
            for pool in pools
        ]
        if not asked:
            return found
        async with self._redis.pipeline(transaction=False) as pipe:
            for _, key, steps in asked:
                pipe.hmget(key, [str(at) for at in steps])
            answers = await pipe.execute()
        for (pool, key, steps), answer in zip(asked, answers, strict=True):
            rows = {at: row for at, row in zip(steps, answer, strict=True) if row is not None}
            found[pool] |= await self._read.many(key, rows)
        return found

    async def pools(self, installation: int) -> list[str]:
        """Returns the pools with a history of their own, by name."""
        rows: Any = await self._redis.hkeys(keys.history_pools(installation))
        return sorted(name.decode(errors="replace") for name in rows)


def _buckets(steps: Iterable[int], span: int) -> Iterator[tuple[int, list[int]]]:
    """Yields the number of each bucket, and its steps."""
    for bucket, those in groupby(steps, lambda at: at // span):
        yield bucket, [*those]


def _with_own_history(seen: HistorySample, known: Mapping[str, int]) -> set[str]:
    """Returns the pools with a history of their own: those that have one, then the largest new ones."""
    fresh = sorted(seen.gauges.keys() - known.keys() - {ALL_POOLS, OTHER_POOL})
    fresh.sort(key=lambda pool: -sum(seen.gauges[pool].values()))
    return {*known, *fresh[: max(0, MOST_POOLS - len(known))], ALL_POOLS, OTHER_POOL}


def _written(
    rows: Mapping[Place, HistoryStep], changed: Mapping[Place, HistoryStep]
) -> Iterator[tuple[int, str, int, HistoryStep]]:
    """Yields each row to write: its width, pool, begin and content; changed steps, and the hours that contain them."""
    for (pool, at), row in changed.items():
        yield STEP_SECONDS, pool, at, row
    by_pool: dict[str, dict[int, HistoryStep]] = defaultdict(dict)
    for (pool, at), row in rows.items():
        by_pool[pool][at] = row
    for pool, hour in sorted({(pool, step_of(at, HOUR_SECONDS)) for pool, at in changed}):
        yield HOUR_SECONDS, pool, hour, folded(by_pool[pool], HOUR_SECONDS)[hour]


_BEGUN = b""

_settled = Codec("settled", Settled)


class SettledSweeps:
    """The settled sweeps of all installations.

    Each write of one of the installation's runners or jobs forgets its sweep. A sweep marks its begin before it reads
    the records, and keeps its result only if that mark is still there: a write in between, also by another process,
    has deleted it.
    """

    def __init__(self, redis: Redis) -> None:
        self._redis, self._read = redis, RecordReader(redis, _settled)

    async def of(self, installation: int) -> Settled | None:
        """Returns the last settled sweep; None if a record was written since."""
        key = keys.settled(installation)
        row: Any = await self._redis.get(key)
        return await self._read.one(key, row or None)

    async def begin(self, installation: int) -> None:
        """Marks that a sweep is about to read the records; one at a time."""
        await self._redis.set(keys.settled(installation), _BEGUN, ex=STEP_SECONDS)

    async def keep(self, installation: int, settled: Settled) -> None:
        """Records that the sweep is settled, unless a record was written since it began."""
        await self._redis.set(keys.settled(installation), _settled.encode(settled), ex=STEP_SECONDS, xx=True)
