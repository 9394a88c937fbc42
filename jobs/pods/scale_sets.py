"""Reads ARC's scale sets once a minute: how many runners each keeps without a job, and how many it wants.

They are listed, not watched: there are few, and what they show is judged only after it has lasted for minutes. Without
the right to list them nothing is recorded, and inflated demand is not found; `ghapp doctor` names the missing right.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ghapp.cluster.api import Cluster
from ghapp.errors import ClusterError, StoreUnavailableError
from ghapp.log import logger
from ghapp.store.stores import Stores

EVERY_SECONDS = 60.0
WAIT_SECONDS = 1.0
"""While another process leads."""

log = logger(__name__)


async def keep_scale_sets(namespace: str, cluster: Cluster, stores: Stores, leads: Callable[[], bool]) -> None:
    """Records the scale sets of a namespace while this process leads; never ends."""
    why = ""
    while True:
        if not leads():
            await asyncio.sleep(WAIT_SECONDS)
            continue
        try:
            await record_scale_sets(namespace, cluster, stores)
            why = ""
        except (ClusterError, StoreUnavailableError, OSError) as error:
            if str(error) != why:
                log.info("scale sets not read", namespace=namespace, why=str(error))
            why = str(error)
        await asyncio.sleep(EVERY_SECONDS)


async def record_scale_sets(namespace: str, cluster: Cluster, stores: Stores) -> None:
    """Reads and records them once.

    Raises:
        ClusterError: they cannot be read, or ARC is not installed.
        StoreUnavailableError: Redis does not answer.
    """
    await stores.scale_sets.put(namespace, await cluster.scale_sets(namespace))
