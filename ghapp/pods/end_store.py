"""Ends of runner pods that have yet to be recorded as deaths, and deletions of ghapp's own, whose ends are no deaths.

Ends are one stream per namespace. An end is added in the transaction that changes the snapshot, and deleted once it is
recorded: a watch that is killed in between leaves it to the next one, which sees no difference in the snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from redis.asyncio import Redis
from redis.asyncio.client import Pipeline

from ghapp.pods.pod import Pod
from ghapp.store import keys
from ghapp.store.codec import Codec
from ghapp.store.quarantine import RecordReader

MOST = 10_000
"""Ends of a namespace, the latest: of more, the oldest would not be kept as deaths either."""

KEPT_SECONDS = 7 * 86_400
"""After the last end was added, as long as the snapshot."""


class PodEnd(NamedTuple):
    """What happened to a runner's pod. Fields are only ever appended.

    Attributes:
        pod: in its last known state.
        vanished: True if the pod was deleted before an end of its runner was seen.
    """

    pod: Pod
    vanished: bool = False


class UnrecordedEnd(NamedTuple):
    """An end, and the id of its entry: a later entry has a greater id."""

    id: bytes
    end: PodEnd

    @property
    def added_at(self) -> float:
        """When it was added, by Redis' clock (epoch seconds): it may be recorded much later."""
        return int(self.id.partition(b"-")[0]) / 1000.0


_ends = Codec("pod-end", PodEnd)


class PodEnds:
    """The streams of all namespaces."""

    def __init__(self, redis: Redis) -> None:
        self._redis, self._read = redis, RecordReader(redis, _ends)

    def add(self, pipe: Pipeline, namespace: str, ends: Sequence[PodEnd]) -> None:
        """Adds ends, in this order, by a pipeline that the caller executes."""
        key = keys.pod_ends(namespace)
        for each in ends:
            pipe.xadd(key, {"end": _ends.encode(each)}, maxlen=MOST, approximate=True)
        if ends:
            pipe.expire(key, KEPT_SECONDS)

    async def unrecorded(self, namespace: str, after: bytes | None, most: int) -> list[UnrecordedEnd]:
        """Returns up to `most` ends after that entry, oldest first; None: from the first one."""
        key, first = keys.pod_ends(namespace), b"-" if after is None else b"(" + after
        while rows := await self._rows(key, first, most):
            found = await self._read.many(key, rows)
            if unreadable := [each for each in rows if each not in found]:
                await self._redis.xdel(key, *unreadable)  # otherwise each watch would find them again
            if found:
                return [UnrecordedEnd(entry_id, end) for entry_id, end in found.items()]
        return []

    async def recorded(self, namespace: str, entry_id: bytes) -> None:
        """Deletes an end that was recorded."""
        await self._redis.xdel(keys.pod_ends(namespace), entry_id)

    async def left(self, namespace: str) -> int:
        """Returns the number of ends that are not recorded yet."""
        return int(await self._redis.xlen(keys.pod_ends(namespace)))

    async def _rows(self, key: str, first: bytes, most: int) -> dict[bytes, bytes]:
        rows: Any = await self._redis.xrange(key, first, count=most)
        return {entry_id: fields.get(b"end", b"") for entry_id, fields in rows}


DELETIONS_KEPT_SECONDS = 7 * 86_400
"""A pod may be Terminating for days."""

MOST_DELETIONS = 10_000
"""Per installation, the latest."""


class OwnDeletions:
    """The deletions, by the uid of the pod or of its owner.

    They are kept apart from the runner's record, which changes: the registration may return while a finalizer is
    stuck, or another registration gets the name. A deletion is recorded before it is requested, and withdrawn if the
    API server refuses it or another client was faster; one without an answer stays.
    """

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def record(self, installation: int, uid: str, at: float) -> None:
        """Records a deletion that is about to be requested (epoch seconds)."""
        key = keys.own_deletions(installation)
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.zadd(key, {uid: at})
            pipe.zremrangebyscore(key, "-inf", at - DELETIONS_KEPT_SECONDS)
            pipe.zremrangebyrank(key, 0, -MOST_DELETIONS - 1)
            pipe.expire(key, DELETIONS_KEPT_SECONDS)
            await pipe.execute()

    async def withdraw(self, installation: int, uid: str) -> None:
        """Records that this deletion was not ours."""
        await self._redis.zrem(keys.own_deletions(installation), uid)

    async def has_any(self, installation: int, uids: Iterable[str]) -> bool:
        """True if ghapp requested the deletion of an object with one of these uids."""
        asked = [uid for uid in uids if uid]
        if not asked:
            return False
        found: Any = await self._redis.zmscore(keys.own_deletions(installation), asked)
        return any(at is not None for at in found)
