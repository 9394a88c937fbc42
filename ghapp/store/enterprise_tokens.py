"""The configured tokens of enterprises: which of them GitHub lately refused, for all processes.

While a token is rotated, the old one and the new one are configured. The first is used that GitHub has not refused
within the last minutes, or else the one that was refused longest ago; so a token may be revoked before or after the
configuration has changed. Redis has hashes alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from redis.asyncio import Redis

from ghapp.errors import UnauthorizedError
from ghapp.store import keys

REFUSED_SECONDS = 600
"""How long another token is preferred to one that GitHub refused."""


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
