"""Pages of GitHub's runner lists with their ETags, so that an unchanged page costs no rate limit.

An ETag is valid for one token; with a new token the pages are discarded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from redis.asyncio import Redis

from ghapp.installations.etag_page import EtagPage
from ghapp.store import keys
from ghapp.store.codec import Codec
from ghapp.store.quarantine import RecordReader

KEPT_SECONDS = 2 * 3600
"""After a page changed. A token is valid for an hour, and all pages count as changed with the next one."""


class StoredPage(NamedTuple):
    """A page as it is stored. Fields are only ever appended."""

    token: str
    etag: str
    deflated: bytes


_pages = Codec("page", StoredPage)


class EtagPages:
    """The pages of all installations."""

    def __init__(self, redis: Redis) -> None:
        self._redis, self._read = redis, RecordReader(redis, _pages)

    async def of(self, installation: int, token: str) -> dict[int, EtagPage]:
        """Returns the pages of this token (its fingerprint), by number from 1."""
        key = keys.pages(installation)
        rows: Any = await self._redis.hgetall(key)
        stored = await self._read.many(key, rows)
        return {int(number): EtagPage(row.etag, row.deflated) for number, row in stored.items() if row.token == token}

    async def keep(self, installation: int, token: str, changed: Mapping[int, EtagPage], last: int) -> None:
        """Stores the changed pages, and deletes those after the last."""
        known: Any = await self._redis.hkeys(keys.pages(installation))
        behind = [row for row in known if int(row) > last]
        rows = {
            str(number): _pages.encode(StoredPage(token, page.etag, page.deflated)) for number, page in changed.items()
        }
        async with self._redis.pipeline(transaction=False) as pipe:
            if rows:
                pipe.hset(keys.pages(installation), mapping=rows)  # type: ignore[arg-type]
                pipe.expire(keys.pages(installation), KEPT_SECONDS)
            if behind:
                pipe.hdel(keys.pages(installation), *behind)
            await pipe.execute()
