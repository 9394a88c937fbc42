"""The audit log: who used which button of the page, when, and from where."""

from __future__ import annotations

from typing import Any, NamedTuple

from redis.asyncio import Redis

from ghapp.store import keys
from ghapp.store.codec import Codec
from ghapp.store.quarantine import Member, RecordReader

MOST = 1_000
"""Maximum of entries per installation, the latest."""

KEPT_SECONDS = 365 * 86_400


class AuditEntry(NamedTuple):
    """One use of a button. Fields are only ever appended.

    Attributes:
        at: epoch seconds.
        who: the login, or `this machine`.
        action: such as `pause`.
        subject: the pool, runner or delivery; empty for the whole organization.
        why: the reason that was given; empty without one.
        result: such as `paused`.
        address: the client's address.
    """

    at: float
    who: str
    action: str
    subject: str
    why: str
    result: str
    address: str


_entries = Codec("audit-entry", AuditEntry)


class AuditLog:
    """The audit logs of all installations; `keys.ALL_ORGS` has what concerns all of them."""

    def __init__(self, redis: Redis) -> None:
        self._redis, self._read = redis, RecordReader(redis, _entries)

    async def record(self, installation: int, entry: AuditEntry) -> None:
        """Adds an entry, and deletes the oldest beyond `MOST`."""
        key = keys.audit(installation)
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.lpush(key, _entries.encode(entry))
            pipe.ltrim(key, 0, MOST - 1)
            pipe.expire(key, KEPT_SECONDS)
            await pipe.execute()

    async def latest(self, installation: int, most: int) -> list[AuditEntry]:
        """Returns up to `most` entries, the latest first."""
        key = keys.audit(installation)
        rows: Any = await self._redis.lrange(key, 0, most - 1)
        found = await self._read.many(key, {Member(row): row for row in rows})
        return [*found.values()]
