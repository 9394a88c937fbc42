"""Tokens for GitHub, shared by all processes: minted ones of installations, configured ones of enterprises.

An installation's token is sealed, so that access to Redis is not enough to use it.

While an enterprise's token is rotated, the old one and the new one are configured. The first is used that GitHub has
not refused within the last minutes, or else the one that was refused longest ago; so a token may be revoked before or
after the configuration has changed. Redis has hashes alone.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from redis.asyncio import Redis

from ghapp.errors import UnauthorizedError
from ghapp.store import keys
from ghapp.store.codec import Codec, Seal
from ghapp.store.locks import Locks

MINIMUM_LEFT_SECONDS = 300.0
"""Tokens that expire sooner are not handed out, so that a token does not expire during a sweep."""

REFUSED_SECONDS = 600
"""How long another token is preferred to one that GitHub refused."""


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


@dataclass(frozen=True, slots=True)
class ConfiguredToken:
    """A token that a person made. GitHub's servers have known it for long."""

    secret: str = field(repr=False)
    minted_at: float = 0.0


class EnterpriseTokens:
    """A `TokenCache` that mints nothing.

    Args:
        redis: the client.
        tokens: the preferred one first.
    """

    def __init__(self, redis: Redis, tokens: Sequence[str]) -> None:
        self._redis, self._tokens = redis, tokens
        self._used: dict[int, str] = {}

    async def token(self, installation: int, mint: object = None, now: float = 0.0) -> ConfiguredToken:
        """Returns the first token that GitHub did not refuse lately for this enterprise.

        Raises:
            UnauthorizedError: no token is configured.
        """
        del mint, now
        if not self._tokens:
            raise UnauthorizedError("GHAPP_ENTERPRISE_TOKEN: not set, and a scope of [[scopes]] is an enterprise")
        async with self._redis.pipeline(transaction=False) as pipe:
            for each in self._tokens:
                pipe.pttl(_refusal(installation, each))
            left: Any = await pipe.execute()  # negative for a token that was not refused
        used = min(zip(left, self._tokens, strict=True), key=lambda each: max(0, each[0]))[1]
        self._used[installation] = used
        return ConfiguredToken(used)

    async def forget(self, installation: int) -> None:
        """Prefers the other tokens for `REFUSED_SECONDS`: GitHub refused the one that was used last."""
        if (used := self._used.get(installation)) is not None:
            await self._redis.set(_refusal(installation, used), 1, ex=REFUSED_SECONDS)


def _refusal(enterprise: int, token: str) -> str:
    return keys.refused_token(enterprise, hashlib.sha256(token.encode()).hexdigest()[:16])
