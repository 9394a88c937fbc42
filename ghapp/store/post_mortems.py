"""The check run of each post-mortem, and markers of messages that are published once a day."""

from __future__ import annotations

from typing import Any, NamedTuple

from redis.asyncio import Redis

from ghapp.store import keys
from ghapp.store.codec import Codec
from ghapp.store.quarantine import RecordReader

KEPT_SECONDS = 30 * 86_400
PUBLISHED_SECONDS = 86_400
BACKOFF_SECONDS = 60
"""After the log store gave no answer: a request then takes seconds, and there may be hundreds of deaths at once."""


class PostedMortem(NamedTuple):
    """A check run's id, the digest of its content, and the death's `store.deaths.identity` (empty if unknown)."""

    check_run: int
    digest: str
    death: str = ""


_posted = Codec("post-mortem", PostedMortem)


class PostMortems:
    """The post-mortems of all installations, by the id of the death."""

    def __init__(self, redis: Redis) -> None:
        self._redis, self._read = redis, RecordReader(redis, _posted)

    async def posted(self, death_id: str) -> PostedMortem | None:
        """Returns the check run of a death; None if none is known."""
        row: Any = await self._redis.get(keys.post_mortem(death_id))
        return await self._read.one(keys.post_mortem(death_id), row)

    async def post(self, death_id: str, posted: PostedMortem) -> None:
        """Records the check run of a death."""
        await self._redis.set(keys.post_mortem(death_id), _posted.encode(posted), ex=KEPT_SECONDS)

    async def mark_published(self, installation: int, what: str) -> bool:
        """Marks this message as published; returns True unless it was published in the last day."""
        return bool(await self._redis.set(keys.published(installation, what), b"1", nx=True, ex=PUBLISHED_SECONDS))

    async def back_off_log_store(self) -> None:
        """Records that the log store gave no answer; it is not queried for a minute."""
        await self._redis.set(keys.LOG_STORE_BACKOFF, b"1", ex=BACKOFF_SECONDS)

    async def is_log_store_backed_off(self) -> bool:
        """True within a minute after the log store gave no answer."""
        return bool(await self._redis.exists(keys.LOG_STORE_BACKOFF))
