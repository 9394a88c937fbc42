"""The check runs "Runner queue" of each installation, and which repositories opted out."""

from __future__ import annotations

from typing import Any

from redis.asyncio import Redis

from ghapp.store import keys
from ghapp.store.codec import Codec
from ghapp.store.quarantine import RecordReader
from ghapp.workflow_jobs.queue_check import QueueCheck

KEPT_SECONDS = 3 * 86_400
"""After the last change: longer than a job can wait, so that a check is completed and never created twice."""

MOST = 2_000
"""Maximum of checks per installation. No other commit gets a check until completed ones are deleted."""

QUIET_SECONDS = 3600
"""How long a repository's answer is kept."""

POSTS_AN_HOUR = 200
"""Maximum of posts per installation. GitHub allows 500 content-creating requests an hour, for all purposes."""

_checks = Codec("queue-check", QueueCheck)


class QueueChecks:
    """The checks of all installations. Writers must have the lock `queue` of the installation."""

    def __init__(self, redis: Redis) -> None:
        self._redis, self._read = redis, RecordReader(redis, _checks)

    async def all(self, installation: int) -> dict[str, QueueCheck]:
        """Returns all checks, by `queue_check.place_of`."""
        rows: Any = await self._redis.hgetall(keys.queue_checks(installation))
        stored = {place.decode(errors="replace"): row for place, row in rows.items()}
        return await self._read.many(keys.queue_checks(installation), stored)

    async def any(self, installation: int) -> bool:
        """True if there is a check, completed ones included."""
        return bool(await self._redis.exists(keys.queue_checks(installation)))

    async def keep(self, installation: int, place: str, check: QueueCheck) -> None:
        """Records a check."""
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.hset(keys.queue_checks(installation), place, _checks.encode(check))
            pipe.expire(keys.queue_checks(installation), KEPT_SECONDS)
            await pipe.execute()

    async def forget(self, installation: int, *places: str) -> None:
        """Deletes checks."""
        if places:
            await self._redis.hdel(keys.queue_checks(installation), *places)

    async def is_quiet(self, installation: int, repository: str) -> bool | None:
        """Returns whether a repository opted out; None if that was not read within the hour."""
        row: Any = await self._redis.get(keys.quiet(installation, repository))
        return None if row is None else row == b"1"

    async def remember_quiet(self, installation: int, repository: str, *, quiet: bool) -> None:
        """Records whether a repository opted out, for an hour."""
        row = b"1" if quiet else b"0"
        await self._redis.set(keys.quiet(installation, repository), row, ex=QUIET_SECONDS)

    async def may_post(self, installation: int, now: float) -> bool:
        """Counts a post; returns False if there were `POSTS_AN_HOUR` in this hour of the clock."""
        key = keys.queue_posts(installation, int(now // 3600))
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.incr(key)
            pipe.expire(key, 3600)
            posts, _ = await pipe.execute()
        return int(posts) <= POSTS_AN_HOUR
