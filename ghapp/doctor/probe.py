"""Runs a check so that an error or a time-out becomes a finding."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Thread
from typing import Any

from ghapp.doctor.finding import Finding, wrong
from ghapp.errors import GhappError
from ghapp.log import redact

TIMEOUT_SECONDS = 4.0
"""For one check. At most six run one after the other."""

Check = Callable[[], Awaitable[list[Finding]]]


async def probe(group: str, name: str, check: Check, fix: str) -> list[Finding]:
    """Returns the findings of the check; if it fails or times out, one finding with `fix`."""
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return await check()
    except TimeoutError:
        return [wrong(group, name, f"no answer within {TIMEOUT_SECONDS:.0f} s", fix)]
    except (GhappError, OSError) as error:
        return [wrong(group, name, redact(str(error)), fix)]


class DetachedThreads(ThreadPoolExecutor):
    """Runs each call in a daemon thread of its own, which does not delay shutdown.

    An unreachable name server blocks `getaddrinfo` for half a minute, and asyncio would wait for that thread long
    after the check timed out.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Calls `fn` in a new thread."""
        future: Future[Any] = Future()

        def call() -> None:
            try:
                answer = fn(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - raised where the future is awaited
                future.set_exception(error)
            else:
                future.set_result(answer)

        if future.set_running_or_notify_cancel():
            Thread(target=call, daemon=True).start()
        return future
