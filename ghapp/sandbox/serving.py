"""An application as a running server: on its own port, in its own thread, inside a `with` block.

Below HTTP, a request can break its own connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from types import TracebackType
from typing import Any, Self

import uvicorn
from starlette.applications import Starlette
from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_BREAK_KEY = "sandbox.break_connection"
#: SO_LINGER on, for zero seconds: the peer sees a reset and no orderly end.
_NO_LINGER = struct.pack("ii", 1, 0)

BACKLOG = 2048
START_SECONDS = 10
STOP_SECONDS = 5
GOODBYE_SECONDS = 0.01
"""Time for connections to send that they are closed."""

KEEP_ALIVE_SECONDS = 90
"""Longer than any client keeps an idle connection: one that the server closes as it is used again fails a request."""


class BreakableProtocol(HttpToolsProtocol):
    """HTTP whose requests can break their own connection."""

    def on_headers_complete(self) -> None:
        """Gives the request a function that breaks its connection."""
        self.scope.setdefault("extensions", {})[_BREAK_KEY] = {"act": self._break}
        super().on_headers_complete()

    def _break(self) -> None:
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.transport.abort()


def break_connection(scope: Scope) -> None:
    """Resets the connection of a request."""
    act: Callable[[], None] = scope["extensions"][_BREAK_KEY]["act"]
    act()


Lifespan = Callable[[Starlette], contextlib.AbstractAsyncContextManager[None]]
BackgroundTasks = Callable[[], list[Coroutine[Any, Any, None]]]


class Serving:
    """One server, for subclasses. A context for sync and async code.

    Attributes:
        url: its root.
    """

    def __init__(self, name: str, host: str = "127.0.0.1", port: int = 0) -> None:
        """Takes the port at once: from here on connections wait for the server instead of being refused."""
        self._name = name
        self._socket = socket.socket(proto=socket.IPPROTO_TCP)  # else asyncio leaves Nagle's delay of 40 ms on
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((host, port))
        self._socket.listen(BACKLOG)
        self.url = f"http://{host}:{self._socket.getsockname()[1]}"
        self._ready = threading.Event()
        self._failures: list[Exception] = []
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    def serve(self, build: Callable[[Lifespan], Starlette], background_tasks: BackgroundTasks) -> None:
        """Sets the application, and coroutines that run beside it and never end."""

        @contextlib.asynccontextmanager
        async def living(app: Starlette) -> AsyncIterator[None]:
            del app
            tasks = [asyncio.create_task(each) for each in background_tasks()]
            self._ready.set()
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                outcomes = await asyncio.gather(*tasks, return_exceptions=True)
                self._failures = [outcome for outcome in outcomes if isinstance(outcome, Exception)]

        self._server = _Server(
            uvicorn.Config(
                build(living),
                http=BreakableProtocol,
                date_header=False,
                server_header=False,
                access_log=False,
                log_level="critical",
                lifespan="on",
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
            )
        )
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name=self._name, daemon=True)

    def start(self) -> None:
        """Starts to serve; `with` calls it."""
        assert self._thread is not None  # noqa: S101 - `serve` is called by every subclass
        self._thread.start()
        if not self._ready.wait(START_SECONDS):
            raise RuntimeError(f"{self._name} did not start within {START_SECONDS} s")

    def stop(self) -> None:
        """Stops at once; pending answers are aborted. Raises the error of a background task, if any."""
        if self._server is not None:
            self._server.end()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join(STOP_SECONDS)
        self._socket.close()
        failures, self._failures = self._failures, []
        if failures:
            raise ExceptionGroup(f"{self._name} broke while it ran", failures)

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


class _Server(uvicorn.Server):
    """A uvicorn server that stops immediately. Uvicorn polls for that, and tests start a server a thousand times."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._stop: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def end(self) -> None:
        """Stops it; from any thread, and at any time."""
        self.should_exit = self.force_exit = True
        if self._stop is not None:
            loop, stopped = self._stop
            with contextlib.suppress(RuntimeError):  # the loop is closed: the server has stopped
                loop.call_soon_threadsafe(stopped.set)

    async def main_loop(self) -> None:
        """Serves until it is stopped; without a `Date` header there is nothing else to do."""
        stopped = asyncio.Event()
        self._stop = asyncio.get_running_loop(), stopped
        if not await self.on_tick(0):  # a stop before this point was not noticed
            await stopped.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Closes all connections at once; ends the background tasks in order, and not while they open a connection."""
        for server in self.servers:
            server.close()
        for each in sockets or []:
            each.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        await asyncio.sleep(GOODBYE_SECONDS)
        await self.lifespan.shutdown()
