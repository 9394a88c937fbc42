"""The doctor's findings for the system page: examined in the background while the page is open, at most once a minute.

A request never waits for the examination: it gets the last findings, with their time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from threading import Thread
from typing import NamedTuple

from ghapp.log import logger
from ghapp.web.api.health import Clock
from ghapp.web.pages.views.findings import FindingLike

log = logger(__name__)

FRESH_SECONDS = 60.0

Examine = Callable[[], Awaitable[Sequence[FindingLike]]]
"""Runs the checks without blocking the event loop."""


async def in_own_thread(examine: Callable[[], Sequence[FindingLike]]) -> Sequence[FindingLike]:
    """Runs an examination in a daemon thread, which does not delay the role's end as asyncio's own threads do."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Sequence[FindingLike]] = loop.create_future()

    def settle(found: Sequence[FindingLike], error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(found)

    def run() -> None:
        found: Sequence[FindingLike] = ()
        failed: BaseException | None = None
        try:
            found = examine()
        except BaseException as error:  # noqa: BLE001 - raised where it is awaited
            failed = error
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, found, failed)

    Thread(target=run, name="examination", daemon=True).start()
    return await done


class Examined(NamedTuple):
    """Findings, and when their examination was begun (epoch seconds); None before the first is over."""

    findings: Sequence[FindingLike] | None = None
    at: float | None = None


class Examination:
    """The last findings of this process."""

    def __init__(self, examine: Examine | None, clock: Clock) -> None:
        """`examine` is None where nothing can be examined."""
        self._examine, self._clock = examine, clock
        self._last, self._begun_at = Examined(), float("-inf")
        self._running: asyncio.Task[None] | None = None

    def latest(self) -> Examined:
        """Returns the last findings at once; begins another examination if the last one began a minute ago."""
        now = self._clock()
        is_due = not 0.0 <= now - self._begun_at < FRESH_SECONDS  # or the clock jumped back
        if self._examine is not None and self._running is None and is_due:
            self._begun_at = now
            self._running = asyncio.create_task(self._run(self._examine, now))
        return self._last

    async def _run(self, examine: Examine, at: float) -> None:
        try:
            self._last = Examined(await examine(), at)
        except Exception as error:  # noqa: BLE001 - a failed examination must not end the role; the next one is due
            log.warning("examination for the page failed", why=type(error).__name__)
        finally:
            self._running = None
