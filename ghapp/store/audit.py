"""The audit log: who changed what, when, through which channel, and from where."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Any, NamedTuple

from redis.asyncio import Redis

from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.store import keys
from ghapp.store.codec import Codec
from ghapp.store.quarantine import Member, RecordReader
from ghapp.wording import time_of

MOST = 1_200
"""Maximum of entries per trail and installation.

Trimming reads all of them. So it begins at 1,100, down to 1,000, and at the maximum if entries begin and do not end.
"""

BEGUN = "begun"
"""The result of a change that is under way, or whose process crashed before it knew the result."""

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

    ATTEMPTS = "attempts"
    """What people and tokens wanted to change and did not: it was refused, or was so already."""

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
        subject: the pool, `*` for all of them, the runner, the delivery or the token; empty without one.
        why: the reason that was given; empty without one.
        result: such as `paused`.
        address: the client's address, of a command the name of its host, of a check run its repository; empty where
            there is none.
        until: when the pause that is in effect ends by itself (epoch seconds); None: never, or it is no pause.
        detail: the rest of the result in words, such as the pauses that a resume ended and the outcome of its sweep, or
            the end that a pause had before; empty without one.
        ended_at: when the work that a press asked for had its result (epoch seconds); None: it was not asked for by a
            press, or its result is of the time of the entry.
    """

    at: float
    who: str
    channel: str
    action: str
    subject: str
    why: str
    result: str
    address: str = ""
    until: float | None = None
    detail: str = ""
    ended_at: float | None = None

    @property
    def change(self) -> str:
        """The action and its subject, as `pause linux`."""
        subject = "all pools" if self.subject == ALL_POOLS else self.subject
        return f"{self.action} {subject}".strip()

    @property
    def outcome(self) -> str:
        """The result in words (most are one code, such as `nothing-to-resume`), the end of a pause, and the detail."""
        words = self.result if " " in self.result else self.result.replace("-", " ")
        words = words if self.until is None else f"{words} until {time_of(self.until)}"
        return f"{words}; {self.detail}" if self.detail else words


_entries = Codec("audit-entry", AuditEntry)


class ChangeOutcome:
    """The result of a change, set by what makes it.

    Attributes:
        result: such as `paused`.
        has_effect: False if nothing was changed.
        until: when a pause ends by itself; None: never, or it is no pause.
        detail: the rest of the result in words; empty without one.
        entry: the entry with the result, once it is recorded; None until then.
    """

    def __init__(self) -> None:
        self.result, self.has_effect, self.detail = "", True, ""
        self.until: float | None = None
        self.entry: AuditEntry | None = None

    def set(self, result: str, *, has_effect: bool = True, until: float | None = None, detail: str = "") -> None:
        """Sets the result."""
        self.result, self.has_effect, self.until, self.detail = result, has_effect, until, detail


class AuditLog:
    """The audit logs of all installations; `keys.ALL_ORGS` has what concerns all of them."""

    def __init__(self, redis: Redis) -> None:
        self._redis, self._read = redis, RecordReader(redis, _entries)

    @asynccontextmanager
    async def change(
        self, installation: int, entry: AuditEntry, trail: Trail = Trail.CHANGES
    ) -> AsyncIterator[ChangeOutcome]:
        """Records a change before it is made, so that a crash loses no entry, and its result afterwards.

        Without effect it is no change: the entry moves to the attempts, or is deleted if a controller only repeated
        itself. After an error it stays begun, for what was changed until then is not known.
        """
        begun = _entries.encode(entry._replace(result=BEGUN))
        key, outcome = keys.audit(installation, trail), ChangeOutcome()
        await self._add(key, begun, most=MOST)  # more than changes without effect ever need
        yield outcome
        outcome.entry = entry._replace(result=outcome.result, until=outcome.until, detail=outcome.detail)
        ended = _entries.encode(outcome.entry)
        if outcome.has_effect:
            await self._add(key, ended, instead_of=(key, begun))
        elif trail is Trail.CHANGES:
            await self._add(keys.audit(installation, Trail.ATTEMPTS), ended, instead_of=(key, begun))
        else:
            await self._redis.lrem(key, 1, begun)  # type: ignore[arg-type]

    async def record(self, installation: int, entry: AuditEntry, trail: Trail = Trail.CHANGES) -> None:
        """Records what is done, or was refused."""
        await self._add(keys.audit(installation, trail), _entries.encode(entry))

    async def conclude(self, installation: int, entry: AuditEntry, ended: AuditEntry) -> None:
        """Replaces an entry that was recorded before its work was done."""
        key, begun = keys.audit(installation, Trail.CHANGES), _entries.encode(entry)
        await self._add(key, _entries.encode(ended), instead_of=(key, begun))

    async def latest(self, installation: int, most: int, trail: Trail = Trail.CHANGES) -> list[AuditEntry]:
        """Returns the `most` entries that ended last, in the order of their times, the latest first."""
        key = keys.audit(installation, trail)
        rows: Any = await self._redis.lrange(key, 0, most - 1)
        found = await self._read.many(key, {Member(row): row for row in rows})
        return sorted(found.values(), key=lambda entry: -entry.at)  # work that began first may end last

    async def _add(
        self, key: str, row: bytes, *, instead_of: tuple[str, bytes] | None = None, most: int | None = None
    ) -> None:
        """Adds a row, in place of another one in one transaction; trims a trail with more than `most` rows."""
        async with self._redis.pipeline(transaction=True) as pipe:
            if instead_of is not None:
                pipe.lrem(instead_of[0], 1, instead_of[1])  # type: ignore[arg-type]
            pipe.lpush(key, row)
            pipe.expire(key, KEPT_SECONDS)
            answers = await pipe.execute()
        if answers[-2] > (MOST - MOST // 12 if most is None else most):
            await self._trim(key)

    async def _trim(self, key: str) -> None:
        """Deletes rows beyond 1,000; two processes that trim at the same time delete the same ones."""
        rows: Any = await self._redis.lrange(key, 0, -1)
        entries = await self._read.many(key, {Member(row): row for row in rows})
        actors = [_actor(entries.get(Member(row))) for row in rows]
        async with self._redis.pipeline(transaction=True) as pipe:
            for each in excess(actors, MOST - MOST // 6):
                pipe.lrem(key, -1, rows[each])
            await pipe.execute()


def excess(actors: Sequence[str], most: int) -> list[int]:
    """Returns the positions of the entries to delete, so that at most `most` stay.

    The oldest entry of the actor with the most goes first: no actor pushes out the entries of one with fewer.

    Args:
        actors: who each entry is of, the latest first.
        most: how many may stay.
    """
    positions = defaultdict[str, list[int]](list)
    for position, actor in enumerate(actors):
        positions[actor].append(position)

    def pop_oldest_of_largest() -> int:
        return max(positions.values(), key=lambda each: (len(each), each[-1:])).pop()

    return [pop_oldest_of_largest() for _ in range(len(actors) - most)]


def _actor(entry: AuditEntry | None) -> str:
    """Returns who an entry is of: names of people, tokens and users may be the same. Unreadable ones are of one."""
    return "" if entry is None else f"{entry.channel} {entry.who}"
