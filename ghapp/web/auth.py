"""Who asks: bearer tokens, bound to orgs and scopes."""

from __future__ import annotations

from cachetools import LRUCache, TTLCache
from redis.exceptions import RedisError
from starlette.requests import Request
from starlette.responses import Response

from ghapp.errors import StoreUnavailableError
from ghapp.store.tokens import Scope, Token, Tokens
from ghapp.web.problems import problem

FRESH_SECONDS = 1.0
"""How long a token is believed without asking Redis again: a revoked one is good for no longer."""

MOST = 10_000


class Gate:
    """Lets in whoever may."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._known: TTLCache[str, Token] = TTLCache(MOST, FRESH_SECONDS)
        self._last: LRUCache[str, Token] = LRUCache(MOST)

    async def refuse(self, request: Request, scope: Scope, org: str, now: float) -> Response | None:
        """None when the request may go on; else the problem. An org that is not the token's may not even exist."""
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not secret:
            return problem(401, "send Authorization: Bearer and a token of `ghapp token create`", CHALLENGE)
        token = await self._find(secret)
        if token is None:
            return problem(401, "this token is unknown, or was revoked", CHALLENGE)
        if not token.may(scope, org, now):
            return problem(403, f"this token does not open {org} for {scope}")
        return None

    async def _find(self, secret: str) -> Token | None:
        """The token; while Redis is away, one that was good when it was last asked for still is."""
        if secret in self._known:
            return self._known[secret]
        try:
            token = await self._tokens.find(secret)
        except (RedisError, OSError):
            if secret in self._last:
                return self._last[secret]
            raise StoreUnavailableError("Redis is away, and this token is not known here yet; ask again") from None
        if token is None:
            self._last.pop(secret, None)
        else:
            self._known[secret] = self._last[secret] = token
        return token


CHALLENGE = {"WWW-Authenticate": "Bearer"}
