"""A cache of under a second in front of Redis: concurrent misses share one load, and old values bridge an outage."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from functools import partial
from math import ceil
from time import monotonic
from typing import Any, Generic, NamedTuple, TypeVar

from cachetools import LRUCache

from ghapp.errors import StoreRefusedError, StoreUnavailableError

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
T = TypeVar("T")
Load = Callable[[], Coroutine[Any, Any, V | None]]

FRESH_SECONDS = 0.75
"""A live page asks each second: with this, a change is shown within two seconds."""

RENEWED_SECONDS = 0.25
"""How long before a value expires `fresh` begins its next load, so that frequent readers never wait for Redis."""

PATIENCE_SECONDS = 0.5
"""Time limit of a load if an old value is known."""

LONGEST_SECONDS = 2.0
"""Time limit of a load if no value is known."""

STEP_SECONDS = 0.1


class NoCachedValueError(StoreUnavailableError):
    """Redis is unavailable, and no cached value bridges that; the message is fit for a client: it names no host."""


class _Fresh(NamedTuple, Generic[V]):
    """A value, what loads it, when its next load begins, and when it expires (monotonic seconds)."""

    value: V | None
    load: Load[V]
    renewed_at: float
    expires_at: float


class Cache(Generic[K, V]):
    """Values by key. A missing value (None) is cached for a second as well, but is no fallback in an outage.

    Args:
        most_fresh: number of values that are not older than a second.
        most_known: number of values that can bridge an outage.
        longest_seconds: time limit of a load if no value is known; None: `LONGEST_SECONDS`.
    """

    def __init__(self, most_fresh: int, most_known: int, longest_seconds: float | None = None) -> None:
        # A plain dict, oldest first: a TTLCache takes several times as long to look up, on the way of each health read.
        self._fresh: dict[K, _Fresh[V]] = {}
        self._most_fresh = most_fresh
        self._last: LRUCache[K, V] = LRUCache(most_known)
        self._loading: dict[K, asyncio.Task[V | None]] = {}
        self._longest_seconds = longest_seconds

    async def read(self, key: K, load: Load[V]) -> V | None:
        """Returns the value, at most a second old; the last known value while Redis is unavailable.

        Raises:
            NoCachedValueError: Redis is unavailable, and no value is known.
        """
        fresh = self._fresh.get(key)
        if fresh is not None and monotonic() < fresh.expires_at:
            return fresh.value
        loading = self._load(key, load)
        last, longest = self._last.get(key), self._longest_seconds or LONGEST_SECONDS
        try:
            return await _answer(loading, longest if last is None else PATIENCE_SECONDS)
        except (StoreUnavailableError, TimeoutError) as error:
            if last is None:
                raise _unknown(error, longest) from error
            self._keep_fresh(key, last, load)  # limits the load on a failing Redis to one attempt a second
            return last

    def fresh(self, key: K) -> V | None:
        """Returns a value that is at most a second old, without waiting; None if there is none.

        Begins to load it again when it soon expires.
        """
        fresh, now = self._fresh.get(key), monotonic()
        if fresh is None or now >= fresh.expires_at:
            return None
        if now >= fresh.renewed_at:
            self._fresh[key] = fresh._replace(renewed_at=fresh.expires_at)  # one attempt, should Redis be away
            self._load(key, fresh.load)
        return fresh.value

    def last(self, key: K) -> V | None:
        """Returns the value that the last read of the key found, however old."""
        return self._last.get(key)

    def forget(self, *keys: K) -> None:
        """Invalidates keys after a write, including loads that began before it."""
        for key in keys:
            self._fresh.pop(key, None)
            self._loading.pop(key, None)

    def _load(self, key: K, load: Load[V]) -> asyncio.Task[V | None]:
        """Begins to load a value, unless that has begun."""
        if (loading := self._loading.get(key)) is None:
            self._loading[key] = loading = asyncio.create_task(load())
            loading.add_done_callback(partial(self._loaded, key, load))
        return loading

    def _loaded(self, key: K, load: Load[V], loading: asyncio.Task[V | None]) -> None:
        failed = loading.cancelled() or loading.exception() is not None
        if self._loading.get(key) is not loading:
            return
        del self._loading[key]
        if failed:
            return
        value = loading.result()
        self._keep_fresh(key, value, load)
        if value is None:
            self._last.pop(key, None)
        else:
            self._last[key] = value

    def _keep_fresh(self, key: K, value: V | None, load: Load[V]) -> None:
        self._fresh.pop(key, None)
        if len(self._fresh) >= self._most_fresh:
            del self._fresh[next(iter(self._fresh))]
        expires_at = monotonic() + FRESH_SECONDS
        self._fresh[key] = _Fresh(value, load, expires_at - RENEWED_SECONDS, expires_at)


async def _answer(loading: asyncio.Future[T], seconds: float) -> T:
    """Returns the result within `seconds`; a caller that stops waiting does not cancel the load for others.

    A slow iteration of our own event loop counts as one step, so that an answer that already arrived is not late.

    Raises:
        TimeoutError: Redis did not answer.
    """
    for _ in range(max(1, ceil(seconds / STEP_SECONDS))):
        done, _ = await asyncio.wait((loading,), timeout=STEP_SECONDS)
        if done:
            return loading.result()
    raise TimeoutError


def _unknown(error: Exception, seconds: float) -> NoCachedValueError:
    """Returns the error for an unknown value; distinguishes a slow Redis from an unavailable one."""
    match error:
        case NoCachedValueError():  # of another cache, from which the value was to be computed
            return NoCachedValueError(str(error))
        case TimeoutError():
            why = f"Redis did not answer within {seconds:g} s, and no cached value is available; try again"
        case StoreRefusedError():
            why = "Redis refused a command, and no cached value is available; see `ghapp doctor`"
        case _:
            why = "Redis is unavailable, and no cached value is available; try again"
    return NoCachedValueError(why)
