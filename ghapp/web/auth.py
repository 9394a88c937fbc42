"""Who asks: bearer tokens, bound to orgs and scopes."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from ghapp.store.tokens import Scope, Token, Tokens
from ghapp.web.cache import Cache
from ghapp.web.problems import problem

MOST = 10_000


class Gate:
    """Lets in whoever may. A revoked token is good for a second longer; while Redis is away, as it last was."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._known: Cache[str, Token] = Cache(MOST, MOST)

    async def refuse(self, request: Request, scope: Scope, org: str, now: float) -> Response | None:
        """None when the request may go on; else the problem. An org that is not the token's may not even exist."""
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not secret:
            return _unauthorized("send Authorization: Bearer and a token of `ghapp token create`", "Bearer")
        token = await self._known.read(secret, lambda: self._tokens.find(secret))
        if token is None:
            return _unauthorized("this token is unknown, or was revoked", INVALID)
        if token.expires_at is not None and now >= token.expires_at:
            return _unauthorized("this token has expired; make another with `ghapp token create`", INVALID)
        if not token.may(scope, org, now):
            challenge = {"WWW-Authenticate": f'Bearer error="insufficient_scope", scope="{scope}"'}
            return problem(403, f"this token does not open {org} for {scope}", challenge)
        return None

    async def who(self, request: Request) -> str:
        """Whose token a request bears that was not refused, as records name it."""
        _, _, secret = request.headers.get("authorization", "").partition(" ")
        token = await self._known.read(secret, lambda: self._tokens.find(secret))
        return "token" if token is None else f"token {token.name or token.id}"


INVALID = 'Bearer error="invalid_token"'


def _unauthorized(detail: str, challenge: str) -> Response:
    return problem(401, detail, {"WWW-Authenticate": challenge})
