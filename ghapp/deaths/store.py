"""Deaths: how each runner ended, stored for a month.

A death is identified by its pod and its end (`identity`), so that reports of the same death (a watch lists again, or
two watches run at once) add nothing; later findings are merged into it. When the store is full, clean exits are deleted
first: a busy fleet has a thousand of them a minute, and they must not displace deaths that people will look up. The
script that records a death also deletes the oldest ones, so that a crash leaves nothing unbounded. Age is measured
against the newest stored death, not by a clock: a clock that jumped ahead must not wipe a month.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from redis.asyncio import Redis

from ghapp.deaths.cause import Cause
from ghapp.deaths.death import DeadJob, Death
from ghapp.deaths.patterns import RecentDeaths, death_summary
from ghapp.incidents.history import DEATH_PREFIX, HOUR_SECONDS
from ghapp.installations.pool_matching import OTHER_POOL
from ghapp.store import keys
from ghapp.store.codec import Codec
from ghapp.store.compare_and_set import RecordWriter
from ghapp.store.metric_counters import COUNT, history_field, other_history_field
from ghapp.store.quarantine import RecordReader

KEPT_SECONDS = 30 * 86_400
READ_AT_ONCE = 100
SCANNED = 500
"""Deaths that are read at once while a page is filled."""

MOST = 10_000
"""Maximum of deaths per installation."""

MOST_READ = 500
"""Maximum of deaths that are searched for one name."""

_RECORD = (
    COUNT
    + """
local deaths, times, names, clean, unpublished = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local id, name, row, at, kept, most = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
if redis.call('HEXISTS', deaths, id) == 1 then return 0 end
redis.call('HSET', deaths, id, row)
count(KEYS[6], ARGV[8], ARGV[9], 1)
redis.call('ZADD', times, at, id)
redis.call('ZADD', unpublished, at, id)
if ARGV[7] == '1' then redis.call('ZADD', clean, at, id) end
local latest = redis.call('HGET', names, name)
local latest_at = latest and tonumber(redis.call('ZSCORE', times, latest) or '-inf')
if not latest or latest_at < tonumber(at) or (latest_at == tonumber(at) and latest < id) then
    redis.call('HSET', names, name, id)
end

local function forget(dropped)
    for _, each in ipairs(dropped) do
        local owner = string.match(redis.call('HGET', deaths, each) or '', '^([^%z]*)%z')
        if owner and redis.call('HGET', names, owner) == each then redis.call('HDEL', names, owner) end
        redis.call('HDEL', deaths, each)
        for _, key in ipairs({times, clean, unpublished}) do redis.call('ZREM', key, each) end
    end
end
local newest = tonumber(redis.call('ZREVRANGE', times, 0, 0, 'WITHSCORES')[2])
forget(redis.call('ZRANGEBYSCORE', times, '-inf', string.format('(%.17g', newest - kept)))
local over = redis.call('ZCARD', times) - most
if over > 0 then forget(redis.call('ZRANGE', clean, 0, over - 1)) end
over = redis.call('ZCARD', times) - most
if over > 0 then forget(redis.call('ZRANGE', times, 0, over - 1)) end

for _, key in ipairs({deaths, times, names, clean, unpublished}) do redis.call('EXPIRE', key, kept) end
return redis.call('HEXISTS', deaths, id)
"""
)

_CLEAN = """
local at = redis.call('ZSCORE', KEYS[2], field)
if extra == '1' and at then redis.call('ZADD', KEYS[3], at, field) else redis.call('ZREM', KEYS[3], field) end
"""
"""Keeps the clean exits among the deaths."""


class Deaths:
    """The deaths of all installations.

    Args:
        redis: the client.
        clock: epoch seconds; later times of death are cut to it, and deaths older than a month are not returned.
    """

    def __init__(self, redis: Redis, clock: Callable[[], float] = time.time) -> None:
        self._redis, self._clock = redis, clock
        self._read = RecordReader(redis, DEATHS)
        self._record: Any = redis.register_script(_RECORD)
        self._revise = RecordWriter(redis, DEATHS, self._read, index=_CLEAN, extra=_is_clean)

    async def record(self, installation: int, death: Death) -> bool:
        """Records a death, and counts it in the history.

        Returns:
            False if it is known already, or older than all stored deaths of a full store.
        """
        now = self._clock()
        at = min(death.at, now)  # with a kubelet's clock ahead of ours, the death would be kept for too long
        args: list[str | bytes | float] = [
            identity(death),
            death.runner_name,
            DEATHS.encode(bounded(death)),
            at,
            KEPT_SECONDS,
            MOST,
        ]
        keyed = [
            keys.deaths(installation),
            keys.death_times(installation),
            keys.death_names(installation),
            keys.death_clean(installation),
            keys.deaths_unpublished(installation),
            keys.history_counts(installation),
        ]
        cause = f"{DEATH_PREFIX}{death.cause.value}"
        counted = [history_field(now, cause, death.pool or OTHER_POOL), other_history_field(now, cause)]
        return bool(await self._record(keys=keyed, args=[*args, _is_clean(death), *counted]))

    async def mark_published(self, installation: int, death: Death) -> None:
        """Records that an event about the death was appended."""
        await self._redis.zrem(keys.deaths_unpublished(installation), identity(death))

    async def unpublished(self, installation: int, most: int) -> list[Death]:
        """Returns up to `most` deaths without an event, latest first; if a process crashed before appending it."""
        ids: Any = await self._redis.zrevrange(keys.deaths_unpublished(installation), 0, most - 1)
        return await self._deaths(installation, ids)

    async def enrich(self, installation: int, death: Death) -> bool:
        """Merges later findings into a death: its job, the logs, and the cause that follows from them.

        Fields that `death` lacks keep their values, so that concurrent updates lose nothing.

        Returns:
            False if the death is not stored: it was never recorded, or was deleted since.
        """
        where = [keys.deaths(installation), keys.death_times(installation), keys.death_clean(installation)]
        death_id = identity(death)

        def enriched(known: Death | None) -> Death:
            richer = bounded(death if known is None else joined(known, death))
            return known if known == richer else richer

        return bool(await self._revise.revise(where, {death_id: enriched}, create=False))

    async def one(self, installation: int, death_id: str) -> Death | None:
        """Returns the death of that `identity`; None if it is not stored."""
        found = await self._deaths(installation, [death_id.encode()])
        return found[0] if found else None

    async def of(self, installation: int, runner_name: str) -> Death | None:
        """Returns the latest death of a runner of that name within the last month."""
        return (await self.latest(installation, [runner_name])).get(runner_name)

    async def latest(self, installation: int, names: Sequence[str]) -> dict[str, Death]:
        """Returns the latest death of each runner of these names within the last month, by name."""
        ids: Any = await self._redis.hmget(keys.death_names(installation), list(names)) if names else []
        found = await self._deaths(installation, [each for each in ids if each is not None])
        return {each.runner_name: each for each in found if each.at >= self._oldest()}

    async def namesakes(self, installation: int, runner_name: str, since: float) -> list[Death]:
        """Returns the deaths of runners of that name at `since` (epoch seconds) or later, latest first.

        Several runners of one name may die within minutes. The latest `MOST_READ` deaths are searched.
        """
        found = await self.recent(installation, since, MOST_READ)
        return [each for each in found if each.runner_name == runner_name]

    async def recent(self, installation: int, since: float, most: int) -> list[Death]:
        """Returns up to `most` deaths at `since` (epoch seconds) or later, latest first."""
        oldest = max(since, self._oldest())
        ids: Any = await self._redis.zrevrangebyscore(keys.death_times(installation), "+inf", oldest, 0, max(0, most))
        return await self._deaths(installation, ids)

    async def unclean(self, installation: int, since: float, most: int) -> list[Death]:
        """Returns deaths as `recent`, without clean exits, which would fill any limit in a busy fleet."""
        return await self._deaths(installation, await self.unclean_ids(installation, since, most))

    async def unclean_ids(self, installation: int, since: float, most: int) -> list[bytes]:
        """Returns the identities of the deaths that `unclean` returns, in the same order."""
        oldest = max(since, self._oldest())
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.zrevrangebyscore(keys.death_times(installation), "+inf", oldest)
            pipe.zrangebyscore(keys.death_clean(installation), oldest, "+inf")
            ids, clean = await pipe.execute()
        left = set(ids) - set(clean)
        return [each for each in ids if each in left][: max(0, most)]

    async def within_hour(self, installation: int) -> RecentDeaths | None:
        """Returns the deaths of the last hour without clean exits; None without any."""
        since, times = self._clock() - HOUR_SECONDS, keys.death_times(installation)
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.zcount(times, since, "+inf")
            pipe.zcount(keys.death_clean(installation), since, "+inf")
            ended, clean = await pipe.execute()
        if ended == clean:  # mostly: not even the identities are read
            return None
        ids = await self.unclean_ids(installation, since, MOST)
        last = await self._deaths(installation, ids[:1])
        return RecentDeaths(len(ids), death_summary(last[0])) if last else None

    async def each_of(self, installation: int, ids: Sequence[bytes]) -> AsyncIterator[tuple[bytes, Death]]:
        """Yields the stored deaths of these identities; reads `READ_AT_ONCE`, so that few logs are in memory."""
        for start in range(0, len(ids), READ_AT_ONCE):
            for death_id, death in (await self._by_id(installation, ids[start : start + READ_AT_ONCE])).items():
                yield death_id, death

    async def page(
        self, installation: int, wanted: Callable[[Death], bool], most: int, cursor: tuple[float, str] | None = None
    ) -> tuple[list[Death], tuple[float, str] | None]:
        """Returns up to `most` wanted deaths of the last month, latest first, and the cursor of the next page.

        Args:
            installation: of the runners.
            wanted: True for deaths to return.
            most: 1 or more.
            cursor: from the previous page; None for the first one. Deaths recorded meanwhile do not shift pages.
        """
        key, found = keys.death_times(installation), list[tuple[tuple[float, str], Death]]()
        latest: float | str = "+inf" if cursor is None else cursor[0]
        for start in range(0, MOST, SCANNED):
            rows: Any = await self._redis.zrevrangebyscore(key, latest, self._oldest(), start, SCANNED, withscores=True)
            places = {identifier: (at, identifier.decode(errors="replace")) for identifier, at in rows}
            places = {identifier: place for identifier, place in places.items() if cursor is None or place < cursor}
            read = await self._by_id(installation, list(places))
            found += [(places[identifier], death) for identifier, death in read.items() if wanted(death)]
            if len(found) > most or len(rows) < SCANNED:
                break
        page = found[:most]
        return [death for _, death in page], page[-1][0] if len(found) > most else None

    async def _by_id(self, installation: int, ids: Sequence[bytes]) -> dict[bytes, Death]:
        """Returns those that are stored and readable, in that order."""
        if not ids:
            return {}
        key = keys.deaths(installation)
        rows: Any = await self._redis.hmget(key, list(ids))
        stored = {death_id: row for death_id, row in zip(ids, rows, strict=True) if row is not None}
        return await self._read.many(key, stored)

    async def _deaths(self, installation: int, ids: Sequence[bytes]) -> list[Death]:
        return [*(await self._by_id(installation, ids)).values()]

    def _oldest(self) -> float:
        return self._clock() - KEPT_SECONDS


def identity(death: Death) -> str:
    """Returns the unique id of a death, from its pod and its end, or from its job if it was found by that.

    A death without an exit code has no exact time, but a pod can vanish only once.
    """
    if death.id:
        return death.id
    pod = death.pod_uid or f"{death.namespace}/{death.pod}"
    return f"{pod} gone" if death.exit_code is None else f"{pod} {death.at:.3f} {death.exit_code}"


def _is_clean(death: Death) -> str:
    """Returns "1" for a clean exit, else "", for the scripts."""
    return "1" if death.cause is Cause.CLEAN_EXIT else ""


MOST_LINES, LONGEST_LINE, MOST_CHARACTERS = 200, 2_000, 32_768
"""Limits of each log; its last lines are kept."""


def _row(dead: Death, body: bytes) -> bytes:
    """Returns a death's row: the runner's name as text, for the script, then the record, deflated for its log lines."""
    return dead.runner_name.encode() + b"\0" + zlib.compress(body, 1)


DEATHS = Codec(
    "death",
    Death,
    unknown={Cause: Cause.UNKNOWN},
    body=lambda row: zlib.decompress(row.partition(b"\0")[2]),
    wrap=_row,
)


def bounded(dead: Death) -> Death:
    """Returns the death with its logs cut to the limits."""
    return dead._replace(runner_log=_last(dead.runner_log), host_log=_last(dead.host_log))


def _last(lines: Sequence[str]) -> tuple[str, ...]:
    """Returns the last lines within the limits."""
    kept: list[str] = []
    left = MOST_CHARACTERS
    for line in reversed(lines[-MOST_LINES:]):
        short = line[:LONGEST_LINE]
        left -= len(short)
        if left < 0:
            break
        kept.append(short)
    return tuple(reversed(kept))


def joined(known: Death, found: Death) -> Death:
    """Merges later findings into a known death.

    Cause, reason and advice belong together, and are derived from the container's end and from the log. They come from
    the one that has more of that: findings that were read before the watch added the pod's end must not undo it.
    """
    of_pod = known if known.pod_uid and not found.pod_uid else found
    lacks_end = known.exit_code is not None and found.exit_code is None
    lacks_log = bool(known.runner_log) and not found.runner_log
    decisive = known if lacks_end or lacks_log else found
    return found._replace(
        runner_name=known.runner_name,
        at=known.at,
        ahead=known.ahead,
        pod=of_pod.pod or known.pod,
        node=of_pod.node or known.node,
        namespace=of_pod.namespace,
        pod_uid=of_pod.pod_uid,
        exit_code=known.exit_code if lacks_end else found.exit_code,
        signal=known.signal if lacks_end else found.signal,
        reason=decisive.reason,
        cause=decisive.cause,
        advice=decisive.advice,
        runner_id=known.runner_id if found.runner_id is None else found.runner_id,
        pool=found.pool or known.pool,
        job=_merged_job(known.job, found.job),
        runner_log=found.runner_log or known.runner_log,
        host_log=found.host_log or known.host_log,
        last_minutes=found.last_minutes or known.last_minutes,
        image=found.image or known.image,
        memory_limit=found.memory_limit or known.memory_limit,
    )


def _merged_job(known: DeadJob | None, found: DeadJob | None) -> DeadJob | None:
    """Returns the later one, unless it lacks a known conclusion."""
    if found is None or known is None:
        return found or known
    if found.id != known.id:
        return found
    later = known if known.conclusion and not found.conclusion else found
    return later._replace(deploys=known.deploys or found.deploys)
