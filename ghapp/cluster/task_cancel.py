"""Cancels asyncio tasks that use the cluster's client."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

AGAIN_SECONDS = 0.5


async def cancel_tasks(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancels tasks until all have ended; ignores their errors.

    One cancellation may not suffice: anyio, below the client, swallows a cancellation at the very moment at which a
    connection was made, and the task would run forever.
    """
    left: Collection[asyncio.Task[Any]] = tasks
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=AGAIN_SECONDS)
