"""GitHub as this App uses it: as the App itself, and as one installation of it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

import httpx
from githubkit import AppAuthStrategy, TokenAuthStrategy

from ghapp.credentials import AppCredentials
from ghapp.errors import (
    GitHubError,
    GitHubUnavailableError,
    InstallationGoneError,
    InstallationSuspendedError,
    NotFoundError,
    PermissionMissingError,
    RateLimitedError,
    UnauthorizedError,
)
from ghapp.github import wire
from ghapp.github.transport import NOT_FOUND, UNPROCESSABLE, Answer, Transport, open_client
from ghapp.health.cadence import READ_POINTS, WRITE_POINTS
from ghapp.health.evidence import Registration
from ghapp.health.installation import Installation

PER_PAGE = 100
NO_CONTENT = 204

SETTLING_SECONDS = 10.0
"""A token that is younger may be answered 401, or 404 in its guise: not every server of GitHub's knows it yet."""

Mint = Callable[[], Awaitable[wire.InstallationToken]]


class VaultToken(Protocol):
    """A token, and when it was minted (epoch seconds)."""

    @property
    def secret(self) -> str:
        """What to send."""

    @property
    def minted_at(self) -> float:
        """When it was minted."""


class Vault(Protocol):
    """Keeps installation tokens for all processes, sealed."""

    async def token(self, installation: int, mint: Mint, now: float) -> VaultToken:
        """A token that still holds for some minutes; minted by one process for all when there is none."""

    async def forget(self, installation: int) -> None:
        """GitHub does not accept it any more."""


class Meter(Protocol):
    """Keeps an installation's calls under its limits, for all processes."""

    async def enter(self, installation: int, ceiling: float, points: int) -> str:
        """Be admitted to send one call, up to that share of the hourly limit; the flight."""

    async def leave(self, installation: int, flight: str, headers: Mapping[str, str]) -> None:
        """The call is over, with these headers."""

    async def hold(self, installation: int, seconds: float) -> None:
        """GitHub told us to stay away for so long."""


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
        self,
        api_url: str,
        credentials: AppCredentials,
        vault: Vault,
        meter: Meter,
        client: httpx.AsyncClient,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._api_url, self._vault, self._meter, self._client, self._clock = api_url, vault, meter, client, clock
        self._as_app = Transport(AppAuthStrategy(credentials.app_id, credentials.private_key), api_url, client)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        api_url: str,
        credentials: AppCredentials,
        vault: Vault,
        meter: Meter,
        clock: Callable[[], float] = time.time,
    ) -> AsyncIterator[GitHub]:
        """Open the connections, and close them at the end. `clock` tells epoch seconds."""
        async with open_client(api_url) as client:
            yield cls(api_url, credentials, vault, meter, client, clock)

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

    async def tenant(self, installation: Installation, ceiling: float = 1.0) -> Tenant:
        """The API as one installation sees it; mints a token when there is none.

        Args:
            installation: whose token.
            ceiling: the share of the hourly limit up to which its calls may go.
        """

        async def mint() -> wire.InstallationToken:
            return await self._mint(installation.id)

        token = await self._vault.token(installation.id, mint, self._clock())
        transport = Transport(TokenAuthStrategy(token.secret), self._api_url, self._client)
        toll = Toll(self._meter, installation.id, ceiling)
        return Tenant(installation, transport, token, self._vault, toll, self._clock)

    async def send(self, method: str, path: str, *, json: Any = None, **params: str | int) -> Answer:
        """One request as the App itself; see `Transport.send`."""
        try:
            return await self._as_app.send(method, path, headers=None, json=json, **params)
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


@dataclass(frozen=True, slots=True)
class Toll:
    """What each call of a tenant passes on its way out and back."""

    meter: Meter
    installation: int
    ceiling: float

    async def pay(self, method: str, send: Callable[[], Awaitable[Answer]]) -> Answer:
        """Be admitted, send, and take note of the answer."""
        points = READ_POINTS if method == "GET" else WRITE_POINTS
        flight = await self.meter.enter(self.installation, self.ceiling, points)
        headers: Mapping[str, str] = {}
        try:
            answer = await send()
            headers = answer.headers
        except RateLimitedError as error:
            await self.meter.hold(self.installation, error.after_seconds)
            raise
        finally:
            await self.meter.leave(self.installation, flight, headers)
        return answer


class Tenant:
    """The API as one installation sees it."""

    def __init__(
        self,
        installation: Installation,
        transport: Transport,
        token: VaultToken,
        vault: Vault,
        toll: Toll,
        clock: Callable[[], float],
    ) -> None:
        self.installation = installation
        self.token = fingerprint(token.secret)
        """The token's fingerprint: ETags hold for one token alone."""
        self._transport, self._token, self._vault, self._toll, self._clock = transport, token, vault, toll, clock

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

    async def runners_named(self, name: str) -> list[Registration]:
        """The runners of exactly that name: a list too short to slip."""
        path = f"/orgs/{self.installation.org}/actions/runners"
        answer = await self.send("GET", path, name=name, per_page=PER_PAGE)
        return [each for each in wire.runner_page(expect(answer, path)).runners if each.name == name]

    async def remove_runner(self, runner_id: int) -> Removal:
        """Take a registration away. A 404 is success; a busy runner stays."""
        path = f"/orgs/{self.installation.org}/actions/runners/{runner_id}"
        answer = await self.send("DELETE", path)
        if answer.status == UNPROCESSABLE:
            return Removal.BUSY
        if answer.status == NOT_FOUND:
            return Removal.ALREADY_GONE
        if answer.status != NO_CONTENT:  # a page that a redirect led to removes nothing
            raise GitHubUnavailableError(f"DELETE {path}: GitHub answered {answer.status}, which says nothing")
        return Removal.REMOVED

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
        """One request as the installation, within its budget. See `Transport.send`.

        Raises:
            UnauthorizedError: 401; or 404 by a token that is too young to be believed.
            BudgetSpentError: nothing was sent.
        """

        async def once() -> Answer:
            return await self._transport.send(method, path, headers=headers, json=json, **params)

        is_settling = self._clock() - self._token.minted_at < SETTLING_SECONDS
        try:
            answer = await self._toll.pay(method, once)
        except UnauthorizedError:
            if not is_settling:
                await self._vault.forget(self.installation.id)
            raise
        if answer.status == NOT_FOUND and is_settling:
            raise UnauthorizedError(f"{method} {path}: 404, by a token too young to be believed")
        return answer


def fingerprint(secret: str) -> str:
    """Tells one token from another without giving it away."""
    return hashlib.sha256(secret.encode()).hexdigest()[:16]


def expect(answer: Answer, path: str) -> bytes:
    """The body of an answer that is neither 404 nor 422.

    Raises:
        NotFoundError: 404.
        GitHubError: 422.
    """
    if answer.status == NOT_FOUND:
        raise NotFoundError(f"{path}: GitHub answered 404")
    if answer.status == UNPROCESSABLE:
        raise GitHubError(f"{path}: GitHub answered {answer.status}")
    return answer.body
