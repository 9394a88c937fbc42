"""What all controls share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ghapp.sandbox.cluster.cluster import SimulatedCluster


class ClusterControls:
    """Controls of a cluster, callable from any thread. Their changes take effect at once."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    @contextmanager
    def _at(self) -> Iterator[float]:
        """Yields the time (epoch seconds) under the lock; applies the effects at the end."""
        with self._cluster.lock:
            try:
                yield self._cluster.clock()
            finally:
                self._cluster.settle()
