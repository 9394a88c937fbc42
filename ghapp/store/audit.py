"""The audit log: who changed what, when, through which channel, and from where."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

from redis.asyncio import Redis

from ghapp.store import keys
from ghapp.store.codec import Codec
from ghapp.store.quarantine import Member, RecordReader

MOST = 1_000
"""Maximum of entries per trail and installation, the latest."""

KEPT_SECONDS = 365 * 86_400


class Channel(StrEnum):
    """Through what a change came."""

    PAGE = "page"
    API = "API"
    COMMAND = "command"
    CHECK_RUN = "check run"


class Trail(StrEnum):
    """A part of the log with a bound of its own: what programs and strangers do often does not push out the rest."""

    CHANGES = "changes"
    """What people and tokens changed."""

    CONTROLLERS = "controllers"
    """What controllers declared: claims and their releases, removed and replaced runners, deploys."""

    SIGN_INS = "sign-ins"
    """Who signed in and out."""


class AuditEntry(NamedTuple):
    """One change. Fields are only ever appended.

    Attributes:
        at: epoch seconds.
        who: the login, the token, the user of the command, or `holder of the key`.
        channel: a `Channel`.
        action: such as `pause`.
        subject: the pool, runner, delivery or token; empty for the whole organization.
        why: the reason that was given; empty without one.
        result: such as `paused`.
        address: the client's address; empty where there is none.
    """

    at: float
    who: str
    channel: str
    action: str
    subject: str
    why: str
    result: str
    address: str = ""


_entries = Codec("audit-entry", AuditEntry)


class AuditLog:
    """The audit logs of all installations; `keys.ALL_ORGS` has what concerns all of them."""

    def __init__(self, redis: Redis) -> None:
        self._redis, self._read = redis, RecordReader(redis, _entries)

    async def record(self, installation: int, entry: AuditEntry, trail: Trail = Trail.CHANGES) -> None:
        """Adds an entry, and deletes the oldest beyond `MOST`."""
        key = keys.audit(installation, trail)
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.lpush(key, _entries.encode(entry))
            pipe.ltrim(key, 0, MOST - 1)
            pipe.expire(key, KEPT_SECONDS)
            await pipe.execute()

    async def latest(self, installation: int, most: int, trail: Trail = Trail.CHANGES) -> list[AuditEntry]:
        """Returns up to `most` entries, the latest first."""
        key = keys.audit(installation, trail)
        rows: Any = await self._redis.lrange(key, 0, most - 1)
        found = await self._read.many(key, {Member(row): row for row in rows})
        return [*found.values()]
