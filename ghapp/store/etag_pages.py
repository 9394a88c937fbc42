"""Pages of GitHub's runner lists with their ETags, so that an unchanged page costs no rate limit.

An ETag is valid for one token; with a new token the pages are discarded.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from redis.asyncio import Redis

from ghapp.store import keys
from ghapp.store.codec import Codec
from ghapp.store.quarantine import RecordReader


class EtagPage(NamedTuple):
    """A page: its ETag, and its body as GitHub sent it."""

    etag: str
    body: bytes


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
        """Returns the readable pages of this token (its fingerprint), by number from 1."""
        key = keys.pages(installation)
        rows: Any = await self._redis.hgetall(key)
        pages, corrupt = {}, {}
        for number, stored in (await self._read.many(key, rows)).items():
            if stored.token != token:
                continue
            try:
                pages[int(number)] = EtagPage(stored.etag, zlib.decompress(stored.deflated))
            except zlib.error:
                corrupt[number] = rows[number]
        await self._read.set_aside(key, corrupt)
        return pages

    async def keep(self, installation: int, token: str, changed: Mapping[int, EtagPage], last: int) -> None:
        """Stores the changed pages, and deletes those after the last."""
        known: Any = await self._redis.hkeys(keys.pages(installation))
        behind = [row for row in known if int(row) > last]
        rows = {
            str(number): _pages.encode(StoredPage(token, page.etag, zlib.compress(page.body, 1)))
            for number, page in changed.items()
        }
        async with self._redis.pipeline(transaction=False) as pipe:
            if rows:
                pipe.hset(keys.pages(installation), mapping=rows)  # type: ignore[arg-type]
            if behind:
                pipe.hdel(keys.pages(installation), *behind)
            await pipe.execute()
