"""An application as a running server: on a port of its own, in a thread of its own, while a context lasts."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from types import TracebackType
from typing import Any, Self

import uvicorn
from starlette.applications import Starlette

from ghapp.sandbox.wire import BreakableProtocol

BACKLOG = 2048
START_SECONDS = 10
STOP_SECONDS = 5
GOODBYE_SECONDS = 0.01
"""What connections have to say that they are closed."""

Lifespan = Callable[[Starlette], contextlib.AbstractAsyncContextManager[None]]
Chores = Callable[[], list[Coroutine[Any, Any, None]]]


class Serving:
    """One server, to be made more of. Sync and async code may use it alike, as a context.

    Attributes:
        url: its root.
    """

    def __init__(self, name: str, host: str = "127.0.0.1", port: int = 0) -> None:
        """Take the port at once: from here on connections wait for the server instead of being refused by it."""
        self._name = name
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((host, port))
        self._socket.listen(BACKLOG)
        self.url = f"http://{host}:{self._socket.getsockname()[1]}"
        self._ready = threading.Event()
        self._failures: list[Exception] = []
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    def serve(self, build: Callable[[Lifespan], Starlette], chores: Chores, *, keep_alive_seconds: int = 5) -> None:
        """Say what is served, and what runs beside it: `chores` gives coroutines that never end."""

        @contextlib.asynccontextmanager
        async def living(app: Starlette) -> AsyncIterator[None]:
            del app
            tasks = [asyncio.create_task(each) for each in chores()]
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
                timeout_keep_alive=keep_alive_seconds,
            )
        )
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name=self._name, daemon=True)

    def start(self) -> None:
        """Serves from now on; `with` calls it."""
        assert self._thread is not None  # noqa: S101 - `serve` is called by every subclass
        self._thread.start()
        if not self._ready.wait(START_SECONDS):
            raise RuntimeError(f"{self._name} did not start within {START_SECONDS} s")

    def stop(self) -> None:
        """Ends at once; what is being answered is broken off. Raises what broke in the background meanwhile."""
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
    """Uvicorn's, but it ends when it is told to. Theirs looks now and then, and tests start it a thousand times."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._told: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def end(self) -> None:
        """Have it end; from any thread, and at any time."""
        self.should_exit = self.force_exit = True
        if self._told is not None:
            loop, told = self._told
            with contextlib.suppress(RuntimeError):  # the loop is closed: it has ended
                loop.call_soon_threadsafe(told.set)

    async def main_loop(self) -> None:
        """Serve until told to end; without a `Date` there is nothing to do meanwhile."""
        told = asyncio.Event()
        self._told = asyncio.get_running_loop(), told
        if not await self.on_tick(0):  # after that: who told us before, could not be heard
            await told.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let go of everyone at once; and end the chores in order, not in the midst of a connection that they make."""
        for server in self.servers:
            server.close()
        for each in sockets or []:
            each.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        await asyncio.sleep(GOODBYE_SECONDS)
        await self.lifespan.shutdown()
