"""GitHub as the App itself sees it; `tenant` opens it as one installation."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
from githubkit import AppAuthStrategy, TokenAuthStrategy

from ghapp.credentials import AppCredentials
from ghapp.errors import (
    GitHubUnavailableError,
    InstallationGoneError,
    InstallationSuspendedError,
    PermissionMissingError,
    UnauthorizedError,
)
from ghapp.github import wire
from ghapp.github.installation_client import InstallationClient, RateLimitedCall
from ghapp.github.ports import RateLimiter, TokenCache
from ghapp.github.transport import NOT_FOUND, PER_PAGE, GitHubResponse, GitHubTransport, expect, open_client
from ghapp.health.installation import Installation

THE_APP = 0
"""In place of an installation: the App's own limits. GitHub counts those apart, and no installation has this id."""


class GitHub:
    """The API, as the App. Use it within `GitHub.open`."""

    def __init__(
        self,
        api_url: str,
        credentials: AppCredentials,
        token_cache: TokenCache,
        meter: RateLimiter,
        client: httpx.AsyncClient,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._api_url, self._vault, self._meter, self._client, self._clock = api_url, token_cache, meter, client, clock
        self._as_app = GitHubTransport(AppAuthStrategy(credentials.app_id, credentials.private_key), api_url, client)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        api_url: str,
        credentials: AppCredentials,
        token_cache: TokenCache,
        meter: RateLimiter,
        clock: Callable[[], float] = time.time,
    ) -> AsyncIterator[GitHub]:
        """Open the connections, and close them at the end. `clock` tells epoch seconds."""
        async with open_client(api_url) as client:
            yield cls(api_url, credentials, token_cache, meter, client, clock)

    async def installations(self) -> list[Installation]:
        """Every installation of the App; complete or an error."""
        found: list[Installation] = []
        for page in range(1, 1000):
            answer = await self.send("GET", "/app/installations", per_page=PER_PAGE, page=page)
            rows = wire.installations(expect(answer, "/app/installations"))
            found += rows
            if len(rows) < PER_PAGE:
                return found
        raise GitHubUnavailableError("GET /app/installations: the list has no end")

    async def installation(self, installation: int) -> Installation:
        """One installation as it is now.

        Raises:
            InstallationGoneError: the App is not installed there any more.
        """
        path = f"/app/installations/{installation}"
        answer = await self.send("GET", path)
        if answer.status == NOT_FOUND:
            raise InstallationGoneError(f"GET {path}: the App is not installed there")
        return wire.installation(expect(answer, path))

    async def installation_client(self, installation: Installation, ceiling: float = 1.0) -> InstallationClient:
        """The API as one installation sees it; mints a token when there is none.

        Args:
            installation: whose token.
            ceiling: the share of the hourly limit up to which its calls may go.
        """

        async def mint() -> wire.InstallationToken:
            return await self._mint(installation.id)

        token = await self._vault.token(installation.id, mint, self._clock())
        transport = GitHubTransport(TokenAuthStrategy(token.secret), self._api_url, self._client)
        toll = RateLimitedCall(self._meter, installation.id, ceiling)
        return InstallationClient(installation, transport, token, self._vault, toll, self._clock)

    async def forget_token(self, installation: int) -> None:
        """Have the next `tenant` mint a token: this one keeps the permissions that it was minted with."""
        await self._vault.forget(installation)

    async def send(
        self, method: str, path: str, *, json: Any = None, ceiling: float = 1.0, **params: str | int
    ) -> GitHubResponse:
        """One request as the App itself, within its own limits, up to that share of the hour; see `Transport.send`."""

        async def once() -> GitHubResponse:
            return await self._as_app.send(method, path, headers=None, json=json, **params)

        try:
            return await RateLimitedCall(self._meter, THE_APP, ceiling).pay(method, once)
        except UnauthorizedError:
            raise UnauthorizedError(
                f"{method} {path}: GitHub does not accept the App's id and key: GHAPP_APP_ID and the private key must "
                "be of one App, and this machine's clock must be right"
            ) from None

    async def _mint(self, installation: int) -> wire.InstallationToken:
        path = f"/app/installations/{installation}/access_tokens"
        try:
            answer = await self.send("POST", path)
        except PermissionMissingError:
            raise InstallationSuspendedError(f"POST {path}: the organization suspended the App") from None
        if answer.status == NOT_FOUND:
            raise InstallationGoneError(f"POST {path}: the App is not installed there")
        return wire.installation_token(expect(answer, path))
