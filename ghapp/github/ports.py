"""What GitHub's rooms need of a store, in their own words: `ghapp.store` gives it to them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from ghapp.github import wire

Mint = Callable[[], Awaitable[wire.InstallationToken]]


class CachedToken(Protocol):
    """A token, and when it was minted (epoch seconds)."""

    @property
    def secret(self) -> str:
        """What to send."""

    @property
    def minted_at(self) -> float:
        """When it was minted."""


class TokenCache(Protocol):
    """Keeps installation tokens for all processes, sealed."""

    async def token(self, installation: int, mint: Mint, now: float) -> CachedToken:
        """A token that still holds for some minutes; minted by one process for all when there is none."""

    async def forget(self, installation: int) -> None:
        """GitHub does not accept it any more."""


class RateLimiter(Protocol):
    """Keeps an installation's calls under its limits, for all processes."""

    async def enter(self, installation: int, ceiling: float, points: int) -> str:
        """Be admitted to send one call, up to that share of the hourly limit; the flight."""

    async def leave(self, installation: int, flight: str, headers: Mapping[str, str]) -> None:
        """The call is over, with these headers."""

    async def hold(self, installation: int, seconds: float) -> None:
        """GitHub told us to stay away for so long."""
