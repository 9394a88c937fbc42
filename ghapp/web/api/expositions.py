"""Expositions for Prometheus that are ready when a scrape asks, also where making one takes seconds.

Reading and judging 100,000 runners takes two seconds of CPU. Where making an exposition takes longer than
`LONG_SECONDS`, a scrape gets the last one, and the next one is made meanwhile; the header `Age` has its age. So does a
scrape that has waited for `LONG_SECONDS`: there may be more installations now than at the last scrape. The first ones
are made before web listens. If scrapes are rare, one more is made in between, so that the last one is never too old.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

LONG_SECONDS = 0.05
MOST_AGE_SECONDS = 60.0
"""An older exposition is not an answer: the scrape waits for the next one."""

SCRAPED_SECONDS = 600.0
"""For so long after a scrape, expositions that take long are made again before they are too old."""


class Exposition(NamedTuple):
    """The body of an answer, and its media type."""

    body: bytes
    media_type: str


Make = Callable[[], Coroutine[Any, Any, Exposition]]


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
        self._scrapes: dict[str, tuple[float, Make]] = {}
        """The time of the last scrape of each media type, and how its exposition is made."""

    async def read(self, media_type: str, make: Make) -> tuple[Exposition, float]:
        """Returns an exposition and its age in seconds. Scrapes at the same time share one.

        Raises:
            StoreUnavailableError: Redis does not answer, and there is no recent exposition.
        """
        last, now = self._last.get(media_type), asyncio.get_running_loop().time()
        self._scrapes[media_type] = now, make
        making = self._make(media_type, make)
        if last is not None and now - last.at <= MOST_AGE_SECONDS:
            if last.took <= LONG_SECONDS:
                await asyncio.wait({making}, timeout=LONG_SECONDS)
            if last.took > LONG_SECONDS or not making.done():
                return last.exposition, now - last.at
        return (await asyncio.shield(making)).exposition, 0.0

    async def prepare(self, media_type: str, make: Make) -> None:
        """Makes an exposition before a scrape asks.

        Raises:
            StoreUnavailableError: Redis does not answer.
        """
        await asyncio.shield(self._make(media_type, make))

    def _make(self, media_type: str, make: Make) -> asyncio.Task[_Made]:
        """Begins to make an exposition, unless one is being made."""
        making = self._making.get(media_type)
        if making is None:
            self._making[media_type] = making = asyncio.create_task(self._made(media_type, make))
            making.add_done_callback(lambda made: made.cancelled() or made.exception())  # raised where it is awaited
        return making

    async def _made(self, media_type: str, make: Make) -> _Made:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            exposition = await make()
            made = self._last[media_type] = _Made(exposition, loop.time(), loop.time() - began)
        finally:
            del self._making[media_type]
        if made.took > LONG_SECONDS and (due := MOST_AGE_SECONDS - 2 * made.took) > 0:
            loop.call_later(due, self._make_again, media_type, made)
        return made

    def _make_again(self, media_type: str, made: _Made) -> None:
        """Makes the exposition again that is too old soon, if no scrape has had it made, and scrapes have not ended."""
        scrape = self._scrapes.get(media_type)
        if scrape is None or self._last[media_type] is not made:
            return
        scraped_at, make = scrape
        if asyncio.get_running_loop().time() - scraped_at < SCRAPED_SECONDS:
            self._make(media_type, make)
