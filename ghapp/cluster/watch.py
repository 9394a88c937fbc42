"""Follows one namespace's pods or EphemeralRunners without gaps: lists them, then watches from the list's version.

A broken watch is resumed after its last complete event, so that the server repeats whatever came since. If the server
no longer has that version (410), or gives no answer, everything is listed again: what happened in between shows only
in the difference to what was known.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import aclosing
from functools import partial
from typing import Any, TypeVar

from ghapp.cluster.api import Cluster
from ghapp.cluster.watch_events import Listed, WatchChange, WatchEvent, WatchFailure
from ghapp.errors import ClusterError, ClusterUnavailableError, ResourceVersionExpiredError
from ghapp.pods.pod import EphemeralRunner, Pod

T = TypeVar("T")

FIRST_PAUSE = 0.2
"""Seconds. Also between two successful watches: resuming misses no event; a server that hangs up gets few requests."""

LONGEST_PAUSE = 30.0
RESUME_ATTEMPTS = 5
"""Failures in a row after which a version is not resumed any more: a restored etcd may be behind it for days."""

EXPIRED_IN_A_ROW = 3
"""Expired versions in a row that count as a failure. One is normal; a server may refuse that of each list."""

WATCHES = 10
"""About as many minutes. Then everything is listed again, in case a server omitted an event."""

Sleep = Callable[[float], Awaitable[None]]

Lists = Callable[[], Awaitable[Listed[T]]]
Watches = Callable[[str], AsyncGenerator[WatchChange[T], None]]


def follow(cluster: Cluster, namespace: str, sleep: Sleep = asyncio.sleep) -> AsyncGenerator[WatchEvent[Pod], None]:
    """Follows a namespace's pods; never ends. Close it (`aclosing`).

    Args:
        cluster: the cluster.
        namespace: the namespace.
        sleep: sleeps for a number of seconds.

    Yields:
        `Listed`: all existing pods; known pods that are missing from the list have vanished.
        `WatchChange`: a change of one pod; it may repeat what a list has shown.
        `WatchFailure`: pods cannot be read now; after each failed attempt.
    """
    return _follow(partial(cluster.pods, namespace), partial(cluster.watch_pods, namespace), sleep)


def follow_objects(
    cluster: Cluster, namespace: str, sleep: Sleep = asyncio.sleep
) -> AsyncGenerator[WatchEvent[EphemeralRunner], None]:
    """Follows EphemeralRunners, like `follow`. With permission to list but not to watch, each attempt lists them."""
    lists, watches = partial(cluster.ephemeral_runners, namespace), partial(cluster.watch_ephemeral_runners, namespace)
    return _follow(lists, watches, sleep)


async def _follow(lists: Lists[T], watches: Watches[T], sleep: Sleep) -> AsyncGenerator[WatchEvent[T], None]:
    version, failures, watched, is_listed = "", 0, 0, False
    while True:
        try:
            if not version or watched >= WATCHES:
                is_listed = False
                listed = await lists()
                version, watched, is_listed = listed.version, 0, True
                yield listed
            watched += 1
            async with aclosing(watches(version)) as changes:
                async for change in changes:
                    version, failures = change.version, 0
                    yield change
        except ClusterError as error:
            failures += 1
            if not isinstance(error, ClusterUnavailableError) or failures % RESUME_ATTEMPTS == 0:
                version = ""
            if not isinstance(error, ResourceVersionExpiredError) or failures >= EXPIRED_IN_A_ROW:
                yield WatchFailure(error, is_listed)
        await sleep(pause_after(failures))


def pause_after(failures: int, chance: Callable[[], float] = random.random) -> float:
    """Returns the seconds to wait after so many failures in a row: exponential backoff with jitter."""
    longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures, 16))
    return longest * (0.5 + chance() / 2)


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
