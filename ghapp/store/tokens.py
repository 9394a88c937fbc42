"""API tokens of controllers. Only their hashes are stored, so that read access to Redis gives no usable token."""

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
DAY_SECONDS = 86_400.0
LIFETIME_SECONDS = 90 * DAY_SECONDS
SHOWN_SECONDS = 30 * DAY_SECONDS
"""For this time `ghapp token list` and `ghapp doctor` show a token that has expired."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token's scopes, orgs and expiry (epoch seconds). `id` names it without revealing it."""

    id: str
    name: str
    orgs: tuple[str, ...]
    scopes: tuple[Scope, ...]
    created_at: float
    expires_at: float

    def may(self, scope: Scope, org: str, now: float) -> bool:
        """True if the token is valid for that org and scope; `admin` includes every scope."""
        has_scope = scope in self.scopes or "admin" in self.scopes
        return now < self.expires_at and has_scope and org.lower() in (each.lower() for each in self.orgs)


_tokens = Codec("token", Token, unknown={frozenset(SCOPES): DROPPED})

SECRET_BYTES = 32


def could_be_token(secret: str) -> bool:
    """True if it has the form of a token; anything else is not looked up."""
    return secret.startswith(PREFIX) and len(secret) <= len(PREFIX) + 2 * SECRET_BYTES and secret.isascii()


def digest(secret: str) -> bytes:
    """Returns the stored hash of a token. Tokens are random and long, so one fast hash is enough."""
    return hashlib.sha256(secret.encode()).digest()


def new_token(
    name: str, orgs: tuple[str, ...], scopes: tuple[Scope, ...], now: float, lifetime: float = LIFETIME_SECONDS
) -> tuple[str, Token]:
    """Returns a token that is valid for `lifetime` seconds, and its secret, which is returned only here."""
    secret = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
    return secret, Token(secrets.token_hex(4), name, orgs, scopes, now, now + lifetime)


class Tokens:
    """All API tokens. The timing of a lookup by digest reveals nothing, because the digest is not the secret."""

    def __init__(self, redis: Redis) -> None:
        self._redis, self._read = redis, RecordReader(redis, _tokens)

    async def create(
        self,
        name: str,
        orgs: tuple[str, ...],
        scopes: tuple[Scope, ...],
        now: float,
        lifetime: float = LIFETIME_SECONDS,
    ) -> tuple[str, Token]:
        """Creates a token as `new_token` and stores it."""
        secret, token = new_token(name, orgs, scopes, now, lifetime)
        await self.put(secret, token)
        return secret, token

    async def put(self, secret: str, token: Token) -> None:
        """Stores a new token; those that expired long before it are deleted."""
        now = token.created_at
        old = [field for field, each in (await self._all()).items() if each.expires_at + SHOWN_SECONDS < now]
        if old:
            await self._redis.hdel(keys.TOKENS, *old)
        await self._redis.hset(keys.TOKENS, digest(secret).hex(), _tokens.encode(token))

    async def find(self, digested: bytes) -> Token | None:
        """Returns the token of a secret's `digest`; None if it is unknown or was revoked."""
        row: Any = await self._redis.hget(keys.TOKENS, digested.hex())
        return await self._read.one(keys.TOKENS, row, digested.hex())

    async def all(self) -> list[Token]:
        """Returns all tokens, oldest first."""
        return sorted((await self._all()).values(), key=lambda token: token.created_at)

    async def revoke(self, token_id: str) -> Token | None:
        """Revokes a token at once, and returns it; None if there is none of that id."""
        for field, token in (await self._all()).items():
            if token.id == token_id:
                return token if await self._redis.hdel(keys.TOKENS, field) else None
        return None

    async def _all(self) -> dict[str, Token]:
        rows: Any = await self._redis.hgetall(keys.TOKENS)
        return await self._read.many(keys.TOKENS, {field.decode(): row for field, row in rows.items()})
