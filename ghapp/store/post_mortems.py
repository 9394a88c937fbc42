"""Which check run tells of a death, and what was said once."""

from __future__ import annotations

from typing import Any, NamedTuple

from redis.asyncio import Redis

from ghapp.store import keys
from ghapp.store.codec import Codec
from ghapp.store.quarantine import RecordReader

KEPT_SECONDS = 30 * 86_400
SAID_SECONDS = 86_400
REST_SECONDS = 60
"""After the log store gave no answer. Each question to one that is away takes seconds, and deaths come by hundreds."""


class PostedMortem(NamedTuple):
    """A check run's id, and the digest of what it says."""

    check_run: int
    digest: str


_posted = Codec("post-mortem", PostedMortem)


class PostMortems:
    """The post-mortems of all installations; a death goes by an id that is its own alone."""

    def __init__(self, redis: Redis) -> None:
        self._redis, self._read = redis, RecordReader(redis, _posted)

    async def posted(self, death_id: str) -> PostedMortem | None:
        """What tells of a death; None when nothing does, as far as we know."""
        row: Any = await self._redis.get(keys.post_mortem(death_id))
        return await self._read.one(keys.post_mortem(death_id), row)

    async def post(self, death_id: str, posted: PostedMortem) -> None:
        """Record what tells of a death."""
        await self._redis.set(keys.post_mortem(death_id), _posted.encode(posted), ex=KEPT_SECONDS)

    async def is_unpublished(self, installation: int, what: str) -> bool:
        """Whether this was not said of an installation in the last day; it counts as said from now on."""
        return bool(await self._redis.set(keys.said(installation, what), b"1", nx=True, ex=SAID_SECONDS))

    async def pause_log_store(self) -> None:
        """It gave no answer: for a minute nobody asks it."""
        await self._redis.set(keys.LOG_STORE_RESTS, b"1", ex=REST_SECONDS)

    async def is_log_store_paused(self) -> bool:
        """Whether it gave no answer a moment ago."""
        return bool(await self._redis.exists(keys.LOG_STORE_RESTS))
