"""The watch: sees each runner's pod end before anyone reaps it, and keeps a view of what is there.

Any number may run; a Lease lets one of them record. Whoever takes over begins with what was recorded last, so that a
pod that went in between is missed by nobody.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
import uuid
from collections.abc import Coroutine
from contextlib import suppress

from ghapp.cluster.access import WATCH_LEASE
from ghapp.cluster.connection import is_configured, open_cluster
from ghapp.cluster.lease import Leadership
from ghapp.cluster.task_cancel import cancel_tasks
from ghapp.errors import ConfigurationError, StoreUnavailableError
from ghapp.settings import Settings
from ghapp.store.connect import connect_sync, require
from ghapp.store.heartbeats import Heartbeats
from ghapp.store.stores import open_stores
from jobs.deaths.death_recorder import DeathRecorder
from jobs.pods.ephemeralrunner_cache import EphemeralRunnerCache
from jobs.pods.pod_cache import PodCache

BEAT_SECONDS = 5.0


async def watch(settings: Settings) -> None:
    """Watch every pool's namespace until SIGTERM or SIGINT."""
    if settings.redis_url is None:
        raise ConfigurationError("GHAPP_REDIS_URL: not set; every role but `up` needs it")
    if not settings.namespaces:
        raise ConfigurationError("[[pools]]: none has a namespace; `ghapp watch` has nothing to look at")
    if not is_configured(settings.cluster):
        raise ConfigurationError("KUBECONFIG: is not set; outside of a cluster it takes the path of a kubeconfig")
    identity = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    require(settings.redis_url)  # at the start, an unavailable Redis is a configuration error, reported at once
    with connect_sync(settings.redis_url) as queue_redis:
        async with (
            open_stores(settings.redis_url, settings.named) as stores,
            open_cluster(settings.cluster) as cluster,
            Leadership(cluster, WATCH_LEASE, identity).standing() as lead,
        ):
            coroner = DeathRecorder(settings, cluster, stores, queue_redis)
            views: list[PodCache | EphemeralRunnerCache] = []
            for each in settings.namespaces:
                views.append(PodCache(each, coroner, lambda: lead.is_ours))
                views.append(EphemeralRunnerCache(each, settings, cluster, stores, lambda: lead.is_ours))
            await _until_asked_to_stop([*(each.keep() for each in views), _beat(stores.heartbeats, identity)])


async def _beat(heartbeats: Heartbeats, who: str) -> None:
    while True:
        with suppress(StoreUnavailableError, OSError):
            await heartbeats.beat("watch", who, time.time())
        await asyncio.sleep(BEAT_SECONDS)


async def _until_asked_to_stop(tasks: list[Coroutine[None, None, None]]) -> None:
    """Run them until a signal comes; a mistake of ours in one of them ends the role, and is raised."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    running = [asyncio.create_task(each) for each in tasks]
    try:
        waiting = asyncio.create_task(stopped.wait())
        done, _ = await asyncio.wait([*running, waiting], return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            each.result()
    finally:
        await cancel_tasks([*running, waiting])
