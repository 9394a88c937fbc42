"""The watch: records how each runner's pod ends before the pod is deleted, and keeps a view of what exists.

Any number may run; a lock in Redis lets one of them record. The next one begins with what was recorded last, so that
no pod that was deleted in between is missed. A watch that cannot renew the lock, or that lost it, stops recording
before another one can begin.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import uuid
from collections.abc import Callable, Coroutine
from contextlib import suppress

from ghapp.cluster.connection import is_configured, open_cluster
from ghapp.decoding import LeftOutRows
from ghapp.errors import ConfigurationError, LockLostError, StoreUnavailableError
from ghapp.log import logger
from ghapp.redis_clock import SharedClock
from ghapp.settings import Settings
from ghapp.store.connect import connect_sync, require
from ghapp.store.locks import ROLE, HeldLock, Locks
from ghapp.store.stores import Stores, open_stores
from jobs.deaths.death_recorder import DeathRecorder
from jobs.pods.ephemeralrunner_cache import EphemeralRunnerCache
from jobs.pods.ordered_tasks import first_of
from jobs.pods.pod_cache import PodCache
from jobs.pods.scale_sets import keep_scale_sets

log = logger(__name__)


async def watch(settings: Settings) -> None:
    """Watches every pool's namespace until SIGTERM or SIGINT."""
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
            open_stores(settings.redis_url, settings.named, settings.timings) as stores,
            open_cluster(settings.cluster, timings=settings.timings) as cluster,
        ):
            clock = SharedClock()
            await stores.heartbeats.measure_clock(clock, f"watch {identity}")
            recorder = DeathRecorder(settings, cluster, stores, queue_redis, clock)

            def views(lock: HeldLock) -> list[Coroutine[None, None, None]]:
                found: list[PodCache | EphemeralRunnerCache] = []
                for each in settings.namespaces:
                    found.append(PodCache(each, recorder, lambda: lock.is_valid, clock))
                    found.append(EphemeralRunnerCache(each, settings, cluster, stores, lambda: lock.is_valid, clock))
                scale_sets = [
                    keep_scale_sets(each, cluster, stores, lambda: lock.is_valid) for each in settings.namespaces
                ]
                return [*(each.keep() for each in found), *scale_sets]

            timings = settings.timings
            leading = lead(stores.locks, identity, views, timings.watch_retry_seconds)
            beating = _beat(stores, clock, identity, cluster.left_out, timings.beat_seconds)
            await _until_asked_to_stop([leading, beating])


async def lead(
    locks: Locks,
    identity: str,
    views: Callable[[HeldLock], list[Coroutine[None, None, None]]],
    retry_seconds: float,
) -> None:
    """Runs the views while this process holds the lock, and waits for the lock otherwise; never returns.

    Args:
        locks: a watch whose Redis does not answer stops recording a fifth earlier than its lock expires.
        identity: unique to this process; `ghapp doctor` compares it with the heartbeats.
        views: returns coroutines that record until they are cancelled, and that check the lock before each record.
        retry_seconds: between two attempts to get the lock.
    """
    why = ""
    while True:
        try:
            async with locks.hold(ROLE, "watch", holder=identity) as lock:
                why = ""
                if lock is not None:
                    log.info("leadership gained", holder=identity)
                    await first_of(views(lock))
        except LockLostError as error:
            log.warning("leadership lost", holder=identity, why=str(error))
        except StoreUnavailableError as error:
            if str(error) != why:
                log.warning("Redis unavailable, retrying", why=str(error))
            why = str(error)
        await asyncio.sleep(retry_seconds)


async def _beat(stores: Stores, clock: SharedClock, identity: str, left_out: LeftOutRows, seconds: float) -> None:
    while True:
        with suppress(StoreUnavailableError, OSError):
            await stores.heartbeats.measure_clock(clock, f"watch {identity}")
            await stores.heartbeats.beat("watch", identity, clock())
            await stores.left_out.record(left_out, clock())
        await asyncio.sleep(seconds)


async def _until_asked_to_stop(tasks: list[Coroutine[None, None, None]]) -> None:
    """Runs the tasks until a signal arrives; an unexpected error in one of them ends the role."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)

    async def wait() -> None:
        await stopped.wait()

    await first_of([*tasks, wait()])
