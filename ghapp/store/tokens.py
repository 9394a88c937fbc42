"""Bearer tokens of controllers: only their hashes are kept, so that whoever reads Redis holds none."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import Any, Literal

from redis.asyncio import Redis

from ghapp.store import keys
from ghapp.store.codec import DROPPED, Codec
from ghapp.store.quarantine import RecordReader

Scope = Literal["read", "claim", "admin"]
SCOPES: tuple[Scope, ...] = ("read", "claim", "admin")
PREFIX = "ghapp_"


@dataclass(frozen=True, slots=True)
class Token:
    """What a token may do, and until when (epoch seconds; None: for ever). `id` names it without giving it away."""

    id: str
    name: str
    orgs: tuple[str, ...]
    scopes: tuple[Scope, ...]
    created_at: float
    expires_at: float | None = None

    def may(self, scope: Scope, org: str, now: float) -> bool:
        """Whether it opens that org at that scope; `admin` opens every scope."""
        alive = self.expires_at is None or now < self.expires_at
        opens = scope in self.scopes or "admin" in self.scopes
        return alive and opens and org.lower() in (each.lower() for each in self.orgs)


_tokens = Codec("token", Token, unknown={frozenset(SCOPES): DROPPED})

SECRET_BYTES = 32


def could_be_token(secret: str) -> bool:
    """Whether it is of a token's shape; nothing else is worth a question."""
    return secret.startswith(PREFIX) and len(secret) <= len(PREFIX) + 2 * SECRET_BYTES and secret.isascii()


def digest(secret: str) -> bytes:
    """What is kept of a token. It is random and long, so one fast hash is enough."""
    return hashlib.sha256(secret.encode()).digest()


class Tokens:
    """All bearer tokens. Looking one up by its digest tells nothing by its timing: the digest is not the secret."""

    def __init__(self, redis: Redis) -> None:
        self._redis, self._read = redis, RecordReader(redis, _tokens)

    async def create(
        self, name: str, orgs: tuple[str, ...], scopes: tuple[Scope, ...], now: float, expires_at: float | None = None
    ) -> tuple[str, Token]:
        """Make a token; the secret is returned this once and never again."""
        secret = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
        token = Token(secrets.token_hex(4), name, orgs, scopes, now, expires_at)
        await self._redis.hset(keys.TOKENS, digest(secret).hex(), _tokens.encode(token))
        return secret, token

    async def find(self, digested: bytes) -> Token | None:
        """What the secret of that `digest` may do; None when it is none of ours, or was revoked."""
        row: Any = await self._redis.hget(keys.TOKENS, digested.hex())
        return await self._read.one(keys.TOKENS, row, digested.hex())

    async def all(self) -> list[Token]:
        """Every token, oldest first."""
        return sorted((await self._all()).values(), key=lambda token: token.created_at)

    async def revoke(self, token_id: str) -> bool:
        """Take a token back at once; False when there is none of that id."""
        for field, token in (await self._all()).items():
            if token.id == token_id:
                return bool(await self._redis.hdel(keys.TOKENS, field))
        return False

    async def _all(self) -> dict[str, Token]:
        rows: Any = await self._redis.hgetall(keys.TOKENS)
        return await self._read.many(keys.TOKENS, {field.decode(): row for field, row in rows.items()})
