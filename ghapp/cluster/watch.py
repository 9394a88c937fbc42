"""One namespace's pods, or ARC's objects, seen without a gap: list, then watch from the list's version, for ever.

A watch that breaks is resumed after the last event that was whole, so the server sends again whatever came since. When
it has forgotten that version (410), or can't be asked, everything is listed anew: what happened in between shows in
the difference to what was known, and in nothing else.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import TypeVar

from ghapp.cluster.api import Cluster
from ghapp.cluster.watch_events import Listed, Sight, WatchChange, WatchFailure
from ghapp.errors import ClusterError, ClusterUnavailableError, VersionGoneError
from ghapp.health.pods.pod import EphemeralRunner, Pod

T = TypeVar("T")

FIRST_PAUSE = 0.2
"""Seconds. Also between two watches that went well: resuming misses nothing, and a server that hangs up is not hurt."""

LONGEST_PAUSE = 30.0
PATIENCE = 5
"""Failures in a row after which a version is not resumed from any more: a restored etcd may be behind it for days."""

WATCHES = 10
"""About as many minutes. Then everything is listed anew, should a server have kept something from us."""

Rest = Callable[[float], Awaitable[None]]
Lists = Callable[[], Awaitable[Listed[T]]]
Watches = Callable[[str], AsyncGenerator[WatchChange[T], None]]


def follow(cluster: Cluster, namespace: str, rest: Rest = asyncio.sleep) -> AsyncGenerator[Sight[Pod], None]:
    """See a namespace's pods; never ends. Close it (`aclosing`).

    Args:
        cluster: whose.
        namespace: which.
        rest: pauses for some seconds.

    Yields:
        `Listed`: all pods that are there; what was known and is not among them, has vanished.
        `Change`: what became of one pod; may tell again what a list already told.
        `Trouble`: nothing can be seen for now; each time that an attempt failed.
    """
    return _follow(partial(cluster.pods, namespace), partial(cluster.watch_pods, namespace), rest)


def follow_objects(
    cluster: Cluster, namespace: str, rest: Rest = asyncio.sleep
) -> AsyncGenerator[Sight[EphemeralRunner], None]:
    """The same of ARC's runner objects. Who may list them, and not watch them, sees them at each attempt."""
    lists, watches = partial(cluster.ephemeral_runners, namespace), partial(cluster.watch_ephemeral_runners, namespace)
    return _follow(lists, watches, rest)


async def _follow(lists: Lists[T], watches: Watches[T], rest: Rest) -> AsyncGenerator[Sight[T], None]:
    version, failures, watched = "", 0, 0
    while True:
        try:
            if not version or watched >= WATCHES:
                listed = await lists()
                version, watched = listed.version, 0
                yield listed
            watched += 1
            async with aclosing(watches(version)) as changes:
                async for change in changes:
                    version, failures = change.version, 0
                    yield change
        except ClusterError as error:
            failures += 1
            if not isinstance(error, ClusterUnavailableError) or failures % PATIENCE == 0:
                version = ""
            if not isinstance(error, VersionGoneError):
                yield WatchFailure(error)
        await rest(pause_after(failures))


def pause_after(failures: int, chance: Callable[[], float] = random.random) -> float:
    """How many seconds to wait after so many failures in a row: twice as long each time, and never all at once."""
    longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures, 16))
    return longest * (0.5 + chance() / 2)
