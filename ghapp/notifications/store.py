"""What people were notified of, and the notifications that wait to be sent."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from redis.asyncio import Redis

from ghapp.notifications.conditions import Notified, Topic
from ghapp.store import keys
from ghapp.store.codec import DROPPED, Codec
from ghapp.store.quarantine import RecordReader

MOST_PENDING = 1_000
"""Of all receivers; beyond that, the oldest are dropped."""

PENDING_SECONDS = 2 * 86_400
"""After the last one was added. Each is given up after a day."""


class PendingNotification(NamedTuple):
    """A notification that one receiver has not got yet. Fields are only ever appended. Times are epoch seconds.

    Attributes:
        receiver: digest of its address, which is a secret.
        title: one line.
        body: plain text.
        severity: info, success, warning or failure.
        created_at: when it was decided on.
        tries: failed attempts.
        again_at: no attempt is made before this time.
        org: the organization.
        topic: the kind of its condition; empty if that is not recorded.
    """

    receiver: str
    title: str
    body: str
    severity: str
    created_at: float
    tries: int = 0
    again_at: float = 0.0
    org: str = ""
    topic: str = ""


_notified = Codec("notified", Notified, unknown={Topic: DROPPED})
_pending = Codec("pending-notification", PendingNotification)


class Notifications:
    """The notifications of all installations. Writers must have the lock `notifications`."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._read_notified, self._read_pending = RecordReader(redis, _notified), RecordReader(redis, _pending)

    async def notified(self, installation: int) -> dict[str, Notified]:
        """Returns what people were last notified of, by the condition's key."""
        key = keys.notified(installation)
        rows: Any = await self._redis.hgetall(key)
        return await self._read_notified.many(key, {name.decode(): row for name, row in rows.items()})

    async def record(
        self, installation: int, records: Mapping[str, Notified | None], pending: Sequence[PendingNotification]
    ) -> None:
        """Stores changed records (None: deletes) and the notifications about them, all or nothing."""
        key = keys.notified(installation)
        async with self._redis.pipeline(transaction=True) as pipe:
            for name, record in records.items():
                if record is None:
                    pipe.hdel(key, name)
                else:
                    pipe.hset(key, name, _notified.encode(record))
            for each in pending:
                pipe.hset(keys.NOTIFICATIONS, secrets.token_hex(8), _pending.encode(each))
            if pending:
                pipe.expire(keys.NOTIFICATIONS, PENDING_SECONDS)
            await pipe.execute()

    async def pending(self) -> dict[str, PendingNotification]:
        """Returns the notifications that wait to be sent, by id, oldest first; drops those beyond `MOST_PENDING`."""
        rows: Any = await self._redis.hgetall(keys.NOTIFICATIONS)
        found = await self._read_pending.many(keys.NOTIFICATIONS, {name.decode(): row for name, row in rows.items()})
        unreadable = {name.decode() for name in rows} - found.keys()
        oldest = sorted(found, key=lambda name: found[name].created_at)
        excess = oldest[: max(0, len(oldest) - MOST_PENDING)]
        if unreadable or excess:
            await self._redis.hdel(keys.NOTIFICATIONS, *unreadable, *excess)
        return {name: found[name] for name in oldest[len(excess) :]}

    async def done(self, name: str) -> None:
        """Deletes a notification that was sent, or given up."""
        await self._redis.hdel(keys.NOTIFICATIONS, name)

    async def put_off(self, name: str, later: PendingNotification) -> None:
        """Records a failed attempt."""
        await self._redis.hset(keys.NOTIFICATIONS, name, _pending.encode(later))
