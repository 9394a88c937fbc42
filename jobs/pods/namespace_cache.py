"""One namespace's objects of one kind, recorded as the cluster's watch shows them, while this process leads."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Generic, TypeVar

from ghapp.cluster.failure_grace import FailureGrace
from ghapp.cluster.watch_events import WatchEvent, WatchFailure
from ghapp.errors import ClusterError, ClusterForbiddenError, StoreUnavailableError
from ghapp.log import logger, redact
from ghapp.store.stores import Stores

log = logger(__name__)


class DegradedView:
    """The failures of one view of a namespace, or of its watch. What is listed is seen; what is watched, without gaps.

    Args:
        namespace: the namespace.
        place: the view's name in the report.
        stores: where failures are recorded.
    """

    def __init__(self, namespace: str, place: str, stores: Stores) -> None:
        self._namespace, self._place, self._sources = namespace, place, stores.degraded_sources
        self._logged_why, self._may_be_recorded, self._grace = "", True, FailureGrace()
        self._kind: object = None
        self._why = ""

    def log(self, what: str, why: str) -> None:
        """Logs a failure, unless it is the same as before."""
        if self._logged_why != why:
            log.warning(what, namespace=self._namespace, why=why)
        self._logged_why = why

    async def record(self, error: ClusterError) -> None:
        """Logs a failure of the cluster, and records it for the report: a refusal at once, an outage if it lasts.

        The text of the record stays while the kind of failure does.

        Raises:
            StoreUnavailableError: the failure is only logged.
        """
        self.log("watch failed", str(error))
        if self._grace.lasts(self._place, error):
            kind = (type(error), error.verb) if isinstance(error, ClusterForbiddenError) else type(error)
            if kind != self._kind:
                self._kind, self._why = kind, redact(str(error))
            self._may_be_recorded = True
            await self._sources.record(self._place, self._why)

    async def over(self) -> None:
        """Records that there is no failure any more.

        Raises:
            StoreUnavailableError: the report still shows the failure.
        """
        self._logged_why, self._kind = "", None
        self._grace.over(self._place)
        if self._may_be_recorded:  # by the process that led before, or by this one
            await self._sources.over(self._place)
            self._may_be_recorded = False


PAUSE_SECONDS = 0.5
WAIT_SECONDS = 1.0
"""While Redis is unavailable."""

Clock = Callable[[], float]

T = TypeVar("T")


class ClusterClock:
    """The cluster's clock, as last reported.

    A watch reports the time only when it begins, so the time is counted on from there by a clock that does not jump.
    """

    def __init__(self, clock: Clock = time.time, monotonic: Clock = time.monotonic) -> None:
        """`clock` gives epoch seconds."""
        self._clock, self._monotonic = clock, monotonic
        self._reported: tuple[float, float] | None = None

    def update(self, reported_at: float | None) -> None:
        """Records the cluster's time at this moment (epoch seconds); None if it reports none."""
        self._reported = None if reported_at is None else (reported_at, self._monotonic())

    def ahead(self) -> float:
        """Returns by how many seconds it is ahead of our clock now; 0 if it reports no time."""
        if self._reported is None:
            return 0.0
        reported_at, received_at = self._reported
        return reported_at + (self._monotonic() - received_at) - self._clock()


class NamespaceCache(ABC, Generic[T]):
    """The objects of one kind. While they cannot be read, the recorded ones age until they no longer count.

    Args:
        namespace: the namespace.
        source: the name of these objects in the report.
        between_lists: the name of what only a watch of them shows.
        stores: where they are recorded.
        leads: True while this process holds the lease.
        clock: epoch seconds.
    """

    def __init__(
        self,
        namespace: str,
        source: str,
        between_lists: str,
        stores: Stores,
        leads: Callable[[], bool],
        clock: Clock,
    ) -> None:
        self._namespace, self._pods, self._leads, self._clock = namespace, stores.pods, leads, clock
        self._cluster_clock = ClusterClock(clock)
        self._failures = DegradedView(namespace, source, stores)
        self._watch_failures = DegradedView(namespace, between_lists, stores)

    async def keep(self) -> None:
        """Follows the objects while this process leads; never ends."""
        while True:
            pause = PAUSE_SECONDS
            if self._leads():
                try:
                    await self.run()
                except (StoreUnavailableError, OSError) as error:
                    self._failures.log("Redis unavailable, retrying", str(error))
                    pause = WAIT_SECONDS
            await asyncio.sleep(pause)

    async def run(self) -> None:
        """Records what the watch shows until this process no longer leads.

        Raises:
            StoreUnavailableError: start again from the last record.
        """
        await self._begin()
        async with aclosing(self._follow()) as events:
            async for event in events:
                if not self._leads():
                    return
                await self._enqueue(event)

    async def _begin(self) -> None:
        """Reads the last record, for kinds that need it."""

    @abstractmethod
    def _follow(self) -> AsyncGenerator[WatchEvent[T], None]:
        """Yields the events of the watch."""

    async def _enqueue(self, event: WatchEvent[T]) -> None:
        """Records one event, or begins to."""
        await self.record(event)

    async def _record_failure(self, failure: WatchFailure) -> None:
        """Records that the objects cannot be read, or only what happens to them between two lists."""
        await (self._watch_failures if failure.is_listed else self._failures).record(failure.error)

    async def _record_watched(self) -> None:
        """Records that the watch has shown something after its list.

        A list alone proves nothing of the watch: without the right to watch, each list is followed by another refusal.
        """
        await self._failures.over()
        await self._watch_failures.over()

    @abstractmethod
    async def record(self, event: WatchEvent[T]) -> None:
        """Records one event of the watch."""
