"""One namespace's objects of ARC's, kept in view.

They are watched, as pods are. Of 5,000 small ones in the stand-in a list takes 160 ms of our CPU and holds up Redis for
80 ms, and an event takes 0.14 ms; real ones hold their pod's whole template, too. A Role that lets us list them, and
not watch them, has them listed at each attempt, two to four times a minute.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing

from ghapp.cluster.api import Cluster
from ghapp.cluster.watch import follow_objects
from ghapp.cluster.watch_events import Listed, Sight, WatchChange
from ghapp.cluster.watch_events import WatchFailure as Unseen
from ghapp.errors import ClusterError, ClusterForbiddenError, ResourceMissingError, StoreUnavailableError
from ghapp.health.pods.degraded_sources import objects_source
from ghapp.health.pods.pod import EphemeralRunner
from ghapp.settings import Settings
from ghapp.store.stores import Stores
from jobs.pods.cluster_clock import Clock, ClusterClock
from jobs.pods.degraded import DegradedView

PAUSE_SECONDS = 0.5
WAIT_SECONDS = 1.0
"""For a Redis that is away."""


class EphemeralRunnerCache:
    """One namespace's objects, as they are seen by whoever leads.

    Where they cannot be seen, what is known of them ages, and answers nothing any more.
    """

    def __init__(
        self,
        namespace: str,
        settings: Settings,
        cluster: Cluster,
        stores: Stores,
        leads: Callable[[], bool],
        clock: Clock = time.time,
    ) -> None:
        self._namespace, self._cluster, self._leads, self._clock = namespace, cluster, leads, clock
        self._replacers = {pool.replacer for pool in settings.pools if pool.namespace == namespace}
        self._store = stores.pods
        self._cluster_clock, self._trouble = (
            ClusterClock(clock),
            DegradedView(namespace, objects_source(namespace), stores),
        )

    async def keep(self) -> None:
        """For ever: follow the objects while we lead."""
        while True:
            pause = PAUSE_SECONDS
            if self._leads():
                try:
                    await self.attend()
                except (StoreUnavailableError, OSError) as error:
                    self._trouble.log("watch waits for Redis", str(error))
                    pause = WAIT_SECONDS
            await asyncio.sleep(pause)

    async def attend(self) -> None:
        """See and record, until we lead no more. Raises: StoreUnavailableError: begin again with a list."""
        async with aclosing(follow_objects(self._cluster, self._namespace)) as sights:
            async for sight in sights:
                if not self._leads():
                    return
                await self.see(sight)

    async def see(self, sight: Sight[EphemeralRunner]) -> None:
        """Record what one sight shows."""
        match sight:
            case Listed():
                self._cluster_clock.hear(sight.told_at)
                await self._see_all(sight.items)
                return  # whoever may not watch them sees one list after the other, and says so once
            case WatchChange(found=None):
                await self._store.touch_objects(self._namespace, self._clock(), self._cluster_clock.ahead())
            case WatchChange(kind="deleted", found=EphemeralRunner() as gone):
                await self._store.drop(self._namespace, gone.name, gone.uid)
            case WatchChange(found=EphemeralRunner() as found):
                await self._store.put(self._namespace, found)
            case Unseen(error):
                if self._has_none(error):
                    await self._see_all([], served=False)
                if self._is_missed(error):
                    await self._trouble.tell(error)
                    return
        await self._trouble.over()

    async def _see_all(self, objects: list[EphemeralRunner], *, served: bool = True) -> None:
        ahead = self._cluster_clock.ahead()
        await self._store.replace_objects(self._namespace, objects, self._clock(), ahead, served=served)

    def _has_none(self, error: ClusterError) -> bool:
        """Whether that means that there are none: no ARC, no objects; nor may they be listed where nobody asks."""
        if isinstance(error, ClusterForbiddenError):
            return error.verb == "list" and "arc" not in self._replacers
        return isinstance(error, ResourceMissingError)

    def _is_missed(self, error: ClusterError) -> bool:
        """Whether a person should know: a pool that has them replaced needs the CRD, too."""
        return "arc" in self._replacers or not self._has_none(error)
