"""Looking without failing: whatever goes wrong on the way is a finding, and so is an answer that takes too long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from threading import Thread
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError

from ghapp.doctor.finding import Finding, wrong
from ghapp.errors import GhappError
from ghapp.log import redact
from ghapp.store.connect import connect

PATIENCE_SECONDS = 4.0
"""For one look. No more than three come one after the other."""

Look = Callable[[], Awaitable[list[Finding]]]


async def probe(group: str, name: str, look: Look, fix: str) -> list[Finding]:
    """What a look finds; or that it failed, and `fix` is what to do then."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await look()
    except TimeoutError:
        return [wrong(group, name, f"no answer within {PATIENCE_SECONDS:.0f} s", fix)]
    except (GhappError, RedisError, OSError) as error:
        return [wrong(group, name, redact(str(error)), fix)]


class DetachedThreads(ThreadPoolExecutor):
    """A thread a call, and nobody waits for them at the end.

    A name server that is away keeps whoever looks up a name for half a minute, and asyncio would wait for that thread
    long after it gave up the look.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call it in a thread of its own."""
        future: Future[Any] = Future()

        def call() -> None:
            try:
                answer = fn(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - it is raised where the future is awaited
                future.set_exception(error)
            else:
                future.set_result(answer)

        if future.set_running_or_notify_cancel():
            Thread(target=call, daemon=True).start()
        return future


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Redis]:
    """Redis, while the block runs."""
    redis = connect(url)
    try:
        yield redis
    finally:
        await redis.aclose()
