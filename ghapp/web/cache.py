"""A second of memory in front of Redis: one load for all who miss at once, and what was last known while it is away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Mapping
from functools import partial
from math import ceil
from typing import Any, Generic, TypeVar

from cachetools import LRUCache, TTLCache
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from ghapp.errors import StoreUnavailableError

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
T = TypeVar("T")

FRESH_SECONDS = 1.0
PATIENCE_SECONDS = 0.5
"""How long a slow Redis is waited for where something is known already."""

LONGEST_SECONDS = 2.0
"""And where nothing is."""

STEP_SECONDS = 0.1


class Cache(Generic[K, V]):
    """Values by key. What is not there (None) is fresh for a second, too, but never remembered beyond it."""

    def __init__(self, most_fresh: int, most_known: int) -> None:
        self._fresh: TTLCache[K, tuple[V | None]] = TTLCache(most_fresh, FRESH_SECONDS)
        self._last: LRUCache[K, V] = LRUCache(most_known)
        self._loading: dict[K, asyncio.Task[V | None]] = {}
        self._writes = 0

    async def read(self, key: K, load: Callable[[], Coroutine[Any, Any, V | None]]) -> V | None:
        """The value: at most a second old; while Redis is away, the last that was known.

        Raises:
            StoreUnavailableError: Redis is away, and nothing is known.
        """
        try:
            return self._fresh[key][0]  # `get` would look it up, and ask for the time, twice
        except KeyError:
            pass
        if (loading := self._loading.get(key)) is None:
            self._loading[key] = loading = asyncio.create_task(load())
            loading.add_done_callback(partial(self._loaded, key))
        last = self._last.get(key)
        try:
            return await _answer(loading, LONGEST_SECONDS if last is None else PATIENCE_SECONDS)
        except (RedisError, OSError, StoreUnavailableError) as error:  # TimeoutError is an OSError
            if last is None:
                raise _unknown(error) from error
            self._fresh[key] = (last,)  # a Redis in trouble is asked once a second, not by everyone
            return last

    async def read_many(
        self, keys: Iterable[K], load: Callable[[list[K]], Awaitable[Mapping[K, V]]]
    ) -> dict[K, V | None]:
        """The values of many keys: one load of those that are not fresh, as `read` says of each.

        Raises:
            StoreUnavailableError: there was no answer, and of one of them nothing is known.
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
        except (RedisError, OSError, StoreUnavailableError) as error:
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

    def holds(self, key: K) -> bool:
        """Whether there was a value when it was last read here."""
        return key in self._last

    def forget(self, *keys: K) -> None:
        """Something was written: read anew, and do not keep what was being read meanwhile."""
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
    """What it loads, within `seconds`. Whoever gives up waiting takes nothing from the others.

    A turn of our own event loop that takes long counts as one step: an answer that lies there unread is not late.

    Raises:
        TimeoutError: Redis gave no answer.
    """
    for _ in range(max(1, ceil(seconds / STEP_SECONDS))):
        done, _ = await asyncio.wait((loading,), timeout=STEP_SECONDS)
        if done:
            return loading.result()
    raise TimeoutError


def _unknown(error: Exception) -> StoreUnavailableError:
    """What is said where nothing is known: a Redis that is slow is not called away."""
    if isinstance(error, StoreUnavailableError):
        return StoreUnavailableError(str(error))
    if isinstance(error, TimeoutError):
        return StoreUnavailableError(
            f"Redis gave no answer within {LONGEST_SECONDS:g} s, and nothing is known here yet; ask again"
        )
    if isinstance(error, RedisError) and not isinstance(error, RedisConnectionError):
        return StoreUnavailableError("Redis refused a command, and nothing is known here yet; see `ghapp doctor`")
    return StoreUnavailableError("Redis is away, and nothing is known here yet; ask again")
