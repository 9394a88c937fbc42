"""GitHub's API for one scope, as the installation of the App that it belongs to, within that one's budget.

An enterprise's scope belongs to no installation: it has a token of its own.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ghapp.decoding import LeftOutRows
from ghapp.errors import GitHubUnavailableError, RateLimitedError, UnauthorizedError
from ghapp.github import wire
from ghapp.github.ports import CachedToken, Listing, RateLimiter, TokenCache
from ghapp.github.response import NOT_FOUND, PER_PAGE, UNPROCESSABLE, GitHubResponse, expect
from ghapp.installations.installation import Installation
from ghapp.installations.pacing import READ_POINTS, WRITE_POINTS, CallLimits
from ghapp.runners.evidence import Registration

if TYPE_CHECKING:
    from ghapp.github.transport import GitHubTransport

NO_CONTENT = 204

SETTLING_SECONDS = 10.0
"""A token younger than this may be answered 401, or 404 instead: not all of GitHub's servers know it yet."""

RENEWAL_SECONDS = 60.0
"""Minimum age of a token to be replaced because a permission is missing."""


class Removal(StrEnum):
    """The result of a removal. The first two are success."""

    REMOVED = "removed"
    ALREADY_GONE = "already-gone"
    BUSY = "busy"


@dataclass(frozen=True, slots=True)
class RateLimitedCall:
    """Sends requests within the limits of one installation."""

    rate_limiter: RateLimiter
    installation: int
    limits: CallLimits

    async def send(self, method: str, send: Callable[[], Awaitable[GitHubResponse]]) -> GitHubResponse:
        """Waits for admission, sends, and records the rate limit of the answer."""
        points = READ_POINTS if method == "GET" else WRITE_POINTS
        flight = await self.rate_limiter.enter(self.installation, self.limits, points)
        headers: Mapping[str, str] = {}
        try:
            answer = await send()
            headers = answer.headers
        except RateLimitedError as error:
            await self.rate_limiter.hold(self.installation, error.after_seconds)
            raise
        finally:
            await self.rate_limiter.leave(self.installation, flight, headers)
        return answer


class InstallationClient:
    """The API as one installation, for its runners or those of one of its repositories; or as an enterprise's token.

    Attributes:
        installation: the installation, or another scope.
        token: the token's fingerprint: an ETag is valid for one token only.
        left_out: what was odd in the answers, until that is recorded.
        sent: number of requests that were sent, also without a usable answer.
    """

    def __init__(
        self,
        installation: Installation,
        transport: GitHubTransport,
        token: CachedToken,
        token_cache: TokenCache,
        limited: RateLimitedCall,
        clock: Callable[[], float],
        left_out: LeftOutRows,
    ) -> None:
        self.installation, self.left_out = installation, left_out
        self.token = fingerprint(token.secret)
        self._transport, self._token, self._token_cache = transport, token, token_cache
        self._limited, self._clock = limited, clock
        self._runners = f"{installation.api_path}/actions/runners"
        self.sent = 0

    @property
    def key(self) -> int:
        """The scope's id."""
        return self.installation.id

    @property
    def name(self) -> str:
        """The scope's name."""
        return self.installation.org

    async def settle(self) -> None:
        """Waits until the token is old enough for its 404s to count: at most ten seconds, once an hour."""
        left = SETTLING_SECONDS - (self._clock() - self._token.minted_at)
        if left > 0:
            await asyncio.sleep(min(left, SETTLING_SECONDS))

    async def forget_token(self) -> bool:
        """Discards the token, because it may lack a permission that was granted since; the next client mints another.

        A token never gains permissions after it was minted. Tokens younger than `RENEWAL_SECONDS` are kept, so that an
        installation without the permission costs one token a minute. Returns True if the token was discarded.
        """
        if self._clock() - self._token.minted_at < RENEWAL_SECONDS:
            return False
        await self._token_cache.forget(self.installation.caller)
        return True

    async def list_runners(self, page: int, etag: str | None) -> Listing:
        """Returns one page of up to a hundred runners; `page` counts from 1."""
        path = self._runners
        headers = {"If-None-Match": etag} if etag else {}
        answer = await self.send("GET", path, headers=headers, per_page=PER_PAGE, page=page)
        if answer.status == 304:  # noqa: PLR2004
            return Listing(None, etag or "")
        return Listing(expect(answer, path), answer.headers.get("etag", ""))

    async def runner(self, runner_id: int) -> Registration | None:
        """Returns one runner; None for a 404, which by itself proves nothing."""
        path = f"{self._runners}/{runner_id}"
        answer = await self.send("GET", path)
        return None if answer.status == NOT_FOUND else wire.runner(expect(answer, path), self.left_out)

    async def runners_named(self, name: str) -> list[Registration]:
        """Returns the runners of exactly that name; the list is too short for entries to move between pages.

        Raises:
            GitHubUnavailableError: a row that cannot be read may be such a runner.
        """
        path = self._runners
        answer = await self.send("GET", path, name=name, per_page=PER_PAGE)
        page = wire.runner_page(expect(answer, path), self.left_out)
        if page.names & {"", name}:
            raise GitHubUnavailableError(f"GET {path}: a row of the list of runners with one name cannot be read")
        return [each for each in page.runners if each.name == name]

    async def remove_runner(self, runner_id: int) -> Removal:
        """Removes a registration. A 404 is success; a busy runner is not removed."""
        path = f"{self._runners}/{runner_id}"
        answer = await self.send("DELETE", path)
        if answer.status == UNPROCESSABLE:
            return Removal.BUSY
        if answer.status == NOT_FOUND:
            return Removal.ALREADY_GONE
        if answer.status != NO_CONTENT:  # for example, 200 from the target of a redirect
            raise GitHubUnavailableError(f"DELETE {path}: GitHub answered {answer.status} instead of 204")
        return Removal.REMOVED

    async def job_end(self, repository: str, job_id: int) -> wire.JobEnd | None:
        """Returns when a workflow job of a repository (`owner/name`) ended; None if it has not ended.

        Raises:
            GitHubError: GitHub does not know the job, or gave no answer.
        """
        path = f"/repos/{repository}/actions/jobs/{job_id}"
        return wire.job_end(expect(await self.send("GET", path), path), self.left_out)

    async def send(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        json: Any = None,
        **params: str | int,
    ) -> GitHubResponse:
        """Sends one request as the installation, within its budget. See `GitHubTransport.send`.

        A GET that is rejected because the token is too young is sent again when the token is old enough.

        Raises:
            UnauthorizedError: 401; or 404 with a token that is too young.
            BudgetSpentError: no request was sent.
        """

        async def once() -> GitHubResponse:
            return await self._transport.send(method, path, headers=headers, json=json, **params)

        return await self._exchange(method, path, once)

    async def _exchange(self, method: str, path: str, once: Callable[[], Awaitable[GitHubResponse]]) -> GitHubResponse:
        try:
            return await self._send_once(method, path, once)
        except UnauthorizedError:
            if method != "GET" or not self._is_settling:
                raise
        await self.settle()
        return await self._send_once(method, path, once)

    async def tail(self, path: str, most: int, longest: int) -> bytes | None:
        """Returns the end of a document to which `path` redirects; None if there is none, or it is too long.

        The redirect counts against the budget, the document itself does not. See `GitHubTransport.tail`.

        Raises:
            GitHubError: GitHub gave no usable answer.
        """
        answer = await self._exchange("GET", path, lambda: self._transport.redirect(path))
        if answer.status == NOT_FOUND or "location" not in answer.headers:
            return None
        return await self._transport.tail(answer.headers["location"], most, longest)

    @property
    def _is_settling(self) -> bool:
        return self._clock() - self._token.minted_at < SETTLING_SECONDS

    async def _send_once(self, method: str, path: str, once: Callable[[], Awaitable[GitHubResponse]]) -> GitHubResponse:
        is_settling = self._is_settling

        async def sent_once() -> GitHubResponse:
            self.sent += 1
            return await once()

        try:
            answer = await self._limited.send(method, sent_once)
        except UnauthorizedError:
            if not is_settling:
                await self._token_cache.forget(self.installation.caller)
            raise
        if answer.status == NOT_FOUND and is_settling:
            raise UnauthorizedError(f"{method} {path}: 404, but the token is too young for that to count")
        return answer


def fingerprint(secret: str) -> str:
    """Returns a short hash that identifies a token without revealing it."""
    return hashlib.sha256(secret.encode()).hexdigest()[:16]
