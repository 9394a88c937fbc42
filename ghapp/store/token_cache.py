"""Installation tokens, shared by all processes and sealed, so that access to Redis is not enough to use them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol

from redis.asyncio import Redis

from ghapp.store import keys
from ghapp.store.codec import Codec
from ghapp.store.locks import Locks
from ghapp.store.sealing import Seal

MINIMUM_LEFT_SECONDS = 300.0
"""Tokens that expire sooner are not handed out, so that a token does not expire during a sweep."""


class MintedToken(Protocol):
    """A token as GitHub gives it; `expires_at` in epoch seconds."""

    @property
    def secret(self) -> str:
        """The token to send."""

    @property
    def expires_at(self) -> float:
        """When it expires."""


class SharedToken(NamedTuple):
    """A token that all processes use, and when it was minted (epoch seconds)."""

    secret: str
    minted_at: float


_tokens = Codec("installation-token", SharedToken)


class SharedTokens:
    """The tokens of all installations."""

    def __init__(self, redis: Redis, private_key: str) -> None:
        """`private_key` is the App's, as PEM."""
        self._redis, self._locks, self._seal = redis, Locks(redis), Seal(_tokens, private_key)

    async def token(self, installation: int, mint: Callable[[], Awaitable[MintedToken]], now: float) -> SharedToken:
        """Returns the shared token; if none is valid, one process mints a token for all."""
        while True:
            if (kept := await self._kept(installation)) is not None:
                return kept
            async with self._locks.acquire("mint", installation) as is_acquired:
                if is_acquired:
                    # Another process may have minted one between the read and the lock.
                    if (kept := await self._kept(installation)) is not None:
                        return kept
                    minted = await mint()
                    shared = SharedToken(minted.secret, now)
                    await self._keep(installation, shared, minted.expires_at)
                    return shared
            await asyncio.sleep(0.05)

    async def forget(self, installation: int) -> None:
        """Deletes a token that GitHub no longer accepts."""
        await self._redis.delete(keys.credential(installation))

    async def _kept(self, installation: int) -> SharedToken | None:
        key = keys.credential(installation)
        row: Any = await self._redis.get(key)
        return self._seal.open(key, row)

    async def _keep(self, installation: int, token: SharedToken, expires_at: float) -> None:
        lasts = int((expires_at - token.minted_at - MINIMUM_LEFT_SECONDS) * 1000)
        if lasts <= 0:
            return
        key = keys.credential(installation)
        await self._redis.set(key, self._seal.close(key, token), px=lasts)
