"""The interfaces that GitHub's clients need from the store; `ghapp.store` implements them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from ghapp.github import wire
from ghapp.installations.pacing import CallLimits

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
