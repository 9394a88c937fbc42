"""Keeps one namespace's runner pods, and has each end recorded as a death before another client deletes the pod.

The snapshot shows a change at once. The death takes longer: a log is read, and a job enqueued, some 7 ms of CPU. So the
change and the end that it shows (`pods.end_store`) are stored in one transaction, and deaths are recorded from there.
An end whose log could not be read for now stays there until its death has the log, or will not get it: a watch that is
killed meanwhile leaves it to the next one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from functools import partial

from ghapp.cluster.watch import follow
from ghapp.cluster.watch_events import Listed, WatchChange, WatchEvent, WatchFailure
from ghapp.log import logger
from ghapp.pods.degraded_sources import deaths_source, pods_source
from ghapp.pods.end_store import PodEnd, UnrecordedEnd
from ghapp.pods.pod import Pod
from ghapp.pods.store import PodChange
from jobs.deaths.death_recorder import DeathRecorder
from jobs.pods.namespace_cache import Clock, NamespaceCache
from jobs.pods.ordered_tasks import OrderedTasks, first_of

log = logger(__name__)

AT_ONCE = 16
"""Ends that are recorded at the same time: each queries a log. Above twenty requests the client reconnects."""

CHECK_SECONDS, RECHECK_SECONDS = 60.0, 15.0
"""Between two checks of the rights to read logs, and while one of them is refused."""

MOST_CHANGES = 200
"""Changes that one transaction stores."""

MOST_UNRECORDED = 5_000
"""Ends left to record above which no further events are taken: the API server keeps them meanwhile."""

LOG_PAUSES = (1.0, 4.0, 10.0, 30.0, 60.0, 120.0, 240.0)
"""Before each further request for a log that could not be read: some eight minutes, in which an API server or a kubelet
answers again, or the pod is deleted."""

LATE_LOGS_AT_ONCE = 4
"""Further requests at the same time, beside `AT_ONCE` first ones."""

MOST_LATE_LOGS = 500
"""Deaths of a namespace that wait for their logs; of more, the log is not asked for again."""


class PodCache(NamespaceCache[Pod]):
    """One namespace's runner pods, as the leading process sees them."""

    def __init__(
        self, namespace: str, recorder: DeathRecorder, leads: Callable[[], bool], clock: Clock = time.time
    ) -> None:
        super().__init__(namespace, pods_source(namespace), deaths_source(namespace), recorder.stores, leads, clock)
        self._recorder, self._ends = recorder, recorder.stores.pod_ends
        self._known: dict[str, Pod] = {}
        self._has_ends, self._recorded = asyncio.Event(), asyncio.Event()

    async def _begin(self) -> None:
        self._known = {each.uid: each for each in await self._pods.known(self._namespace)}

    def _follow(self) -> AsyncGenerator[WatchEvent[Pod], None]:
        return follow(self._recorder.cluster, self._namespace)

    async def run(self) -> None:
        """Records what the watch shows until this process no longer leads.

        Raises:
            StoreUnavailableError: start again from the last record.
        """
        self._events = asyncio.Queue[WatchEvent[Pod]](MOST_CHANGES)
        recording, self._late_logs = OrderedTasks(AT_ONCE), OrderedTasks(MOST_LATE_LOGS)
        self._may_ask_again = asyncio.Semaphore(LATE_LOGS_AT_ONCE)
        tasks = [super().run(), self._store_events(), self._check_log_rights()]
        recorders = [recording.run(self._record_ends(recording)), self._late_logs.run(asyncio.Event().wait())]
        await first_of([*tasks, *recorders])

    async def _enqueue(self, event: WatchEvent[Pod]) -> None:
        await self._events.put(event)

    async def _store_events(self) -> None:
        """Stores the events in order; changes that arrive while a transaction runs are stored by the next one."""
        while True:
            events = [await self._events.get()]
            while not self._events.empty():
                events.append(self._events.get_nowait())
            if not self._leads():
                return
            changes: list[PodChange] = []
            for event in events:
                match event:
                    case WatchChange(found=Pod()):
                        changes += self._changes_of(event)
                    case _:  # a list and a bookmark are about all pods
                        await self._store(changes)
                        changes = []
                        await self.record(event)
            await self._store(changes)

    async def _check_log_rights(self) -> None:
        """Checks regularly whether logs may be read: the next death may be a day off."""
        while True:
            is_refused = await self._recorder.check_log_rights(self._namespace)
            await asyncio.sleep(RECHECK_SECONDS if is_refused else CHECK_SECONDS)

    async def record(self, event: WatchEvent[Pod]) -> None:
        """Stores one event of the watch."""
        match event:
            case Listed():
                self._cluster_clock.update(event.server_time)
                await self._record_list(_with_unreadable(event, self._known))
                await self._failures.over()
                return
            case WatchChange(found=None):
                await self._pods.touch_pods(self._namespace, self._clock(), self._cluster_clock.ahead())
            case WatchChange():
                await self._store(self._changes_of(event))
            case WatchFailure():
                await self._record_failure(event)
                return
        await self._record_watched()

    async def _record_list(self, pods: list[Pod]) -> None:
        listed = {each.uid for each in pods}
        ends = [PodEnd(each) for each in pods if self._ended_since(each)]
        ends += [
            PodEnd(each, vanished=True) for uid, each in self._known.items() if uid not in listed and not each.has_ended
        ]
        await self._recorder.enqueue_unpublished(self._namespace)
        await self._pods.replace_pods(self._namespace, pods, self._clock(), self._cluster_clock.ahead(), ends)
        self._known = {each.uid: each for each in pods}
        self._has_ends.set()

    def _changes_of(self, event: WatchChange[Pod]) -> list[PodChange]:
        """Returns the change that an event shows; none for a bookmark, and for a pod without a runner."""
        pod = event.found
        known = None if pod is None else self._known.get(pod.uid)
        if pod is None or (not pod.is_runners and known is None):
            return []
        end = PodEnd(pod) if pod.is_runners and self._ended_since(pod) else None
        if event.kind != "deleted":
            if not pod.is_runners:
                return []
            self._known[pod.uid] = pod
            return [PodChange(pod, end=end)]
        self._known.pop(pod.uid, None)
        last = pod if pod.is_running else known or pod
        if end is None and not last.has_ended:
            end = PodEnd(last, vanished=True)
        return [PodChange(pod, deleted=True, end=end)]

    def _ended_since(self, pod: Pod) -> bool:
        """True if its runner has ended since the last record: an end in the snapshot was stored before."""
        known = self._known.get(pod.uid)
        return pod.ended is not None and (known is None or known.ended != pod.ended)

    async def _store(self, changes: list[PodChange]) -> None:
        """Stores changes; waits while too many ends are left to record."""
        if not changes:
            return
        await self._pods.record(self._namespace, changes)
        await self._record_watched()
        if any(each.end is not None for each in changes):
            self._has_ends.set()
            while await self._ends.left(self._namespace) - self._late_logs.count > MOST_UNRECORDED:
                self._recorded.clear()
                await self._recorded.wait()

    async def _record_ends(self, recording: OrderedTasks) -> None:
        """Records the stored ends, those that an earlier watch left first, while this process leads."""
        last: bytes | None = None
        while self._leads():
            self._has_ends.clear()
            found = await self._ends.unrecorded(self._namespace, last, AT_ONCE)
            for each in found:
                await recording.begin(each.end.pod.name, partial(self._record_end, each))
                last = each.id
            if not found:
                await self._has_ends.wait()

    async def _record_end(self, found: UnrecordedEnd) -> None:
        pod, vanished = found.end
        if vanished:
            await self._recorder.record_vanished(pod, found.added_at)
        elif (await self._recorder.record_end(pod)).lacks_log:
            if self._late_logs.has_room:
                await self._late_logs.begin(pod.name, partial(self._add_log, found))
                self._recorded.set()
                return
            self._log_missing(pod)
        await self._finish(found)

    async def _add_log(self, found: UnrecordedEnd) -> None:
        """Asks for the log of a recorded death until there is one, it is lost, or all requests were unanswered."""
        pod = found.end.pod
        for pause in LOG_PAUSES:
            await asyncio.sleep(pause)
            shown = self._known.get(pod.uid)
            if shown is None or shown.ended != pod.ended:  # what is read by its name now is another container's log
                break
            async with self._may_ask_again:
                if not await self._recorder.add_log(shown):
                    await self._finish(found)
                    return
        self._log_missing(pod)
        await self._finish(found)

    async def _finish(self, found: UnrecordedEnd) -> None:
        await self._ends.recorded(self._namespace, found.id)
        self._recorded.set()

    def _log_missing(self, pod: Pod) -> None:
        log.warning("runner log not read", namespace=pod.namespace, pod=pod.name)


def _with_unreadable(listed: Listed[Pod], known: Mapping[str, Pod]) -> list[Pod]:
    """Returns the runners' pods: one that exists and cannot be read as it was known before, so that it has no end."""
    read = [each for each in listed.items if each.is_runners]
    uids = {each.uid for each in listed.items}
    return [*read, *(each for uid, each in known.items() if uid not in uids and listed.may_have(uid))]
