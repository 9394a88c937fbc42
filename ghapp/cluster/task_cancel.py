"""End tasks that talk to the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

AGAIN_SECONDS = 0.5


async def cancel_tasks(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks until each has ended; what they raise is theirs.

    Once is not enough: anyio, below the client, swallows a cancellation that comes at the very moment when a
    connection has been made, and the task would go on for ever.
    """
    left: Collection[asyncio.Task[Any]] = tasks
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=AGAIN_SECONDS)
