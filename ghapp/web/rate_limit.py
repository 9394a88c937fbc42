"""Token buckets: a burst at once, then a number per hour."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from cachetools import LRUCache

K = TypeVar("K", bound=Hashable)


class RateLimit(Generic[K]):
    """A token bucket per key, full at first. Per process; time is passed in as `now`."""

    def __init__(self, at_once: int, an_hour: int, most_keys: int) -> None:
        self._at_once, self._refill_seconds = at_once, 3600 / an_hour
        self._full_at: LRUCache[K, float] = LRUCache(most_keys)

    def grant(self, key: K, now: float) -> float:
        """Returns 0 if the request is granted; else the seconds until the next grant."""
        latest = now + self._at_once * self._refill_seconds
        full_at = min(max(self._full_at.get(key, now), now), latest)  # bounds the wait if the clock jumped back
        wait = full_at + self._refill_seconds - latest
        if wait > 0:
            return wait
        self._full_at[key] = full_at + self._refill_seconds
        return 0.0
