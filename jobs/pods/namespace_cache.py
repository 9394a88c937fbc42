"""One namespace's objects of one kind, recorded as the cluster's watch shows them, while this process leads."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Generic, TypeVar

from ghapp.cluster.watch_events import Sight
from ghapp.errors import StoreUnavailableError
from ghapp.store.stores import Stores
from jobs.pods.degraded import DegradedView

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

    def hear(self, reported_at: float | None) -> None:
        """Records the cluster's time at this moment (epoch seconds); None if it reports none."""
        self._reported = None if reported_at is None else (reported_at, self._monotonic())

    def ahead(self) -> float:
        """Returns by how many seconds it is ahead of our clock now; 0 if it reports no time."""
        if self._reported is None:
            return 0.0
        reported_at, heard_at = self._reported
        return reported_at + (self._monotonic() - heard_at) - self._clock()


class NamespaceCache(ABC, Generic[T]):
    """The objects of one kind. While they cannot be read, the recorded ones age until they no longer count.

    Args:
        namespace: the namespace.
        source: the name of these objects in the report.
        stores: where they are recorded.
        leads: True while this process holds the lease.
        clock: epoch seconds.
    """

    def __init__(self, namespace: str, source: str, stores: Stores, leads: Callable[[], bool], clock: Clock) -> None:
        self._namespace, self._pods, self._leads, self._clock = namespace, stores.pods, leads, clock
        self._cluster_clock, self._failures = ClusterClock(clock), DegradedView(namespace, source, stores)

    async def keep(self) -> None:
        """Follows the objects while this process leads; never ends."""
        while True:
            pause = PAUSE_SECONDS
            if self._leads():
                try:
                    await self.attend()
                except (StoreUnavailableError, OSError) as error:
                    self._failures.log("watch waits for Redis", str(error))
                    pause = WAIT_SECONDS
            await asyncio.sleep(pause)

    async def attend(self) -> None:
        """Records what the watch shows until this process no longer leads.

        Raises:
            StoreUnavailableError: start again from the last record.
        """
        await self._begin()
        async with aclosing(self._follow()) as sights:
            async for sight in sights:
                if not self._leads():
                    return
                await self.see(sight)

    async def _begin(self) -> None:
        """Reads the last record, for kinds that need it."""

    @abstractmethod
    def _follow(self) -> AsyncGenerator[Sight[T], None]:
        """Yields the events of the watch."""

    @abstractmethod
    async def see(self, sight: Sight[T]) -> None:
        """Records one event of the watch."""
