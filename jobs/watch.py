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
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import aclosing, suppress

from redis.exceptions import RedisError

from ghapp.cluster.access import WATCH_LEASE
from ghapp.cluster.connection import is_configured, open_cluster
from ghapp.cluster.ending import end
from ghapp.cluster.lease import Leadership
from ghapp.cluster.sight import Change, Listed, Sight, Trouble
from ghapp.cluster.watch import follow
from ghapp.errors import ClusterError, ClusterForbiddenError, ConfigurationError, ResourceMissingError
from ghapp.health.cluster.pod import EphemeralRunner, Pod
from ghapp.log import logger
from ghapp.settings import Settings
from ghapp.store.connect import connect, connect_sync
from ghapp.store.heartbeats import Heartbeats
from ghapp.store.pods import Pods
from jobs.deaths.coroner import Clock, Coroner

log = logger(__name__)

AT_ONCE = 10
"""Ends that are recorded at the same time: each asks for a log."""

OBJECTS_SECONDS = 20.0
"""How often ARC's objects are listed; pods alone are watched."""

BEAT_SECONDS = 5.0
PAUSE_SECONDS = 0.5
WAIT_SECONDS = 1.0
"""For a Redis that is away."""


async def watch(settings: Settings) -> None:
    """Watch every pool's namespace until SIGTERM or SIGINT."""
    if settings.redis_url is None:
        raise ConfigurationError("GHAPP_REDIS_URL: not set; every role but `up` needs it")
    if not settings.namespaces:
        raise ConfigurationError("[[pools]]: none has a namespace; `ghapp watch` has nothing to look at")
    if not is_configured(settings.cluster):
        raise ConfigurationError("KUBECONFIG: is not set; outside of a cluster it takes the path of a kubeconfig")
    identity = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    redis, desk = connect(settings.redis_url), connect_sync(settings.redis_url)
    try:
        await redis.ping()  # at the start, a Redis that is not there is a mistake, and said at once
        async with (
            open_cluster(settings.cluster) as cluster,
            Leadership(cluster, WATCH_LEASE, identity).standing() as lead,
        ):
            coroner = Coroner(settings, cluster, redis, desk)
            views = [View(each, coroner, lambda: lead.is_ours) for each in settings.namespaces]
            tasks = [each.keep() for each in views] + [each.keep_objects() for each in views]
            await _until_asked_to_stop([*tasks, _beat(Heartbeats(redis), identity)])
    finally:
        await redis.aclose()
        desk.close()


class View:
    """One namespace, as it is seen by whoever leads.

    What is known stays with the pods that were listed or told of last; a pod is forgotten when its end is recorded
    and it is gone.
    """

    def __init__(self, namespace: str, coroner: Coroner, leads: Callable[[], bool], clock: Clock = time.time) -> None:
        self._namespace, self._coroner, self._leads, self._clock = namespace, coroner, leads, clock
        self._cluster, self._pods = coroner.cluster, Pods(coroner.redis)
        self._known: dict[str, Pod] = {}
        self._trouble: dict[str, str] = {}

    async def keep(self) -> None:
        """For ever: follow the namespace while we lead."""
        while True:
            pause = PAUSE_SECONDS
            if self._leads():
                try:
                    await self.attend()
                except (RedisError, OSError) as error:
                    self._say("pods", "watch waits for Redis", str(error))
                    pause = WAIT_SECONDS
            await asyncio.sleep(pause)

    async def attend(self) -> None:
        """Take over: see and record, until we lead no more. Raises: RedisError: begin again from the last record."""
        self._known = {each.uid: each for each in await self._pods.known(self._namespace)}
        async with aclosing(follow(self._cluster, self._namespace)) as sights:
            async for sight in sights:
                if not self._leads():
                    return
                await self.see(sight)

    async def see(self, sight: Sight) -> None:
        """Record what one sight shows. Deaths go first: what is not in the view any more is looked for by nobody."""
        match sight:
            case Listed():
                await self._see_all([each for each in sight.items if each.is_runners])
            case Change(pod=None):
                await self._pods.touch(self._namespace, self._clock())
            case Change(kind="deleted", pod=Pod() as pod):
                await self._see_gone(pod)
            case Change(pod=Pod() as pod) if pod.is_runners:
                await self._see_one(pod)
            case Trouble(error):
                self._say("pods", "watch sees nothing", str(error))
                return
        self._trouble.pop("pods", None)

    async def _see_all(self, pods: list[Pod]) -> None:
        listed = {each.uid for each in pods}
        gone = [each for uid, each in self._known.items() if uid not in listed]
        await _each(self._coroner.record_end, [each for each in pods if self._has_ended(each)])
        await _each(self._coroner.record_vanished, gone)
        await self._coroner.ask_again(self._namespace)
        await self._pods.replace_pods(self._namespace, pods, self._clock())
        self._known = {each.uid: each for each in pods}

    async def _see_one(self, pod: Pod) -> None:
        if self._has_ended(pod):
            await self._coroner.record_end(pod)
        await self._pods.put(self._namespace, pod)
        self._known[pod.uid] = pod

    def _has_ended(self, pod: Pod) -> bool:
        """Whether its runner has ended since it was recorded last: what is in the view has been told."""
        known = self._known.get(pod.uid)
        return pod.ended is not None and (known is None or known.ended != pod.ended)

    async def _see_gone(self, pod: Pod) -> None:
        """The last state of a deleted pod may be the first that shows its end."""
        known = self._known.get(pod.uid)
        if pod.is_runners and self._has_ended(pod):
            await self._coroner.record_end(pod)
        elif known is not None or pod.is_runners:
            await self._coroner.record_vanished(pod if pod.is_running else known or pod)
        await self._pods.drop(self._namespace, pod.name, pod.uid)
        self._known.pop(pod.uid, None)

    async def keep_objects(self) -> None:
        """For ever: list ARC's objects while we lead."""
        while True:
            leads = self._leads()
            if leads:
                with suppress(RedisError, OSError):
                    await self.see_objects()
            await asyncio.sleep(OBJECTS_SECONDS if leads else PAUSE_SECONDS)

    async def see_objects(self) -> None:
        """Record ARC's objects. Where they cannot be listed, what is known ages, and answers nothing any more."""
        try:
            objects = await self._objects()
        except ClusterError as error:
            self._say("objects", "watch sees nothing", str(error))
            return
        self._trouble.pop("objects", None)
        await self._pods.replace_objects(self._namespace, objects, self._clock())

    async def _objects(self) -> Iterable[EphemeralRunner]:
        try:
            return (await self._cluster.ephemeral_runners(self._namespace)).items
        except ResourceMissingError:
            return ()  # no ARC, no objects
        except ClusterForbiddenError:
            here = (pool for pool in self._coroner.settings.pools if pool.namespace == self._namespace)
            if any(pool.replacer == "arc" for pool in here):
                raise
            return ()  # nobody here asks for them

    def _say(self, of: str, what: str, why: str) -> None:
        """Once, until it is over or something else is in the way; pods and objects each have their own trouble."""
        if self._trouble.get(of) != why:
            log.warning(what, namespace=self._namespace, why=why)
        self._trouble[of] = why


async def _each(record: Callable[[Pod], Awaitable[bool]], pods: list[Pod]) -> None:
    """All of them, some at a time; the first failure is raised when all have been tried."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(pod: Pod) -> None:
        async with room:
            await record(pod)

    failures = [each for each in await asyncio.gather(*map(one, pods), return_exceptions=True) if each is not None]
    if failures:
        raise failures[0]


async def _beat(heartbeats: Heartbeats, who: str) -> None:
    while True:
        with suppress(RedisError, OSError):
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
        await end([*running, waiting])
