"""Expositions for Prometheus that are ready when a scrape asks, also where making one takes seconds.

Reading and judging 100,000 runners takes two seconds of CPU. Where making an exposition takes longer than
`LONG_SECONDS`, a scrape gets the last one, and the next one is made meanwhile; the header `Age` has its age.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

LONG_SECONDS = 0.1
MOST_AGE_SECONDS = 60.0
"""An older exposition is not an answer: the scrape waits for the next one."""


class Exposition(NamedTuple):
    """The body of an answer, and its media type."""

    body: bytes
    media_type: str


class _Made(NamedTuple):
    """An exposition, when it was made, and how long that took (seconds of the event loop)."""

    exposition: Exposition
    at: float
    took: float


class Expositions:
    """The last exposition of each media type."""

    def __init__(self) -> None:
        self._last: dict[str, _Made] = {}
        self._making: dict[str, asyncio.Task[_Made]] = {}

    async def read(
        self, media_type: str, make: Callable[[], Coroutine[Any, Any, Exposition]]
    ) -> tuple[Exposition, float]:
        """Returns an exposition and its age in seconds. Scrapes at the same time share one.

        Raises:
            StoreUnavailableError: Redis does not answer, and there is no recent exposition.
        """
        last, now = self._last.get(media_type), asyncio.get_running_loop().time()
        making = self._making.get(media_type)
        if making is None:
            self._making[media_type] = making = asyncio.create_task(self._made(media_type, make))
            making.add_done_callback(lambda made: made.cancelled() or made.exception())  # raised where it is awaited
        if last is not None and last.took > LONG_SECONDS and now - last.at <= MOST_AGE_SECONDS:
            return last.exposition, now - last.at
        return (await asyncio.shield(making)).exposition, 0.0

    async def _made(self, media_type: str, make: Callable[[], Coroutine[Any, Any, Exposition]]) -> _Made:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            exposition = await make()
            made = self._last[media_type] = _Made(exposition, loop.time(), loop.time() - began)
            return made
        finally:
            del self._making[media_type]
