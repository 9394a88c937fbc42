"""How often something may be asked for: some at once, and then so many an hour."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from cachetools import LRUCache

K = TypeVar("K", bound=Hashable)


class RateLimit(Generic[K]):
    """A bucket for each key, full at first; each grant takes one, and time fills it again. Per process, by `now`."""

    def __init__(self, at_once: int, an_hour: int, most_keys: int) -> None:
        self._at_once, self._refill_seconds = at_once, 3600 / an_hour
        self._full_at: LRUCache[K, float] = LRUCache(most_keys)

    def grant(self, key: K, now: float) -> float:
        """0 when it is granted; else the seconds until the next one will be."""
        latest = now + self._at_once * self._refill_seconds
        full_at = min(max(self._full_at.get(key, now), now), latest)  # a clock that jumped back starves nobody
        wait = full_at + self._refill_seconds - latest
        if wait > 0:
            return wait
        self._full_at[key] = full_at + self._refill_seconds
        return 0.0
