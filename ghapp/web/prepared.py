"""Values of pages and of the API that take long to prepare: prepared once for all readers."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable, Coroutine, Hashable
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from cachetools import LRUCache

from ghapp.web.cache import FRESH_SECONDS
from ghapp.web.fleet_view import MOST_ORGS

V = TypeVar("V")


class PreparedValue(NamedTuple, Generic[V]):
    """A prepared value, what it was made from, and when (seconds of the event loop)."""

    value: V
    inputs: tuple[object, ...]
    at: float


class Prepared(Generic[V]):
    """What takes long to prepare, by a key (such as the installation), for all visitors.

    A value is prepared again when one of its inputs was read again, and after `FRESH_SECONDS`, because texts and states
    depend on the time. So it is never older than its inputs: a live page asks each second, and shows an event within
    two.
    """

    def __init__(self) -> None:
        self._last: LRUCache[Hashable, PreparedValue[V]] = LRUCache(MOST_ORGS)
        self._preparing: dict[Hashable, tuple[tuple[object, ...], asyncio.Task[V]]] = {}

    async def read(self, key: Hashable, prepare: Callable[[], Coroutine[Any, Any, V]], *inputs: object) -> V:
        """Returns the value that `prepare` makes from the inputs, which are compared by identity.

        Visitors who ask at the same time wait for one preparation. Errors are those of `prepare`.
        """
        last = self._last.get(key)
        if last is not None and _same(last.inputs, inputs) and _time() - last.at <= FRESH_SECONDS:
            return last.value
        preparing = self._preparing.get(key)
        if preparing is None or not _same(preparing[0], inputs):
            task = asyncio.create_task(prepare())
            self._preparing[key] = preparing = inputs, task
            task.add_done_callback(partial(self._prepared, key, inputs))
        return await asyncio.shield(preparing[1])

    def _prepared(self, key: Hashable, inputs: tuple[object, ...], done: asyncio.Task[V]) -> None:
        failed = done.cancelled() or done.exception() is not None  # raised in the tasks that await it
        preparing = self._preparing.get(key)
        if preparing is not None and preparing[1] is done:
            del self._preparing[key]
            if not failed:
                self._last[key] = PreparedValue(done.result(), inputs, _time())


def _same(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    return len(one) == len(other) and all(map(operator.is_, one, other))


def _time() -> float:
    return asyncio.get_running_loop().time()
