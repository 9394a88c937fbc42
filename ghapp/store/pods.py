"""What the watch last saw in each namespace: runner pods, and the objects that ARC keeps for them.

One hash a namespace. Its rows begin with uid and version, so that a script can tell a late word from a new one
without decoding anything. Without a complete list nothing is kept: a part of the cluster must not look like all of it.
An object that is not called as its runner is found by a row of its runner's name, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from redis.asyncio import Redis

from ghapp.health.pods.pod import EphemeralRunner, Pod
from ghapp.store import keys
from ghapp.store.codec import Codec, Record
from ghapp.store.quarantine import PlainReader, RecordReader, finite, text

KEPT_SECONDS = 7 * 86_400
"""A view that nobody has refreshed for a week goes."""

_PODS_AT, _OBJECTS_AT, _AHEAD, _LISTED = "at", "objects-at", "ahead", "objects-listed"
_SERVED = "objects-served"
_NUMBERS = (_PODS_AT, _OBJECTS_AT, _AHEAD, _LISTED, _SERVED)
_POD, _OBJECT, _BEARER = "p/", "o/", "r/"


def _body(row: bytes) -> bytes:
    return row.split(b"\0", 2)[2]


_pods = Codec("pod", Pod, body=_body)
_objects = Codec("ephemeralrunner", EphemeralRunner, body=_body)

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
local field, row, version, time_field, bearer, name = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
if redis.call('HEXISTS', KEYS[1], time_field) == 0 then return 0 end
local known = string.match(redis.call('HGET', KEYS[1], field) or '', '^[^%z]*%z([^%z]*)%z')
if known and string.find(known, '^%d+$') and string.find(version, '^%d+$')
    and (#known > #version or (#known == #version and known > version)) then return 0 end
redis.call('HSET', KEYS[1], field, row)
if bearer then
    local names = redis.call('HGET', KEYS[1], bearer)
    if not names or not string.find('/' .. names .. '/', '/' .. name .. '/', 1, true) then
        redis.call('HSET', KEYS[1], bearer, names and names .. '/' .. name or name)
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
    local bearers = redis.call('HGET', KEYS[1], 'r/' .. name)
    for bearer in string.gmatch(bearers or '', '[^/]+') do asked[bearer] = true end
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
    """A view of one namespace, pods and objects by name.

    Attributes:
        seen_at: when all of it was last known to be true (epoch seconds): the older of its two halves.
        ahead: by how many seconds the cluster's clock, which wrote all times in it, was ahead of ours then.
        lists_objects: whether ARC's objects could be listed. If not, `objects` is empty and proves no absence.
    """

    pods: dict[str, Pod]
    objects: dict[str, EphemeralRunner]
    seen_at: float
    ahead: float = 0.0
    lists_objects: bool = True


class RunnerObjects(NamedTuple):
    """What ARC's objects for one runner are called that are not called as it is, as last known at `seen_at`."""

    names: tuple[str, ...]
    seen_at: float


class Pods:
    """The views of all namespaces."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._read_pods, self._read_objects = RecordReader(redis, _pods), RecordReader(redis, _objects)
        self._read_names = PlainReader(redis, "bearers", text)
        self._read_numbers = PlainReader(redis, "view-time", finite)
        self._replace: Any = redis.register_script(_REPLACE)
        self._put: Any = redis.register_script(_PUT)
        self._drop: Any = redis.register_script(_DROP)
        self._touch: Any = redis.register_script(_TOUCH)
        self._shows: Any = redis.register_script(_SHOWS)
        self._some: Any = redis.register_script(_SOME)

    async def replace_all(
        self, namespace: str, pods: Iterable[Pod], objects: Iterable[EphemeralRunner], at: float
    ) -> None:
        """Record complete lists as of `at`: what is not in them is gone."""
        await self.replace_objects(namespace, objects, at)
        await self.replace_pods(namespace, pods, at)

    async def replace_pods(self, namespace: str, pods: Iterable[Pod], at: float, ahead: float = 0.0) -> None:
        """Record a complete list of pods; `ahead` is by how much the cluster's clock was ahead of ours."""
        rows: dict[str, bytes | str] = {_field(each): _row(each) for each in pods}
        await self._replaced(namespace, _POD[0], {**rows, _PODS_AT: repr(float(at)), _AHEAD: repr(float(ahead))})

    async def replace_objects(
        self, namespace: str, objects: Iterable[EphemeralRunner], at: float, ahead: float = 0.0, *, served: bool = True
    ) -> None:
        """Record a complete list of ARC's objects; `served` is False where the cluster does not let us list any."""
        found = list(objects)
        rows: dict[str, bytes | str] = {_field(each): _row(each) for each in found}
        bearers: dict[str, str] = {}
        for each in found:
            if field := _bearer(each):
                bearers[field] = f"{bearers[field]}/{each.name}" if field in bearers else each.name
        times = {_OBJECTS_AT: repr(float(at)), _AHEAD: repr(float(ahead)), _LISTED: str(len(found))}
        known = {_SERVED: str(int(served))}
        await self._replaced(namespace, _OBJECT[0] + _BEARER[0], {**rows, **bearers, **times, **known})

    async def _replaced(self, namespace: str, kinds: str, fields: dict[str, bytes | str]) -> None:
        args: list[str | bytes | int] = [kinds, KEPT_SECONDS]
        for field, value in fields.items():
            args += (field, value)
        await self._replace(keys=[keys.pods(namespace)], args=args)

    async def put(self, namespace: str, seen: Pod | EphemeralRunner) -> bool:
        """Record what an event showed; False for a late one, and where there is no list yet to add it to."""
        time_field = _PODS_AT if isinstance(seen, Pod) else _OBJECTS_AT
        bearer = _bearer(seen)
        known_by = [bearer, seen.name] if bearer else []
        args: list[str | bytes] = [_field(seen), _row(seen), seen.version, time_field, *known_by]
        return bool(await self._put(keys=[keys.pods(namespace)], args=args))

    async def drop(self, namespace: str, name: str, uid: str) -> bool:
        """A pod or an object is gone; False when it was not known. Another one of its name, by uid, stays."""
        args = [uid, _POD + name, _OBJECT + name]
        return bool(await self._drop(keys=[keys.pods(namespace)], args=args))

    async def touch_pods(self, namespace: str, at: float, ahead: float = 0.0) -> bool:
        """Its pods are known to be as recorded as of `at`; False where there is no list of them."""
        return await self._touched(namespace, _PODS_AT, at, ahead)

    async def touch_objects(self, namespace: str, at: float, ahead: float = 0.0) -> bool:
        """The same of its objects."""
        return await self._touched(namespace, _OBJECTS_AT, at, ahead)

    async def _touched(self, namespace: str, time_field: str, at: float, ahead: float) -> bool:
        args = [time_field, repr(float(at)), repr(float(ahead)), KEPT_SECONDS]
        return bool(await self._touch(keys=[keys.pods(namespace)], args=args))

    async def all(self, namespace: str) -> NamespaceView | None:
        """The view; None before the first lists, and a week after the last word."""
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
        """The part of the view that concerns these runners, in one round trip; None where there is no view.

        Nor is there one while a row of it is unreadable: a pod whose row is left out would look as if it were gone.
        Returns their pods and objects by these names, and the objects of another name that bear one of these runners,
        with their pods.
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

    async def bearers(self, namespace: str, runner_name: str) -> RunnerObjects | None:
        """Objects that bear a runner under another name than their own; None before a list that had any object."""
        fields = [_OBJECTS_AT, _LISTED, _BEARER + runner_name]
        row: Any = await self._redis.hmget(keys.pods(namespace), fields)
        known = await self._numbers(namespace, {_OBJECTS_AT: row[0], _LISTED: row[1]})
        names = await self._read_names.one(keys.pods(namespace), row[2], fields[2])
        if _OBJECTS_AT not in known or not known.get(_LISTED) or (names is None and row[2] is not None):
            return None  # a list without any may be of a cluster in which none may be seen
        return RunnerObjects(tuple(names.split("/")) if names else (), known[_OBJECTS_AT])

    async def shows_any(self, namespace: str, names: Iterable[str]) -> bool:
        """Whether a pod or an object of any of these names was there when it was recorded last, however long ago."""
        return bool(await self._shows(keys=[keys.pods(namespace)], args=list(names)))

    async def seen_at(self, namespace: str) -> float | None:
        """When all of the view was last known to be true; None where there is none. Nothing of it is read."""
        times: Any = await self._redis.hmget(keys.pods(namespace), [_PODS_AT, _OBJECTS_AT])
        known = await self._numbers(namespace, dict(zip((_PODS_AT, _OBJECTS_AT), times, strict=True)))
        return min(known.values()) if len(known) == len(times) else None

    async def known(self, namespace: str) -> list[Pod]:
        """The pods that were recorded last, however long ago: whoever watches now begins with what was seen before."""
        rows: Any = await self._redis.hgetall(keys.pods(namespace))
        return [*(await self._of(namespace, _POD, self._read_pods, rows)).values()]

    async def _numbers(self, namespace: str, rows: Mapping[str, bytes | None]) -> dict[str, float]:
        """Those of these fields that are there and are numbers. A view without its times is none."""
        there = {field: row for field, row in rows.items() if row is not None}
        return await self._read_numbers.many(keys.pods(namespace), there)

    async def _of(
        self, namespace: str, prefix: str, read: RecordReader[Record], rows: Mapping[bytes, bytes]
    ) -> dict[str, Record]:
        """The readable records of pods, or of objects, by name."""
        own = {field: row for field, row in rows.items() if field.startswith(prefix.encode())}
        found = await read.many(keys.pods(namespace), own)
        return {field.decode()[len(prefix) :]: record for field, record in found.items()}


def _lists_objects(listed: bytes | None, served: bytes | None) -> bool:
    """Whether objects could be listed. A version that did not record it told of none in both cases."""
    if served is None:
        return listed is not None and listed.isdigit() and int(listed) > 0
    return served == b"1"


def _field(seen: Pod | EphemeralRunner) -> str:
    return (_POD if isinstance(seen, Pod) else _OBJECT) + seen.name


def _bearer(seen: Pod | EphemeralRunner) -> str:
    """The field of the runner that an object bears, if that is not called as the object is; else empty."""
    if isinstance(seen, Pod) or seen.runner_name in ("", seen.name):
        return ""
    return _BEARER + seen.runner_name


def _row(seen: Pod | EphemeralRunner) -> bytes:
    return f"{seen.uid}\0{seen.version}\0".encode() + (
        _pods.encode(seen) if isinstance(seen, Pod) else _objects.encode(seen)
    )
