"""Authenticates requests by bearer tokens, which are bound to orgs and scopes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from starlette.exceptions import HTTPException
from starlette.requests import Request

from ghapp.store.audit import Channel
from ghapp.store.tokens import Scope, Token, Tokens, could_be_token, digest
from ghapp.untrusted_text import shell_command
from ghapp.web.cache import Cache

MOST = 10_000
BEARER = b"Bearer "


class Authenticator:
    """Checks bearer tokens. A revoked token may work for one more second; while Redis is down, cached tokens work.

    Only digests are kept in memory: comparing digests leaks nothing about a secret, and no secret outlives its
    request. Tokens have 256 bits, so guessing is hopeless, and failures are not limited: many clients may share the
    address of a proxy, and one of them with an old token must not lock out the others.
    """

    channel = Channel.API
    """Through what the allowed changes come."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._known: Cache[bytes, Token] = Cache(MOST, MOST)

    async def require(self, request: Request, scope: Scope, org: str, now: float) -> Token:
        """Returns the token of a request that it allows. Orgs that the token lacks need not exist.

        Raises:
            HTTPException: it is not: 401 or 403.
        """
        token = await self.token(request, now)
        if not token.may(scope, org, now):
            challenge = {"WWW-Authenticate": f'Bearer error="insufficient_scope", scope="{scope}"'}
            create = shell_command("ghapp", "token", "create", "--org", org, "--scope", scope)
            raise HTTPException(
                403,
                f"this token has no scope {scope} for {org}; an admin of ghapp makes one with `{create}`",
                challenge,
            )
        return token

    async def require_admin_of_all(self, request: Request, orgs: Iterable[str], now: float) -> None:
        """Checks that the token is an admin's of each of these orgs: for what may concern any of them.

        Raises:
            HTTPException: it is not: 401 or 403.
        """
        await self.token(request, now)
        for org in orgs:
            await self.require(request, "admin", org, now)

    async def token(self, request: Request, now: float) -> Token:
        """Returns the valid token of a request.

        Raises:
            HTTPException: 401: it has none.
        """
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not secret:
            raise _unauthorized("send Authorization: Bearer with a token of `ghapp token create`", "Bearer")
        key = digest(secret) if could_be_token(secret) else None
        token = None if key is None else await self._known.read(key, lambda: self._tokens.find(key))
        if token is None:
            raise _unauthorized(f"this token is unknown, or was revoked; {MAKE_ANOTHER}", INVALID)
        if now >= token.expires_at:
            raise _unauthorized(f"this token has expired; {MAKE_ANOTHER}", INVALID)
        return token

    def is_known_to_allow(self, authorization: bytes, scope: Scope, org: str, now: float) -> bool:
        """True if the `Authorization` header is that of a cached token that allows this; False if `require` decides."""
        if not authorization.startswith(BEARER):
            return False
        token = self._known.fresh(hashlib.sha256(authorization[len(BEARER) :]).digest())
        return token is not None and token.may(scope, org, now)

    async def who(self, request: Request) -> str:
        """Returns how records name the token of an allowed request; token names need not be unique."""
        key = digest(request.headers["authorization"].partition(" ")[2])
        token = await self._known.read(key, lambda: self._tokens.find(key))
        if token is None:  # revoked since it was checked
            return "token"
        return f"token {token.name} ({token.id})" if token.name else f"token {token.id}"


class CommandAuthenticator(Authenticator):
    """Allows the commands of this process everything: they have Redis. Records name the user of the process."""

    channel = Channel.COMMAND

    def __init__(self, tokens: Tokens, user: str) -> None:
        super().__init__(tokens)
        self._user = user

    async def require(self, request: Request, _scope: Scope, _org: str, now: float) -> Token:
        """Returns a token of every organization."""
        return await self.token(request, now)

    async def token(self, _request: Request, now: float) -> Token:
        """Returns a token of every organization."""
        return _EveryOrg("", self._user, (), ("admin",), now, now)

    async def who(self, _request: Request) -> str:
        """Returns the name of the user."""
        return self._user


class _EveryOrg(Token):
    """A token of every organization, for commands that have Redis."""

    def may(self, _scope: Scope, _org: str, _now: float) -> bool:
        return True


MAKE_ANOTHER = "an admin of ghapp makes another with `ghapp token create`"
INVALID = 'Bearer error="invalid_token"'


def _unauthorized(detail: str, challenge: str) -> HTTPException:
    return HTTPException(401, detail, {"WWW-Authenticate": challenge})
