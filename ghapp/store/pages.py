"""The runner lists as GitHub last answered them, so that an unchanged page costs nothing.

An ETag holds for one token; with a new token the pages are forgotten.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from redis.asyncio import Redis

from ghapp.store import keys


class Page(NamedTuple):
    """A page: the ETag it came with, and its body as GitHub sent it."""

    etag: str
    body: bytes


class _Kept(NamedTuple):
    token: str
    etag: str
    deflated: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Kept).decode


class Pages:
    """Pages of all installations."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def of(self, installation: int, token: str) -> dict[int, Page]:
        """The pages that this token (its fingerprint) was given, by number from 1."""
        rows: Any = await self._redis.hgetall(keys.pages(installation))
        kept = {int(number): _decode(row) for number, row in rows.items()}
        return {
            number: Page(row.etag, zlib.decompress(row.deflated)) for number, row in kept.items() if row.token == token
        }

    async def keep(self, installation: int, token: str, changed: Mapping[int, Page], last: int) -> None:
        """Keep the pages that changed, and forget those behind the last."""
        known: Any = await self._redis.hkeys(keys.pages(installation))
        behind = [row for row in known if int(row) > last]
        rows = {
            str(number): _encode(_Kept(token, page.etag, zlib.compress(page.body, 1)))
            for number, page in changed.items()
        }
        async with self._redis.pipeline(transaction=False) as pipe:
            if rows:
                pipe.hset(keys.pages(installation), mapping=rows)  # type: ignore[arg-type]
            if behind:
                pipe.hdel(keys.pages(installation), *behind)
            await pipe.execute()
