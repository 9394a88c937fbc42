"""What all levers share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ghapp.sandbox.cluster.cluster import SimulatedCluster


class ClusterControls:
    """Levers on a cluster, callable from any thread. What they change follows its course at once."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    @contextmanager
    def _at(self) -> Iterator[float]:
        """The lock, and the time (epoch seconds); at the end everything settles."""
        with self._cluster.lock:
            try:
                yield self._cluster.clock()
            finally:
                self._cluster.settle()
