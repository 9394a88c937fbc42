"""The API server as a running server: on a loopback port, in a thread of its own.

```python
with ClusterServer() as cluster:
    cluster.control.pod("runners", "linux-x7k2p")
    config = KubeConfig.from_file(cluster.kubeconfig(tmp_path / "kubeconfig"))
```
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import uvicorn
import yaml
from starlette.applications import Starlette

from ghapp.sandbox.cluster.application import application
from ghapp.sandbox.cluster.cluster import ADMIN, Cluster
from ghapp.sandbox.cluster.control import ClusterControl
from ghapp.sandbox.wire import BreakableProtocol

TICK_SECONDS = 0.02
BACKLOG = 2048
START_SECONDS = 10
STOP_SECONDS = 5
KEEP_ALIVE_SECONDS = 90


class ClusterServer:
    """A simulated API server that is served while the context lasts; sync and async code may use it alike.

    Attributes:
        url: its root.
        cluster: what it holds; to be read by tests under its lock, and changed through `control`.
        control: its levers, callable from any thread.
    """

    def __init__(self, *, clock: Callable[[], float] = time.time, port: int = 0) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", port))
        # From here on connections wait for the server instead of being refused by it.
        self._socket.listen(BACKLOG)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.cluster = Cluster(clock)
        self.control = ClusterControl(self.cluster)
        self._ready = threading.Event()
        self._failures: list[Exception] = []
        self._server = uvicorn.Server(
            uvicorn.Config(
                application(self.cluster, self._living),
                http=BreakableProtocol,
                date_header=False,
                server_header=False,
                access_log=False,
                log_level="critical",
                lifespan="on",
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
            )
        )
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name="cluster", daemon=True)

    def token(self, user: str = ADMIN) -> str:
        """The bearer token of a user; LookupError when there is none, or it has none."""
        known = self.cluster.users.get(user)
        if known is None or known.token is None:
            raise LookupError(f"no user {user!r} with a token; control.user({user!r}, rules) makes one")
        return known.token

    def kubeconfig(self, path: Path, user: str = ADMIN, namespace: str = "default") -> Path:
        """Writes a kubeconfig for a user, and gives its path back."""
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "sandbox", "cluster": {"server": self.url}}],
            "users": [{"name": user, "user": {"token": self.token(user)}}],
            "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": user, "namespace": namespace}}],
            "current-context": "sandbox",
        }
        path.write_text(yaml.safe_dump(document, sort_keys=False))
        return path

    def start(self) -> None:
        """Serves from now on; `with` calls it."""
        self._thread.start()
        if not self._ready.wait(START_SECONDS):
            raise RuntimeError(f"the cluster did not start within {START_SECONDS} s")

    def stop(self) -> None:
        """Ends at once; what is being answered is broken off. Raises what broke in the background meanwhile."""
        self._server.should_exit = self._server.force_exit = True
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)
        self._socket.close()
        failures, self._failures = self._failures, []
        if failures:
            raise ExceptionGroup("the cluster broke while it ran", failures)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)

    @contextlib.asynccontextmanager
    async def _living(self, app: Starlette) -> AsyncIterator[None]:
        """What falls due happens while the server runs."""
        del app
        ticking = asyncio.create_task(self._tick())
        self._ready.set()
        try:
            yield
        finally:
            ticking.cancel()
            outcomes = await asyncio.gather(ticking, return_exceptions=True)
            self._failures = [outcome for outcome in outcomes if isinstance(outcome, Exception)]

    async def _tick(self) -> None:
        while True:
            self.cluster.settle_due()
            await asyncio.sleep(TICK_SECONDS)
