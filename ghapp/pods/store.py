"""What the watch last saw of the cluster: pods, EphemeralRunners, scale sets, where pools run, and what cannot be read.

A snapshot is one hash per namespace. Rows begin with uid and version, so that a script can detect a late event without
decoding. Events are stored only after a complete list: a part of the cluster must not look like all of it. An object
whose name differs from its runner's is also found by a row with the runner's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from redis.asyncio import Redis
from redis.asyncio.client import Pipeline

from ghapp.pods.end_store import PodEnd, PodEnds
from ghapp.pods.pod import EphemeralRunner, Pod
from ghapp.pods.scale_sets import ScaleSet
from ghapp.store import keys
from ghapp.store.codec import Codec, Record
from ghapp.store.quarantine import PlainReader, RecordReader, finite, text

SNAPSHOT_KEPT_SECONDS = 7 * 86_400
"""A snapshot that was not refreshed for a week expires."""

_PODS_AT, _OBJECTS_AT, _AHEAD, _LISTED = "at", "objects-at", "ahead", "objects-listed"
_SERVED = "objects-served"
_NUMBERS = (_PODS_AT, _OBJECTS_AT, _AHEAD, _LISTED, _SERVED)
_POD, _OBJECT, _RUNNER = "p/", "o/", "r/"


def _body(row: bytes) -> bytes:
    return row.split(b"\0", 2)[2]


def _row(seen: Pod | EphemeralRunner, body: bytes) -> bytes:
    return f"{seen.uid}\0{seen.version}\0".encode() + body


_pods = Codec("pod", Pod, body=_body, wrap=_row)
_objects = Codec("ephemeralrunner", EphemeralRunner, body=_body, wrap=_row)

_REPLACE = """
local kinds, kept = ARGV[1], ARGV[2]
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    if string.sub(field, 2, 2) == '/' and string.find(kinds, string.sub(field, 1, 1), 1, true) then
        redis.call('HDEL', KEYS[1], field)
    end
end
for i = 3, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('EXPIRE', KEYS[1], kept)
"""

_PUT = """
local field, row, version, time_field, runner_field, name = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
if redis.call('HEXISTS', KEYS[1], time_field) == 0 then return 0 end
local known = string.match(redis.call('HGET', KEYS[1], field) or '', '^[^%z]*%z([^%z]*)%z')
if known and string.find(known, '^%d+$') and string.find(version, '^%d+$')
    and (#known > #version or (#known == #version and known > version)) then return 0 end
redis.call('HSET', KEYS[1], field, row)
if runner_field then
    local names = redis.call('HGET', KEYS[1], runner_field)
    if not names or not string.find('/' .. names .. '/', '/' .. name .. '/', 1, true) then
        redis.call('HSET', KEYS[1], runner_field, names and names .. '/' .. name or name)
    end
end
return 1
"""

_DROP = """
local dropped = 0
for i = 2, #ARGV do
    local uid = string.match(redis.call('HGET', KEYS[1], ARGV[i]) or '', '^([^%z]*)%z')
    if uid == ARGV[1] then dropped = dropped + redis.call('HDEL', KEYS[1], ARGV[i]) end
end
return dropped
"""

_TOUCH = """
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2], 'ahead', ARGV[3])
redis.call('EXPIRE', KEYS[1], ARGV[4])
return 1
"""

_SOME = """
local found = {redis.call('HMGET', KEYS[1], 'at', 'objects-at', 'ahead', 'objects-listed', 'objects-served')}
local asked = {}
for _, name in ipairs(ARGV) do asked[name] = true end
for _, name in ipairs(ARGV) do
    local objects = redis.call('HGET', KEYS[1], 'r/' .. name)
    for object in string.gmatch(objects or '', '[^/]+') do asked[object] = true end
end
for name in pairs(asked) do
    found[#found + 1] = {name, unpack(redis.call('HMGET', KEYS[1], 'p/' .. name, 'o/' .. name))}
end
return found
"""

_SHOWS = """
for _, name in ipairs(ARGV) do
    if redis.call('HEXISTS', KEYS[1], 'p/' .. name) == 1 or redis.call('HEXISTS', KEYS[1], 'o/' .. name) == 1 then
        return 1
    end
end
return 0
"""


class NamespaceView(NamedTuple):
    """A snapshot of one namespace, with pods and objects by name.

    Attributes:
        seen_at: when all of it was last known to be current (epoch seconds): the older time of pods and objects.
        ahead: seconds by which the cluster's clock, which wrote all times in it, was ahead of ours then.
        lists_objects: True if ARC's objects could be listed. If not, `objects` is empty, which proves no absence.
    """

    pods: dict[str, Pod]
    objects: dict[str, EphemeralRunner]
    seen_at: float
    ahead: float = 0.0
    lists_objects: bool = True


class PodChange(NamedTuple):
    """A change of one runner pod.

    Attributes:
        pod: in its new state; in its last state if it was deleted.
        deleted: True if it no longer exists.
        end: what is to be recorded of it; None if nothing is.
    """

    pod: Pod
    deleted: bool = False
    end: PodEnd | None = None


class RunnerObjects(NamedTuple):
    """Names of ARC's objects for a runner that differ from the runner's name, as last known at `seen_at`."""

    names: tuple[str, ...]
    seen_at: float


class Pods:
    """The snapshots of all namespaces."""

    def __init__(self, redis: Redis) -> None:
        self._redis, self._ends = redis, PodEnds(redis)
        self._read_pods, self._read_objects = RecordReader(redis, _pods), RecordReader(redis, _objects)
        self._read_names = PlainReader(redis, "object-names", text)
        self._read_numbers = PlainReader(redis, "view-time", finite)
        self._replace: Any = redis.register_script(_REPLACE)
        self._put: Any = redis.register_script(_PUT)
        self._drop: Any = redis.register_script(_DROP)
        self._touch: Any = redis.register_script(_TOUCH)
        self._shows: Any = redis.register_script(_SHOWS)
        self._some: Any = redis.register_script(_SOME)

    async def replace_pods(
        self, namespace: str, pods: Iterable[Pod], at: float, ahead: float = 0.0, ends: Sequence[PodEnd] = ()
    ) -> None:
        """Records a complete list of pods, and the ends that it shows, in one transaction.

        `ahead` is the lead of the cluster's clock over ours in seconds.
        """
        rows: dict[str, bytes | str] = {_snapshot_field(each): _pods.encode(each) for each in pods}
        times: dict[str, bytes | str] = {_PODS_AT: repr(float(at)), _AHEAD: repr(float(ahead))}
        async with self._redis.pipeline(transaction=True) as pipe:
            await self._replaced(namespace, _POD[0], {**rows, **times}, pipe)
            self._ends.add(pipe, namespace, ends)
            await pipe.execute()

    async def replace_objects(
        self, namespace: str, objects: Iterable[EphemeralRunner], at: float, ahead: float = 0.0, *, served: bool = True
    ) -> None:
        """Records a complete list of ARC's objects; `served` is False if the cluster did not permit listing them."""
        found = list(objects)
        rows: dict[str, bytes | str] = {_snapshot_field(each): _objects.encode(each) for each in found}
        by_runner: dict[str, str] = {}
        for each in found:
            if field := _runner_field(each):
                by_runner[field] = f"{by_runner[field]}/{each.name}" if field in by_runner else each.name
        times = {_OBJECTS_AT: repr(float(at)), _AHEAD: repr(float(ahead)), _LISTED: str(len(found))}
        known = {_SERVED: str(int(served))}
        await self._replaced(namespace, _OBJECT[0] + _RUNNER[0], {**rows, **by_runner, **times, **known})

    async def _replaced(
        self, namespace: str, kinds: str, fields: dict[str, bytes | str], pipe: Pipeline | None = None
    ) -> None:
        args: list[str | bytes | int] = [kinds, SNAPSHOT_KEPT_SECONDS]
        for field, value in fields.items():
            args += (field, value)
        await self._replace(keys=[keys.pods(namespace)], args=args, client=pipe)

    async def record(self, namespace: str, changes: Sequence[PodChange]) -> None:
        """Records changes of pods in this order, and the ends that they show, in one transaction and round trip."""
        async with self._redis.pipeline(transaction=True) as pipe:
            for pod, deleted, _ in changes:
                await (self.drop(namespace, pod.name, pod.uid, pipe) if deleted else self.put(namespace, pod, pipe))
            self._ends.add(pipe, namespace, [each.end for each in changes if each.end is not None])
            await pipe.execute()

    async def put(self, namespace: str, seen: Pod | EphemeralRunner, pipe: Pipeline | None = None) -> bool:
        """Records an object of a watch event; returns False for a late event, and before the first complete list.

        With a pipeline, the caller executes it, and the result means nothing.
        """
        time_field = _PODS_AT if isinstance(seen, Pod) else _OBJECTS_AT
        runner_field = _runner_field(seen)
        known_by = [runner_field, seen.name] if runner_field else []
        row = _pods.encode(seen) if isinstance(seen, Pod) else _objects.encode(seen)
        args: list[str | bytes] = [_snapshot_field(seen), row, seen.version, time_field, *known_by]
        return bool(await self._put(keys=[keys.pods(namespace)], args=args, client=pipe))

    async def drop(self, namespace: str, name: str, uid: str, pipe: Pipeline | None = None) -> bool:
        """Deletes a pod or an object; returns False if it was unknown. One of the same name but another uid stays.

        With a pipeline, the caller executes it, and the result means nothing.
        """
        args = [uid, _POD + name, _OBJECT + name]
        return bool(await self._drop(keys=[keys.pods(namespace)], args=args, client=pipe))

    async def touch_pods(self, namespace: str, at: float, ahead: float = 0.0) -> bool:
        """Records that the pods are current as of `at`; returns False if there is no list of them."""
        return await self._touched(namespace, _PODS_AT, at, ahead)

    async def touch_objects(self, namespace: str, at: float, ahead: float = 0.0) -> bool:
        """Records that the objects are current as of `at`; returns False if there is no list of them."""
        return await self._touched(namespace, _OBJECTS_AT, at, ahead)

    async def _touched(self, namespace: str, time_field: str, at: float, ahead: float) -> bool:
        args = [time_field, repr(float(at)), repr(float(ahead)), SNAPSHOT_KEPT_SECONDS]
        return bool(await self._touch(keys=[keys.pods(namespace)], args=args))

    async def all(self, namespace: str) -> NamespaceView | None:
        """Returns the snapshot; None before the first lists, and after a week without a refresh."""
        rows: Any = await self._redis.hgetall(keys.pods(namespace))
        times = await self._numbers(namespace, {field: rows.get(field.encode()) for field in _NUMBERS})
        if _PODS_AT not in times or _OBJECTS_AT not in times:
            return None
        return NamespaceView(
            await self._of(namespace, _POD, self._read_pods, rows),
            await self._of(namespace, _OBJECT, self._read_objects, rows),
            min(times[_PODS_AT], times[_OBJECTS_AT]),
            times.get(_AHEAD, 0.0),
            _lists_objects(rows.get(_LISTED.encode()), rows.get(_SERVED.encode())),
        )

    async def some(self, namespace: str, runner_names: Iterable[str]) -> NamespaceView | None:
        """Returns the part of the snapshot for these runners, in one round trip; None without a snapshot.

        Returns None also if one of the rows is unreadable, because its pod would seem deleted. The result has pods
        and objects of these names, and objects of other names that belong to these runners, with their pods.
        """
        rows: Any = await self._some(keys=[keys.pods(namespace)], args=list(runner_names))
        pods_at, objects_at, ahead, listed, served = rows[0]
        times = await self._numbers(namespace, {_PODS_AT: pods_at, _OBJECTS_AT: objects_at, _AHEAD: ahead})
        if _PODS_AT not in times or _OBJECTS_AT not in times:
            return None
        kept = {_POD.encode() + name: pod for name, pod, _ in rows[1:] if pod is not None}
        kept |= {_OBJECT.encode() + name: found for name, _, found in rows[1:] if found is not None}
        pods = await self._of(namespace, _POD, self._read_pods, kept)
        objects = await self._of(namespace, _OBJECT, self._read_objects, kept)
        if len(pods) + len(objects) < len(kept):
            return None
        seen_at = min(times[_PODS_AT], times[_OBJECTS_AT])
        return NamespaceView(pods, objects, seen_at, times.get(_AHEAD, 0.0), _lists_objects(listed, served))

    async def objects_of_runner(self, namespace: str, runner_name: str) -> RunnerObjects | None:
        """Returns the objects of a runner that have other names; None before a list that had any object."""
        fields = [_OBJECTS_AT, _LISTED, _RUNNER + runner_name]
        row: Any = await self._redis.hmget(keys.pods(namespace), fields)
        known = await self._numbers(namespace, {_OBJECTS_AT: row[0], _LISTED: row[1]})
        names = await self._read_names.one(keys.pods(namespace), row[2], fields[2])
        if _OBJECTS_AT not in known or not known.get(_LISTED) or (names is None and row[2] is not None):
            return None  # an empty list may come from a cluster that hides all objects
        return RunnerObjects(tuple(names.split("/")) if names else (), known[_OBJECTS_AT])

    async def shows_any(self, namespace: str, names: Iterable[str]) -> bool:
        """True if the last recorded snapshot, however old, has a pod or an object of any of these names."""
        return bool(await self._shows(keys=[keys.pods(namespace)], args=list(names)))

    async def seen_at(self, namespace: str) -> float | None:
        """Returns when all of the snapshot was last known to be current; None without one. Reads only the times."""
        times: Any = await self._redis.hmget(keys.pods(namespace), [_PODS_AT, _OBJECTS_AT])
        known = await self._numbers(namespace, dict(zip((_PODS_AT, _OBJECTS_AT), times, strict=True)))
        return min(known.values()) if len(known) == len(times) else None

    async def known(self, namespace: str) -> list[Pod]:
        """Returns the last recorded pods, however old, so that a new watch starts with what was seen before."""
        rows: Any = await self._redis.hgetall(keys.pods(namespace))
        return [*(await self._of(namespace, _POD, self._read_pods, rows)).values()]

    async def known_objects(self, namespace: str) -> list[EphemeralRunner]:
        """Returns the last recorded objects, however old."""
        rows: Any = await self._redis.hgetall(keys.pods(namespace))
        return [*(await self._of(namespace, _OBJECT, self._read_objects, rows)).values()]

    async def _numbers(self, namespace: str, rows: Mapping[str, bytes | None]) -> dict[str, float]:
        """Returns those of these fields that are numbers. A snapshot without its times does not count."""
        stored = {field: row for field, row in rows.items() if row is not None}
        return await self._read_numbers.many(keys.pods(namespace), stored)

    async def _of(
        self, namespace: str, prefix: str, read: RecordReader[Record], rows: Mapping[bytes, bytes]
    ) -> dict[str, Record]:
        """Returns the readable records of pods, or of objects, by name."""
        own = {field: row for field, row in rows.items() if field.startswith(prefix.encode())}
        found = await read.many(keys.pods(namespace), own)
        return {field.decode()[len(prefix) :]: record for field, record in found.items()}


def _lists_objects(listed: bytes | None, served: bytes | None) -> bool:
    """True if objects could be listed. Versions without the field `served` wrote a count of 0 if they could not."""
    if served is None:
        return listed is not None and listed.isdigit() and int(listed) > 0
    return served == b"1"


def _snapshot_field(seen: Pod | EphemeralRunner) -> str:
    return (_POD if isinstance(seen, Pod) else _OBJECT) + seen.name


def _runner_field(seen: Pod | EphemeralRunner) -> str:
    """Returns the field of an object's runner if the runner has another name than the object; else empty."""
    if isinstance(seen, Pod) or seen.runner_name in ("", seen.name):
        return ""
    return _RUNNER + seen.runner_name


LOCATIONS_KEPT_SECONDS = 30 * 86_400


class PodLocations:
    """The namespaces in which pods of each pool were seen.

    A pool's configured namespace may be wrong and exist all the same. That none of its runners is found there must not
    be taken as proof that their pods were deleted.
    """

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def seen(self, installation: int, places: Iterable[tuple[str, str]], at: float) -> None:
        """Records that pods of these pools were seen in these namespaces: (pool, namespace)."""
        fields: dict[Any, Any] = {_field(*place): repr(float(at)) for place in places}
        if not fields:
            return
        key = keys.places(installation)
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.hset(key, mapping=fields)
            pipe.expire(key, LOCATIONS_KEPT_SECONDS)
            await pipe.execute()

    async def is_known(self, installation: int, pool: str, namespace: str) -> bool:
        """True if a pod of the pool was seen there; forgotten after a month in which none was seen."""
        return bool(await self._redis.hexists(keys.places(installation), _field(pool, namespace)))

    async def all(self, installation: int) -> set[tuple[str, str]]:
        """Returns all known (pool, namespace)."""
        fields: Any = await self._redis.hkeys(keys.places(installation))
        found = (field.decode().rpartition("/") for field in fields)
        return {(pool, namespace) for pool, _, namespace in found}


def _field(pool: str, namespace: str) -> str:
    """Returns the field; neither name contains a slash."""
    return f"{pool}/{namespace}"


SCALE_SETS_KEPT_SECONDS = 600
"""They are read once a minute. Older ones say nothing about what is wanted now."""

_scale_sets = Codec("scale-sets", tuple[ScaleSet, ...])


class ScaleSets:
    """The scale sets of all namespaces."""

    def __init__(self, redis: Redis) -> None:
        self._redis, self._read = redis, RecordReader(redis, _scale_sets)

    async def put(self, namespace: str, found: Sequence[ScaleSet]) -> None:
        """Records all scale sets of a namespace."""
        await self._redis.set(keys.scale_sets(namespace), _scale_sets.encode(tuple(found)), ex=SCALE_SETS_KEPT_SECONDS)

    async def get(self, namespace: str) -> tuple[ScaleSet, ...]:
        """Returns them; none if they were not read for minutes, as where they cannot be read."""
        row: Any = await self._redis.get(keys.scale_sets(namespace))
        return await self._read.one(keys.scale_sets(namespace), row) or ()


DEGRADED_KEPT_SECONDS = 900


class DegradedSources:
    """The errors of all sources: namespaces, and the log store.

    An error stays until its source works again, and at most a quarter of an hour after it was last reported, because
    the process that reports the end may have crashed. The watch repeats its errors each minute while they last.
    """

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._read = PlainReader(redis, "trouble", text)

    async def record(self, place: str, why: str) -> None:
        """Records the error of a source, in place of an earlier one."""
        await self._redis.set(keys.trouble(place), why, ex=DEGRADED_KEPT_SECONDS)

    async def over(self, *places: str) -> None:
        """Records that these sources work again."""
        if places:
            await self._redis.delete(*map(keys.trouble, places))

    async def of(self, places: Sequence[str]) -> dict[str, str]:
        """Returns the errors by source, in the given order."""
        if not places:
            return {}
        rows: Any = await self._redis.mget([keys.trouble(place) for place in places])
        found = {place: await self._read.one(keys.trouble(place), row) for place, row in zip(places, rows, strict=True)}
        return {place: why for place, why in found.items() if why is not None}
