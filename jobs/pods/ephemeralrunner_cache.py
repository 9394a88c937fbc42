"""One namespace's objects of ARC's, kept in view.

They are watched, as pods are. Of 5,000 small ones in the stand-in a list takes 160 ms of our CPU and holds up Redis for
80 ms, and an event takes 0.14 ms; real ones hold their pod's whole template, too. A Role that lets us list them, and
not watch them, has them listed at each attempt, two to four times a minute.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable

from ghapp.cluster.api import Cluster
from ghapp.cluster.watch import follow_objects
from ghapp.cluster.watch_events import Listed, Sight, WatchChange
from ghapp.cluster.watch_events import WatchFailure as Unseen
from ghapp.errors import ClusterError, ClusterForbiddenError, ResourceMissingError
from ghapp.health.pods.degraded_sources import objects_source
from ghapp.health.pods.pod import EphemeralRunner
from ghapp.settings import Settings
from ghapp.store.stores import Stores
from jobs.pods.namespace_cache import Clock, NamespaceCache


class EphemeralRunnerCache(NamespaceCache[EphemeralRunner]):
    """One namespace's objects of ARC."""

    def __init__(
        self,
        namespace: str,
        settings: Settings,
        cluster: Cluster,
        stores: Stores,
        leads: Callable[[], bool],
        clock: Clock = time.time,
    ) -> None:
        super().__init__(namespace, objects_source(namespace), stores, leads, clock)
        self._cluster = cluster
        self._replacers = {pool.replacer for pool in settings.pools if pool.namespace == namespace}

    def _follow(self) -> AsyncGenerator[Sight[EphemeralRunner], None]:
        return follow_objects(self._cluster, self._namespace)

    async def see(self, sight: Sight[EphemeralRunner]) -> None:
        """Record what one sight shows."""
        match sight:
            case Listed():
                self._cluster_clock.hear(sight.told_at)
                await self._see_all(sight.items)
                return  # whoever may not watch them sees one list after the other, and says so once
            case WatchChange(found=None):
                await self._pods.touch_objects(self._namespace, self._clock(), self._cluster_clock.ahead())
            case WatchChange(kind="deleted", found=EphemeralRunner() as gone):
                await self._pods.drop(self._namespace, gone.name, gone.uid)
            case WatchChange(found=EphemeralRunner() as found):
                await self._pods.put(self._namespace, found)
            case Unseen(error):
                if self._has_none(error):
                    await self._see_all([], served=False)
                if self._is_missed(error):
                    await self._trouble.tell(error)
                    return
        await self._trouble.over()

    async def _see_all(self, objects: list[EphemeralRunner], *, served: bool = True) -> None:
        ahead = self._cluster_clock.ahead()
        await self._pods.replace_objects(self._namespace, objects, self._clock(), ahead, served=served)

    def _has_none(self, error: ClusterError) -> bool:
        """Whether that means that there are none: no ARC, no objects; nor may they be listed where nobody asks."""
        if isinstance(error, ClusterForbiddenError):
            return error.verb == "list" and "arc" not in self._replacers
        return isinstance(error, ResourceMissingError)

    def _is_missed(self, error: ClusterError) -> bool:
        """Whether a person should know: a pool that has them replaced needs the CRD, too."""
        return "arc" in self._replacers or not self._has_none(error)
