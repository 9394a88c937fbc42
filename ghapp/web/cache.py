"""A cache of under a second in front of Redis: concurrent misses share one load, and old values bridge an outage."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Mapping
from functools import partial
from math import ceil
from typing import Any, Generic, TypeVar

from cachetools import LRUCache, TTLCache

from ghapp.errors import StoreRefusedError, StoreUnavailableError

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
T = TypeVar("T")

FRESH_SECONDS = 0.75
"""A live page asks each second: with this, a change is shown within two seconds."""

PATIENCE_SECONDS = 0.5
"""Time limit of a load if an old value is known."""

LONGEST_SECONDS = 2.0
"""Time limit of a load if no value is known."""

STEP_SECONDS = 0.1


class NoCachedValueError(StoreUnavailableError):
    """Redis is unavailable, and no cached value bridges that; the message is fit for a client: it names no host."""


class Cache(Generic[K, V]):
    """Values by key. A missing value (None) is cached for a second as well, but is no fallback in an outage."""

    def __init__(self, most_fresh: int, most_known: int) -> None:
        self._fresh: TTLCache[K, tuple[V | None]] = TTLCache(most_fresh, FRESH_SECONDS)
        self._last: LRUCache[K, V] = LRUCache(most_known)
        self._loading: dict[K, asyncio.Task[V | None]] = {}
        self._writes = 0

    async def read(self, key: K, load: Callable[[], Coroutine[Any, Any, V | None]]) -> V | None:
        """Returns the value, at most a second old; the last known value while Redis is unavailable.

        Raises:
            NoCachedValueError: Redis is unavailable, and no value is known.
        """
        try:
            return self._fresh[key][0]  # `get` would do the lookup, and read the clock, twice
        except KeyError:
            pass
        if (loading := self._loading.get(key)) is None:
            self._loading[key] = loading = asyncio.create_task(load())
            loading.add_done_callback(partial(self._loaded, key))
        last = self._last.get(key)
        try:
            return await _answer(loading, LONGEST_SECONDS if last is None else PATIENCE_SECONDS)
        except (StoreUnavailableError, TimeoutError) as error:
            if last is None:
                raise _unknown(error) from error
            self._fresh[key] = (last,)  # limits the load on a failing Redis to one attempt a second
            return last

    async def read_many(
        self, keys: Iterable[K], load: Callable[[list[K]], Awaitable[Mapping[K, V]]]
    ) -> dict[K, V | None]:
        """Returns the values of many keys, as `read` does; all that are not fresh are loaded together.

        Raises:
            NoCachedValueError: Redis did not answer, and at least one value is unknown.
        """
        values: dict[K, V | None] = {}
        missing: list[K] = []
        for key in dict.fromkeys(keys):
            try:
                values[key] = self._fresh[key][0]
            except KeyError:
                missing.append(key)
        if not missing:
            return values
        known, writes = all(key in self._last for key in missing), self._writes
        loading = asyncio.ensure_future(load(missing))
        try:
            loaded = await _answer(loading, PATIENCE_SECONDS if known else LONGEST_SECONDS)
        except (StoreUnavailableError, TimeoutError) as error:
            if not known:
                raise _unknown(error) from error
            loaded = {key: self._last[key] for key in missing}
        finally:
            loading.cancel()
        for key in missing:
            values[key] = loaded.get(key)
            if writes == self._writes:
                self._keep(key, values[key])
        return values

    def last(self, key: K) -> V | None:
        """Returns the last known value, however old; None if there is none."""
        return self._last.get(key)

    def has(self, key: K) -> bool:
        """True if the last read of the key found a value."""
        return key in self._last

    def forget(self, *keys: K) -> None:
        """Invalidates keys after a write, including loads that began before it."""
        self._writes += 1
        for key in keys:
            self._fresh.pop(key, None)
            self._loading.pop(key, None)

    def _loaded(self, key: K, loading: asyncio.Task[V | None]) -> None:
        failed = loading.cancelled() or loading.exception() is not None
        if self._loading.get(key) is not loading:
            return
        del self._loading[key]
        if failed:
            return
        self._keep(key, loading.result())

    def _keep(self, key: K, value: V | None) -> None:
        self._fresh[key] = (value,)
        if value is None:
            self._last.pop(key, None)
        else:
            self._last[key] = value


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


def _unknown(error: Exception) -> NoCachedValueError:
    """Returns the error for an unknown value; distinguishes a slow Redis from an unavailable one."""
    match error:
        case NoCachedValueError():  # of another cache, from which the value was to be computed
            return NoCachedValueError(str(error))
        case TimeoutError():
            why = f"Redis did not answer within {LONGEST_SECONDS:g} s, and no cached value is available; try again"
        case StoreRefusedError():
            why = "Redis refused a command, and no cached value is available; see `ghapp doctor`"
        case _:
            why = "Redis is unavailable, and no cached value is available; try again"
    return NoCachedValueError(why)
