"""GitHub's API, authenticated as the App; `installation_client` returns a client for one installation."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from ghapp.credentials import AppCredentials
from ghapp.decoding import LeftOutRows
from ghapp.errors import (
    GitHubUnavailableError,
    InstallationMissingError,
    InstallationSuspendedError,
    PermissionMissingError,
    UnauthorizedError,
)
from ghapp.github import wire
from ghapp.github.installation_client import InstallationClient, RateLimitedCall
from ghapp.github.ports import RateLimiter, TokenCache
from ghapp.github.response import NOT_FOUND, PER_PAGE, GitHubResponse, expect
from ghapp.installations.installation import Installation
from ghapp.installations.pacing import CallLimits
from ghapp.installations.scope import ScopeKind

if TYPE_CHECKING:
    import httpx

WITHIN_GITHUBS = CallLimits()
"""GitHub's own limits."""

THE_APP = 0
"""The App's own rate limit, in place of an installation id. GitHub counts it apart; no installation has id 0."""


class InstallationList(NamedTuple):
    """All installations of the App.

    Attributes:
        readable: those whose rows can be read.
        unreadable: the ids of the others.
        is_complete: False if a row has no readable id.
    """

    readable: list[Installation]
    unreadable: frozenset[int] = frozenset()
    is_complete: bool = True

    def with_known(self, known: Mapping[int, Installation]) -> list[Installation]:
        """Returns the installations that exist: one whose row cannot be read exists as it was known before."""
        read = {each.id for each in self.readable}
        unread = self.unreadable & known.keys() if self.is_complete else known.keys() - read
        return [*self.readable, *(known[each] for each in sorted(unread))]


class GitHub:
    """The API, authenticated as the App. Use it within `GitHub.open`.

    Attributes:
        left_out: what was odd in its answers, until that is recorded.
    """

    def __init__(
        self,
        api_url: str,
        credentials: AppCredentials,
        token_cache: TokenCache,
        rate_limiter: RateLimiter,
        client: httpx.AsyncClient,
        clock: Callable[[], float] = time.time,
        left_out: LeftOutRows | None = None,
        enterprise_tokens: TokenCache | None = None,
    ) -> None:
        from ghapp.github.transport import GitHubTransport

        self.left_out = LeftOutRows() if left_out is None else left_out
        self._token_cache, self._rate_limiter, self._clock = token_cache, rate_limiter, clock
        self._enterprise_tokens = enterprise_tokens
        self._as_app = GitHubTransport.as_app(credentials.app_id, credentials.private_key, api_url, client)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        api_url: str,
        credentials: AppCredentials,
        token_cache: TokenCache,
        rate_limiter: RateLimiter,
        clock: Callable[[], float] = time.time,
        left_out: LeftOutRows | None = None,
        enterprise_tokens: TokenCache | None = None,
    ) -> AsyncIterator[GitHub]:
        """Opens the connections, and closes them at the end.

        Args:
            api_url: the API's base URL.
            credentials: the App's.
            token_cache: keeps the installations' tokens.
            rate_limiter: keeps the calls within the limits.
            clock: returns epoch seconds.
            left_out: gets what is odd in the answers.
            enterprise_tokens: the tokens of enterprises; None: their runners cannot be read.
        """
        from ghapp.github.transport import open_client

        async with open_client(api_url) as client:
            yield cls(api_url, credentials, token_cache, rate_limiter, client, clock, left_out, enterprise_tokens)

    async def installations(self) -> InstallationList:
        """Returns all installations of the App."""
        found = InstallationList([])
        for number in range(1, 1000):
            answer = await self.send("GET", "/app/installations", per_page=PER_PAGE, page=number)
            page = wire.installations(expect(answer, "/app/installations"), self.left_out)
            found = InstallationList(
                found.readable + page.installations,
                found.unreadable | page.unreadable,
                found.is_complete and not page.unnamed,
            )
            if page.rows < PER_PAGE:
                return found
        raise GitHubUnavailableError("GET /app/installations: the list has no end")

    async def installation(self, installation: int) -> Installation:
        """Returns the present state of one installation.

        Raises:
            InstallationMissingError: the App was uninstalled there.
        """
        path = f"/app/installations/{installation}"
        answer = await self.send("GET", path)
        if answer.status == NOT_FOUND:
            raise InstallationMissingError(f"GET {path}: the App is not installed there")
        return wire.installation(expect(answer, path), self.left_out)

    async def installation_client(
        self,
        installation: Installation,
        limits: CallLimits = WITHIN_GITHUBS,
        token_limits: CallLimits = WITHIN_GITHUBS,
    ) -> InstallationClient:
        """Returns a client for one installation, or another scope; mints a token if none is cached.

        Args:
            installation: the installation, or another scope.
            limits: how much of its limits the client's calls may use up.
            token_limits: how much of the App's limits the call may use up that mints a token.

        Raises:
            UnauthorizedError: it is an enterprise, and there is no token of one.
        """
        caller, cache = installation.caller, self._token_cache
        if installation.kind is ScopeKind.ENTERPRISE:
            if self._enterprise_tokens is None:
                raise UnauthorizedError(f"{installation.org}: GHAPP_ENTERPRISE_TOKEN is not set")
            cache = self._enterprise_tokens

        async def mint() -> wire.InstallationToken:
            return await self._mint(caller, token_limits)

        token = await cache.token(caller, mint, self._clock())
        transport = self._as_app.with_token(token.secret)
        limited = RateLimitedCall(self._rate_limiter, caller, limits)
        return InstallationClient(installation, transport, token, cache, limited, self._clock, self.left_out)

    async def forget_token(self, installation: int) -> None:
        """Discards the token: a token keeps the permissions with which it was minted. The next client mints another."""
        await self._token_cache.forget(installation)

    async def send(
        self, method: str, path: str, *, json: Any = None, limits: CallLimits = WITHIN_GITHUBS, **params: str | int
    ) -> GitHubResponse:
        """Sends one request as the App, within its own limits; see `GitHubTransport.send`."""

        async def once() -> GitHubResponse:
            return await self._as_app.send(method, path, headers=None, json=json, **params)

        try:
            return await RateLimitedCall(self._rate_limiter, THE_APP, limits).send(method, once)
        except UnauthorizedError:
            raise UnauthorizedError(
                f"{method} {path}: GitHub does not accept the App's id and key; check that GHAPP_APP_ID and the "
                "private key are of one App, and that this machine's clock is right"
            ) from None

    async def _mint(self, installation: int, limits: CallLimits) -> wire.InstallationToken:
        path = f"/app/installations/{installation}/access_tokens"
        try:
            answer = await self.send("POST", path, limits=limits)
        except PermissionMissingError:
            raise InstallationSuspendedError(f"POST {path}: the organization suspended the App") from None
        if answer.status == NOT_FOUND:
            raise InstallationMissingError(f"POST {path}: the App is not installed there")
        return wire.installation_token(expect(answer, path))
