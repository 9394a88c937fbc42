"""Runs work on many objects concurrently, and that on one object in order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence

from ghapp.cluster.watch import cancel_tasks

Work = Callable[[], Awaitable[None]]


class OrderedTasks:
    """Tasks by the name of their object. After a failure no other task begins.

    Args:
        at_once: the most tasks that run or wait at the same time.
    """

    def __init__(self, at_once: int) -> None:
        self._slots = asyncio.Semaphore(at_once)
        self._last: dict[str, asyncio.Task[None]] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def count(self) -> int:
        """How many tasks run or wait."""
        return len(self._running)

    @property
    def has_room(self) -> bool:
        """True if `begin` does not wait."""
        return not self._slots.locked()

    async def begin(self, name: str, work: Work) -> None:
        """Begins a task that runs after the earlier ones of that name; waits while too many run."""
        await self._slots.acquire()
        task = asyncio.create_task(self._run(self._last.get(name), work))
        self._last[name] = task
        self._running.add(task)
        task.add_done_callback(lambda ended: self._ended(name, ended))

    async def run(self, beginning: Coroutine[None, None, object]) -> None:
        """Runs a coroutine that begins tasks, until it ends or a task fails; then cancels whatever still runs.

        Raises:
            Exception: what the coroutine or a task raised.
        """
        try:
            await first_of([beginning, self._failure()])
        finally:
            await cancel_tasks([*self._running])

    async def _failure(self) -> None:
        await asyncio.shield(self._failed)

    async def _run(self, before: asyncio.Task[None] | None, work: Work) -> None:
        if before is not None:
            await asyncio.wait([before])
        if not self._failed.done():
            await work()

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        self._slots.release()
        self._running.discard(task)
        if self._last.get(name) is task:
            del self._last[name]
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._failed.done():
            self._failed.set_exception(error)


async def first_of(coroutines: Sequence[Coroutine[None, None, object]]) -> None:
    """Runs coroutines until one ends, and cancels the others. Raises what that one raised."""
    running = [asyncio.create_task(each) for each in coroutines]
    try:
        done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            each.result()
    finally:
        await cancel_tasks(running)
