"""One namespace's pods, seen without a gap: list, then watch from the list's version, for ever.

A watch that breaks is resumed after the last event that was whole, so the server sends again whatever came since. When
it has forgotten that version (410), or can't be asked, everything is listed anew: what happened in between shows in
the difference to what was known, and in nothing else.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from ghapp.cluster.api import Cluster
from ghapp.cluster.sight import Sight, Trouble
from ghapp.errors import ClusterError, ClusterUnavailableError, VersionGoneError

FIRST_PAUSE = 0.2
"""Seconds. Also between two watches that went well: resuming misses nothing, and a server that hangs up is not hurt."""

LONGEST_PAUSE = 30.0
PATIENCE = 5
"""Failures in a row after which a version is not resumed from any more: a restored etcd may be behind it for days."""

WATCHES = 10
"""About as many minutes. Then everything is listed anew, should a server have kept something from us."""

Rest = Callable[[float], Awaitable[None]]


async def follow(cluster: Cluster, namespace: str, rest: Rest = asyncio.sleep) -> AsyncGenerator[Sight, None]:
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
    version, failures, watches = "", 0, 0
    while True:
        try:
            if not version or watches >= WATCHES:
                listed = await cluster.pods(namespace)
                version, watches = listed.version, 0
                yield listed
            watches += 1
            async with aclosing(cluster.watch_pods(namespace, version)) as changes:
                async for change in changes:
                    version, failures = change.version, 0
                    yield change
        except ClusterError as error:
            failures += 1
            if not isinstance(error, ClusterUnavailableError) or failures % PATIENCE == 0:
                version = ""
            if not isinstance(error, VersionGoneError):
                yield Trouble(error)
        await rest(pause_after(failures))


def pause_after(failures: int, chance: Callable[[], float] = random.random) -> float:
    """How many seconds to wait after so many failures in a row: twice as long each time, and never all at once."""
    longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures, 16))
    return longest * (0.5 + chance() / 2)
