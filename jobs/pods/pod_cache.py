"""One namespace's runner pods: each end is recorded before anyone reaps the pod, and what is there is kept in view."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable

from ghapp.cluster.watch import follow
from ghapp.cluster.watch_events import Listed, Sight, WatchChange
from ghapp.cluster.watch_events import WatchFailure as Unseen
from ghapp.health.pods.degraded_sources import pods_source
from ghapp.health.pods.pod import Pod
from jobs.deaths.death_recorder import DeathRecorder
from jobs.pods.namespace_cache import Clock, NamespaceCache

AT_ONCE = 10
"""Ends that are recorded at the same time: each asks for a log."""


class PodCache(NamespaceCache[Pod]):
    """One namespace's runner pods, as they are seen by whoever leads.

    What is known stays with the pods that were listed or told of last; a pod is forgotten when its end is recorded
    and it is gone.
    """

    def __init__(
        self, namespace: str, coroner: DeathRecorder, leads: Callable[[], bool], clock: Clock = time.time
    ) -> None:
        super().__init__(namespace, pods_source(namespace), coroner.stores, leads, clock)
        self._coroner = coroner
        self._known: dict[str, Pod] = {}

    async def _begin(self) -> None:
        self._known = {each.uid: each for each in await self._pods.known(self._namespace)}

    def _follow(self) -> AsyncGenerator[Sight[Pod], None]:
        return follow(self._coroner.cluster, self._namespace)

    async def see(self, sight: Sight[Pod]) -> None:
        """Record what one sight shows. Deaths go first: what is not in the view any more is looked for by nobody."""
        match sight:
            case Listed():
                self._cluster_clock.hear(sight.told_at)
                await self._see_all([each for each in sight.items if each.is_runners])
            case WatchChange(found=None):
                await self._pods.touch_pods(self._namespace, self._clock(), self._cluster_clock.ahead())
                await self._coroner.look_at_log_right(self._namespace)
            case WatchChange(kind="deleted", found=Pod() as pod):
                await self._see_gone(pod)
            case WatchChange(found=Pod() as pod) if pod.is_runners:
                await self._see_one(pod)
            case Unseen(error):
                await self._trouble.tell(error)
                return
        await self._trouble.over()

    async def _see_all(self, pods: list[Pod]) -> None:
        listed = {each.uid for each in pods}
        gone = [each for uid, each in self._known.items() if uid not in listed]
        await _each(self._coroner.record_end, [each for each in pods if self._has_ended(each)])
        await _each(self._coroner.record_vanished, gone)
        await self._coroner.ask_again(self._namespace)
        await self._coroner.look_at_log_right(self._namespace)
        await self._pods.replace_pods(self._namespace, pods, self._clock(), self._cluster_clock.ahead())
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


async def _each(record: Callable[[Pod], Awaitable[bool]], pods: list[Pod]) -> None:
    """All of them, some at a time; the first failure is raised when all have been tried."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(pod: Pod) -> None:
        async with room:
            await record(pod)

    failures = [each for each in await asyncio.gather(*map(one, pods), return_exceptions=True) if each is not None]
    if failures:
        raise failures[0]
