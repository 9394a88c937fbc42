"""The interfaces that GitHub's clients need from the store, which implements them, and those that they share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol

from ghapp.decoding import LeftOutRows
from ghapp.github import wire
from ghapp.github.response import GitHubResponse
from ghapp.installations.etag_page import EtagPage
from ghapp.installations.pacing import CallLimits
from ghapp.runners.evidence import Registration

Mint = Callable[[], Awaitable[wire.InstallationToken]]


class CachedToken(Protocol):
    """A token, and when it was minted (epoch seconds)."""

    @property
    def secret(self) -> str:
        """The token to send."""

    @property
    def minted_at(self) -> float:
        """When it was minted."""


class TokenCache(Protocol):
    """Caches installation tokens for all processes, encrypted."""

    async def token(self, installation: int, mint: Mint, now: float) -> CachedToken:
        """Returns a token that is valid for some minutes; if there is none, one process mints a token for all."""

    async def forget(self, installation: int) -> None:
        """Deletes a token that GitHub no longer accepts."""


class RateLimiter(Protocol):
    """Keeps the calls of all processes within each installation's limits."""

    async def enter(self, installation: int, limits: CallLimits, points: int) -> str:
        """Waits for admission of one call within these limits; returns its flight id."""

    async def leave(self, installation: int, flight: str, headers: Mapping[str, str]) -> None:
        """Ends a call that was answered with these headers."""

    async def hold(self, installation: int, seconds: float) -> None:
        """Stops all calls for a time, as GitHub asked."""


class PageCache(Protocol):
    """Keeps the pages of lists of runners; an ETag is valid for one token only."""

    async def of(self, installation: int, token: str) -> Mapping[int, EtagPage]:
        """Returns the pages of a token (its fingerprint), by number from 1."""

    async def keep(self, installation: int, token: str, changed: Mapping[int, EtagPage], last: int) -> None:
        """Keeps the changed pages, and deletes those after the last."""


class Listing(NamedTuple):
    """A page of the runner list: its bytes (None if it is unchanged since the given ETag), and its ETag."""

    body: bytes | None
    etag: str


class Sender(Protocol):
    """Sends requests to GitHub, within the limits of its caller.

    Attributes:
        left_out: what was odd in the answers.
    """

    left_out: LeftOutRows

    async def send(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        json: Any = None,
        **params: str | int,
    ) -> GitHubResponse:
        """Sends one request. See `GitHubTransport.send`."""


class RunnerSource(Protocol):
    """The runners of one scope.

    Attributes:
        left_out: what was odd in the answers.
        token: the token's fingerprint.
    """

    left_out: LeftOutRows
    token: str

    @property
    def key(self) -> int:
        """The number by which a `PageCache` keeps its pages."""

    @property
    def name(self) -> str:
        """The scope's name, for log lines."""

    async def settle(self) -> None:
        """Waits until the token is old enough for its 404s to count."""

    async def list_runners(self, page: int, etag: str | None) -> Listing:
        """Returns one page of up to a hundred runners; `page` counts from 1."""

    async def runner(self, runner_id: int) -> Registration | None:
        """Returns one runner; None for a 404, which by itself proves nothing."""
