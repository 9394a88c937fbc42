"""GitHub as one installation of the App sees it, within its budget."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from ghapp.errors import GitHubUnavailableError, RateLimitedError, UnauthorizedError
from ghapp.github import wire
from ghapp.github.ports import CachedToken, RateLimiter, TokenCache
from ghapp.github.transport import NOT_FOUND, PER_PAGE, UNPROCESSABLE, GitHubResponse, GitHubTransport, expect
from ghapp.health.installation import Installation
from ghapp.health.pacing import READ_POINTS, WRITE_POINTS
from ghapp.health.runner.evidence import Registration

NO_CONTENT = 204

SETTLING_SECONDS = 10.0
"""A token that is younger may be answered 401, or 404 in its guise: not every server of GitHub's knows it yet."""

RENEWAL_SECONDS = 60.0
"""How old a token must be to be replaced because a permission is missing."""


class Removal(StrEnum):
    """What became of a removal. The first two are success."""

    REMOVED = "removed"
    ALREADY_GONE = "already-gone"
    BUSY = "busy"


class Listing(NamedTuple):
    """A page of the runner list: its bytes and ETag; None where it has not changed since the given ETag."""

    body: bytes | None
    etag: str


@dataclass(frozen=True, slots=True)
class RateLimitedCall:
    """What each call of a tenant passes on its way out and back."""

    meter: RateLimiter
    installation: int
    ceiling: float

    async def pay(self, method: str, send: Callable[[], Awaitable[GitHubResponse]]) -> GitHubResponse:
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


class InstallationClient:
    """The API as one installation sees it."""

    def __init__(
        self,
        installation: Installation,
        transport: GitHubTransport,
        token: CachedToken,
        token_cache: TokenCache,
        toll: RateLimitedCall,
        clock: Callable[[], float],
    ) -> None:
        self.installation = installation
        self.token = fingerprint(token.secret)
        """The token's fingerprint: ETags hold for one token alone."""
        self._transport, self._token, self._vault, self._toll, self._clock = transport, token, token_cache, toll, clock

    async def settle(self) -> None:
        """Wait until the token is old enough for a 404 to be believed: ten seconds at most, once an hour."""
        left = SETTLING_SECONDS - (self._clock() - self._token.minted_at)
        if left > 0:
            await asyncio.sleep(min(left, SETTLING_SECONDS))

    async def forget_token(self) -> bool:
        """Have the next call mint a token, because this one may lack a permission that was granted since.

        A token never gains a permission after it was minted. One that is younger than `RENEWAL_SECONDS` stays, so that
        an installation without the permission costs one token a minute. Returns whether it was forgotten.
        """
        if self._clock() - self._token.minted_at < RENEWAL_SECONDS:
            return False
        await self._vault.forget(self.installation.id)
        return True

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
    ) -> GitHubResponse:
        """One request as the installation, within its budget. See `Transport.send`.

        A GET that a young token is refused is sent again when the token is old enough.

        Raises:
            UnauthorizedError: 401; or 404 by a token that is too young to be believed.
            BudgetSpentError: nothing was sent.
        """

        async def once() -> GitHubResponse:
            return await self._transport.send(method, path, headers=headers, json=json, **params)

        try:
            return await self._believable(method, path, once)
        except UnauthorizedError:
            if method != "GET" or not self._is_settling:
                raise
        await self.settle()
        return await self._believable(method, path, once)

    @property
    def _is_settling(self) -> bool:
        return self._clock() - self._token.minted_at < SETTLING_SECONDS

    async def _believable(
        self, method: str, path: str, once: Callable[[], Awaitable[GitHubResponse]]
    ) -> GitHubResponse:
        is_settling = self._is_settling
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
