"""Keeps one namespace's runner pods; each end is recorded before another client deletes the pod."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial

from ghapp.cluster.watch import follow
from ghapp.cluster.watch_events import Listed, WatchChange, WatchEvent, WatchFailure
from ghapp.health.pods.degraded_sources import pods_source
from ghapp.health.pods.pod import Pod
from jobs.deaths.death_recorder import DeathRecorder
from jobs.pods.namespace_cache import Clock, NamespaceCache
from jobs.pods.ordered_tasks import OrderedTasks

AT_ONCE = 16
"""Changes that are recorded at the same time: an end queries a log. Above twenty requests the client reconnects."""


class PodCache(NamespaceCache[Pod]):
    """One namespace's runner pods, as the leading process sees them.

    The last state of each listed or watched pod is kept; it is dropped when the pod's end is recorded and the pod was
    deleted.
    """

    def __init__(
        self, namespace: str, recorder: DeathRecorder, leads: Callable[[], bool], clock: Clock = time.time
    ) -> None:
        super().__init__(namespace, pods_source(namespace), recorder.stores, leads, clock)
        self._recorder = recorder
        self._known: dict[str, Pod] = {}

    async def _begin(self) -> None:
        self._known = {each.uid: each for each in await self._pods.known(self._namespace)}

    def _follow(self) -> AsyncGenerator[WatchEvent[Pod], None]:
        return follow(self._recorder.cluster, self._namespace)

    async def attend(self) -> None:
        """Records what the watch shows until this process no longer leads; changes of several pods at the same time.

        An end takes a tenth of a second, most of it spent waiting for the log and for Redis' disk: recorded one after
        the other, a thousand of them were seen two minutes late.

        Raises:
            StoreUnavailableError: start again from the last record.
        """
        self._changes = OrderedTasks(AT_ONCE)
        await self._changes.run(super().attend())

    async def _take(self, event: WatchEvent[Pod]) -> None:
        match event:
            case WatchChange(found=Pod() as pod):
                await self._changes.begin(pod.name, partial(self.see, event))
            case _:  # a list and a bookmark are about all pods
                await self._changes.settle()
                await self.see(event)

    async def see(self, event: WatchEvent[Pod]) -> None:
        """Records one event of the watch. Deaths go first: a pod that has left the view is not looked for again."""
        match event:
            case Listed():
                self._cluster_clock.hear(event.server_time)
                await self._see_all([each for each in event.items if each.is_runners])
            case WatchChange(found=None):
                await self._pods.touch_pods(self._namespace, self._clock(), self._cluster_clock.ahead())
                await self._recorder.look_at_log_right(self._namespace)
            case WatchChange(kind="deleted", found=Pod() as pod):
                await self._see_deleted(pod)
            case WatchChange(found=Pod() as pod) if pod.is_runners:
                await self._see_one(pod)
            case WatchFailure(error):
                await self._failures.record(error)
                return
        await self._failures.over()

    async def _see_all(self, pods: list[Pod]) -> None:
        listed = {each.uid for each in pods}
        deleted = [each for uid, each in self._known.items() if uid not in listed]
        await _each(self._recorder.record_end, [each for each in pods if self._has_ended(each)])
        await _each(self._recorder.record_vanished, deleted)
        await self._recorder.ask_again(self._namespace)
        await self._recorder.look_at_log_right(self._namespace)
        await self._pods.replace_pods(self._namespace, pods, self._clock(), self._cluster_clock.ahead())
        self._known = {each.uid: each for each in pods}

    async def _see_one(self, pod: Pod) -> None:
        if self._has_ended(pod):
            await self._recorder.record_end(pod)
        await self._pods.put(self._namespace, pod)
        self._known[pod.uid] = pod

    def _has_ended(self, pod: Pod) -> bool:
        """True if its runner has ended since the last record: an end in the view was recorded before."""
        known = self._known.get(pod.uid)
        return pod.ended is not None and (known is None or known.ended != pod.ended)

    async def _see_deleted(self, pod: Pod) -> None:
        """Records a deleted pod: its last state may be the first that shows its end."""
        known = self._known.get(pod.uid)
        if pod.is_runners and self._has_ended(pod):
            await self._recorder.record_end(pod)
        elif known is not None or pod.is_runners:
            await self._recorder.record_vanished(pod if pod.is_running else known or pod)
        await self._pods.drop(self._namespace, pod.name, pod.uid)
        self._known.pop(pod.uid, None)


async def _each(record: Callable[[Pod], Awaitable[bool]], pods: list[Pod]) -> None:
    """Records all pods, some at a time; raises the first failure after all were tried."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(pod: Pod) -> None:
        async with slots:
            await record(pod)

    failures = [each for each in await asyncio.gather(*map(one, pods), return_exceptions=True) if each is not None]
    if failures:
        raise failures[0]
