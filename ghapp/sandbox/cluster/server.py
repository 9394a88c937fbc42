"""The API server as a running server: on a loopback port, in a thread of its own.

```python
with ClusterServer() as cluster:
    cluster.control.pod("runners", "linux-x7k2p")
    config = KubeConfig.from_file(cluster.kubeconfig(tmp_path / "kubeconfig"))
```
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import yaml

from ghapp.sandbox.cluster.application import AS_USER, application
from ghapp.sandbox.cluster.cluster import ADMIN, SimulatedCluster
from ghapp.sandbox.cluster.controls import ClusterControl
from ghapp.sandbox.serving import Serving

TICK_SECONDS = 0.02


class ClusterServer(Serving):
    """A simulated API server that is served inside a `with` block.

    Attributes:
        url: its root.
        cluster: its state; read by tests under its lock, and changed through `control`.
        control: its controls, callable from any thread.
    """

    def __init__(self, *, clock: Callable[[], float] = time.time, port: int = 0) -> None:
        super().__init__("the cluster", port=port)
        self.cluster = SimulatedCluster(clock)
        self.control = ClusterControl(self.cluster)
        self.serve(lambda living: application(self.cluster, living), lambda: [self._tick()])

    def token(self, user: str = ADMIN) -> str:
        """Returns the bearer token of a user; LookupError for an unknown user, or one without a token."""
        known = self.cluster.users.get(user)
        if known is None or known.token is None:
            raise LookupError(f"no user {user!r} with a token; control.user({user!r}, rules) makes one")
        return known.token

    def kubeconfig(self, path: Path, user: str = ADMIN, namespace: str = "default") -> Path:
        """Writes a kubeconfig for a user; returns its path. Over plain HTTP kubectl sends no header with a token."""
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "sandbox", "cluster": {"server": f"{self.url}{AS_USER}{self.token(user)}"}}],
            "users": [{"name": user, "user": {"token": self.token(user)}}],
            "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": user, "namespace": namespace}}],
            "current-context": "sandbox",
        }
        path.write_text(yaml.safe_dump(document, sort_keys=False))
        return path

    async def _tick(self) -> None:
        while True:
            self.cluster.settle_due()
            await asyncio.sleep(TICK_SECONDS)
