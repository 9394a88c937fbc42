"""The doctor's findings, for the system page and for `ghapp doctor` over HTTP; one examination runs at a time.

The page never waits: it gets the last findings, with their time, while others are made in the background. The command
waits for findings of now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from threading import Thread
from typing import NamedTuple, Protocol

from ghapp.log import logger
from ghapp.web.operation import Clock

log = logger(__name__)

FRESH_SECONDS, WITH_PROBLEMS_SECONDS = 60.0, 15.0
"""Between two examinations while the page is open; the second while there is a problem, so that its end is seen."""

CURRENT_SECONDS = 90.0
"""Older findings are shown as those of before: what they report may have healed since."""

NOW_SECONDS = 5.0
"""Findings of an examination that began so recently are of now."""


class FindingLike(Protocol):
    """A finding of `ghapp doctor`."""

    @property
    def group(self) -> str:
        """The subject, such as `redis`."""

    @property
    def name(self) -> str:
        """The check, unique within its group and organization."""

    @property
    def status(self) -> str:
        """`ok`, `warning` or `wrong`."""

    @property
    def text(self) -> str:
        """The result."""

    @property
    def fix(self) -> str | None:
        """What to do; None if there is nothing to do."""

    @property
    def org(self) -> str | None:
        """The organization concerned; None for all."""


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
    """The last findings, and when their examination was begun (epoch seconds); both None before the first.

    `is_running`: True while another examination runs.
    """

    findings: Sequence[FindingLike] | None = None
    at: float | None = None
    is_running: bool = False


class Examination:
    """The last findings of this process."""

    def __init__(self, examine: Examine | None, clock: Clock) -> None:
        """`examine` is None where nothing can be examined."""
        self._examine, self._clock = examine, clock
        self._last, self._begun_at = Examined(), float("-inf")
        self._running: asyncio.Task[None] | None = None

    def latest(self) -> Examined:
        """Returns the last findings at once, however old; begins another examination when it is due."""
        has_problems = any(each.status != "ok" for each in self._last.findings or ())
        self._begin_after(WITH_PROBLEMS_SECONDS if has_problems else FRESH_SECONDS)
        return self._last._replace(is_running=self._running is not None)

    async def of_now(self) -> Sequence[FindingLike] | None:
        """Waits for findings of now, and returns them; None if the examination failed, or nothing can be examined."""
        self._begin_after(NOW_SECONDS)
        if self._running is not None:
            await asyncio.shield(self._running)
        return self._last.findings if self._last.at == self._begun_at else None

    def _begin_after(self, seconds: float) -> None:
        """Begins an examination if none runs and the last one began so long ago."""
        now = self._clock()
        is_due = not 0.0 <= now - self._begun_at < seconds  # or the clock jumped back
        if self._examine is not None and self._running is None and is_due:
            self._begun_at = now
            self._running = asyncio.create_task(self._run(self._examine, now))

    async def _run(self, examine: Examine, at: float) -> None:
        try:
            self._last = Examined(await examine(), at)
        except Exception as error:  # noqa: BLE001 - a failed examination must not end the role; the next one is due
            log.warning("examination failed", why=type(error).__name__)
        finally:
            self._running = None
