"""GitHub as this App uses it: as the App itself, and as one installation of it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

import httpx
from githubkit import AppAuthStrategy, TokenAuthStrategy

from ghapp.errors import (
    GitHubError,
    GitHubUnavailableError,
    InstallationGoneError,
    InstallationSuspendedError,
    PermissionMissingError,
)
from ghapp.github import wire
from ghapp.github.transport import NOT_FOUND, UNPROCESSABLE, Answer, Transport, open_client
from ghapp.health.evidence import Registration
from ghapp.health.installation import Installation
from ghapp.settings import AppCredentials

PER_PAGE = 100

Mint = Callable[[], Awaitable[wire.InstallationToken]]
Hear = Callable[[int, Mapping[str, str]], Awaitable[None]]
"""Told of each answer's headers, with the installation that it was given to: the budget's ear."""


class Vault(Protocol):
    """Keeps installation tokens for all processes, sealed."""

    async def token(self, installation: int, mint: Mint, now: float) -> str:
        """A token that still holds for some minutes; minted by one process for all when there is none."""


class Removal(StrEnum):
    """What became of a removal. The first two are success."""

    REMOVED = "removed"
    ALREADY_GONE = "already-gone"
    BUSY = "busy"


class Listing(NamedTuple):
    """A page of the runner list: its bytes and ETag; None where it has not changed since the given ETag."""

    body: bytes | None
    etag: str


class GitHub:
    """The API, as the App. Use it within `GitHub.open`."""

    def __init__(
        self, api_url: str, credentials: AppCredentials, vault: Vault, hear: Hear, client: httpx.AsyncClient
    ) -> None:
        self._api_url, self._vault, self._hear, self._client = api_url, vault, hear, client
        self._as_app = Transport(AppAuthStrategy(credentials.app_id, credentials.private_key), api_url, client)

    @classmethod
    @asynccontextmanager
    async def open(cls, api_url: str, credentials: AppCredentials, vault: Vault, hear: Hear) -> AsyncIterator[GitHub]:
        """Open the connections, and close them at the end."""
        async with open_client(api_url) as client:
            yield cls(api_url, credentials, vault, hear, client)

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

    async def tenant(self, installation: Installation) -> Tenant:
        """The API as one installation sees it; mints a token when there is none."""

        async def mint() -> wire.InstallationToken:
            return await self._mint(installation.id)

        secret = await self._vault.token(installation.id, mint, time.time())
        transport = Transport(TokenAuthStrategy(secret), self._api_url, self._client)
        return Tenant(installation, transport, fingerprint(secret), self._hear)

    async def send(self, method: str, path: str, *, json: Any = None, **params: str | int) -> Answer:
        """One request as the App itself; see `Transport.send`."""
        return await self._as_app.send(method, path, headers=None, json=json, **params)

    async def _mint(self, installation: int) -> wire.InstallationToken:
        path = f"/app/installations/{installation}/access_tokens"
        try:
            answer = await self.send("POST", path)
        except PermissionMissingError:
            raise InstallationSuspendedError(f"POST {path}: the organization suspended the App") from None
        if answer.status == NOT_FOUND:
            raise InstallationGoneError(f"POST {path}: the App is not installed there")
        return wire.installation_token(expect(answer, path))


class Tenant:
    """The API as one installation sees it."""

    def __init__(self, installation: Installation, transport: Transport, token: str, hear: Hear) -> None:
        """`token` is the token's fingerprint: ETags hold for one token alone."""
        self.installation, self.token = installation, token
        self._transport, self._hear = transport, hear

    async def list_runners(self, page: int, etag: str | None) -> Listing:
        """One page of up to a hundred runners, `page` from 1."""
        path = f"/orgs/{self.installation.org}/actions/runners"
        headers = {"If-None-Match": etag} if etag else {}
        answer = await self.send("GET", path, headers=headers, per_page=PER_PAGE, page=page)
        if answer.status == 304:  # noqa: PLR2004
            return Listing(None, etag or "")
        return Listing(expect(answer, path), answer.headers.get("etag", ""))

    async def runner(self, runner_id: int) -> Registration | None:
        """One runner; None for a 404, which proves nothing by itself."""
        path = f"/orgs/{self.installation.org}/actions/runners/{runner_id}"
        answer = await self.send("GET", path)
        return None if answer.status == NOT_FOUND else wire.runner(expect(answer, path))

    async def remove_runner(self, runner_id: int) -> Removal:
        """Take a registration away. A 404 is success; a busy runner stays."""
        path = f"/orgs/{self.installation.org}/actions/runners/{runner_id}"
        answer = await self.send("DELETE", path)
        if answer.status == UNPROCESSABLE:
            return Removal.BUSY
        return Removal.ALREADY_GONE if answer.status == NOT_FOUND else Removal.REMOVED

    async def job_is_over(self, repository: str, job_id: int) -> bool:
        """Whether a workflow job of a repository (`owner/name`) has ended.

        Raises:
            GitHubError: GitHub does not know it, or does not say.
        """
        path = f"/repos/{repository}/actions/jobs/{job_id}"
        return wire.job_is_over(expect(await self.send("GET", path), path))

    async def send(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        json: Any = None,
        **params: str | int,
    ) -> Answer:
        """One request as the installation; its answer's headers are heard. See `Transport.send`."""
        answer = await self._transport.send(method, path, headers=headers, json=json, **params)
        await self._hear(self.installation.id, answer.headers)
        return answer


def fingerprint(secret: str) -> str:
    """Tells one token from another without giving it away."""
    return hashlib.sha256(secret.encode()).hexdigest()[:16]


def expect(answer: Answer, path: str) -> bytes:
    """The body of an answer that is neither 404 nor 422.

    Raises:
        GitHubError: it is.
    """
    if answer.status in (NOT_FOUND, UNPROCESSABLE):
        raise GitHubError(f"{path}: GitHub answered {answer.status}")
    return answer.body
