"""GitHub's API with a person's token, within a number of calls: for `ghapp scan`, which has no App and no store.

An App's calls are paced for all processes by the store; a scan is one process, and is over in a minute. So it waits
itself where GitHub asks for that, and for no longer than a person would.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from ghapp.decoding import LeftOutRows
from ghapp.errors import BudgetSpentError, GitHubUnavailableError, RateLimitedError, SpentLimit, UnauthorizedError
from ghapp.github import wire
from ghapp.github.installation_client import fingerprint
from ghapp.github.ports import Listing
from ghapp.github.response import NOT_FOUND, PER_PAGE, GitHubResponse, expect
from ghapp.installations.scope import Scope
from ghapp.runners.evidence import Registration

if TYPE_CHECKING:
    import httpx

    from ghapp.github.transport import GitHubTransport

LONGEST_WAIT_SECONDS = 65.0
"""GitHub asks for a minute at a secondary limit; until the reset of the hourly one no person waits."""

RETRY_SECONDS = (1.0, 4.0)
"""Before a call is repeated that had no usable answer."""

RESERVED_SHARE = 0.1
"""Of the token's hourly limit: a scan leaves it to what else the person does."""

NOT_MODIFIED = 304

Pause = Callable[[float], Awaitable[None]]


class PersonalClient:
    """The API as the person of a token. Use it within `PersonalClient.open`.

    Attributes:
        left_out: what was odd in the answers.
        token: the token's fingerprint.
        calls: requests sent so far, redirects and repeated ones included.
        most_calls: how many may be sent.
        scopes: of a classic token, as GitHub lists them; None for other tokens, and before the first answer.
    """

    def __init__(
        self,
        transport: GitHubTransport,
        token: str,
        waits: Callable[[float], None] = lambda _: None,
        pause: Pause = asyncio.sleep,
    ) -> None:
        """`waits` is called with the seconds of each wait for a limit, `pause` waits."""
        self.left_out, self.token = LeftOutRows(), fingerprint(token)
        self.calls, self.most_calls = 0, 0
        self.scopes: frozenset[str] | None = None
        self._transport, self._waits, self._pause = transport, waits, pause
        self._clock, self._held_until = time.monotonic, 0.0
        self._spare: float | None = None

    @classmethod
    @asynccontextmanager
    async def open(
        cls, api_url: str, token: str, waits: Callable[[float], None] = lambda _: None, pause: Pause = asyncio.sleep
    ) -> AsyncIterator[PersonalClient]:
        """Opens the connections, and closes them at the end; arguments as of the constructor."""
        from ghapp.github.transport import GitHubTransport, open_client

        async with open_client(api_url) as client:
            personal = cls(GitHubTransport.anonymous(api_url, client).with_token(token), token, waits, pause)
            client.event_hooks = {"request": [personal._count], "response": [personal._read_limits]}
            yield personal

    @property
    def calls_left(self) -> int:
        """How many calls may still be sent; fewer if the token's hourly limit is nearly spent."""
        left = max(0, self.most_calls - self.calls)
        return left if self._spare is None else min(left, max(0, int(self._spare)))

    async def send(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        json: Any = None,
        **params: str | int,
    ) -> GitHubResponse:
        """Sends one request; repeats a GET that a limit refused for a minute, or that had no usable answer.

        Raises:
            BudgetSpentError: all calls are spent; no request was sent.
            RateLimitedError: GitHub asks for a longer wait.
            UnauthorizedError: GitHub does not accept the token.
        """
        for retry_after in (*RETRY_SECONDS, None):
            await self._wait_for_limit()
            if self.calls >= self.most_calls:
                raise BudgetSpentError(f"{method} {path}: the calls of this scan are spent", SpentLimit.SHARE, 0.0)
            try:
                return await self._transport.send(method, path, headers=headers, json=json, **params)
            except UnauthorizedError:
                raise UnauthorizedError("GitHub does not accept the token (401)") from None
            except RateLimitedError as error:
                if retry_after is None or error.after_seconds > LONGEST_WAIT_SECONDS:
                    raise
                self._hold(error.after_seconds)
            except GitHubUnavailableError:
                if retry_after is None:
                    raise
                await self._pause(retry_after)
        raise AssertionError("unreachable")

    def _hold(self, seconds: float) -> None:
        until = self._clock() + seconds
        if until > self._held_until + 1.0:
            self._waits(seconds)
        self._held_until = max(self._held_until, until)

    async def _wait_for_limit(self) -> None:
        seconds = self._held_until - self._clock()
        if seconds > 0:
            await self._pause(seconds)

    async def _count(self, _: httpx.Request) -> None:
        self.calls += 1

    async def _read_limits(self, answer: httpx.Response) -> None:
        scopes = answer.headers.get("x-oauth-scopes")
        if scopes is not None:
            self.scopes = frozenset(filter(None, (each.strip() for each in scopes.split(","))))
        limit, remaining = (answer.headers.get(f"x-ratelimit-{each}", "") for each in ("limit", "remaining"))
        if limit.isdecimal() and remaining.isdecimal() and answer.headers.get("x-ratelimit-resource", "core") == "core":
            self._spare = int(remaining) - RESERVED_SHARE * int(limit)


class ScopeRunners:
    """The runners of one scope, as the person of a token sees them. Each call may raise `GitHubError`.

    Attributes:
        left_out: what was odd in the answers.
        token: the token's fingerprint.
    """

    key = 0
    """The pages of one list are kept apart from those of others by their `PageCache`."""

    def __init__(self, client: PersonalClient, scope: Scope) -> None:
        self.left_out, self.token = client.left_out, client.token
        self._client, self._scope, self._path = client, scope, f"{scope.api_path}/actions/runners"

    @property
    def name(self) -> str:
        """The scope's address."""
        return self._scope.address

    async def settle(self) -> None:
        """A person's token is known to all of GitHub's servers."""

    async def list_runners(self, page: int, etag: str | None) -> Listing:
        """Returns one page of up to a hundred runners; `page` counts from 1."""
        headers = {"If-None-Match": etag} if etag else {}
        answer = await self._client.send("GET", self._path, headers=headers, per_page=PER_PAGE, page=page)
        if answer.status == NOT_MODIFIED:
            return Listing(None, etag or "")
        return Listing(expect(answer, self._path), answer.headers.get("etag", ""))

    async def runner(self, runner_id: int) -> Registration | None:
        """Returns one runner; None for a 404, which by itself proves nothing."""
        path = f"{self._path}/{runner_id}"
        answer = await self._client.send("GET", path)
        return None if answer.status == NOT_FOUND else wire.runner(expect(answer, path), self.left_out)
