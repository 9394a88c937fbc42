"""Bounds what a client can take of the server before it has shown anything: heads, time, connections.

uvicorn reads heads of any length, waits for them and for bodies without end, and accepts each connection. Here each of
its protocols stands behind one that watches the same bytes, and that knows nothing of uvicorn but that.
"""

from __future__ import annotations

import asyncio
import resource
from contextlib import suppress
from typing import Any, cast

import httptools
from starlette.responses import Response
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from ghapp.web.problems import problem

LARGEST_HEAD_BYTES = 64 * 1024
SLICE_BYTES = 4 * 1024
"""An incomplete head is looked at after so many bytes: one may be refused that is shorter by this."""

BODY_SLICE_BYTES = 4 * SLICE_BYTES
"""So many bytes, at the end of which another head may have begun, are not counted."""

MOST_HELD_BYTES = 16 * 1024 * 1024
"""Of all heads together that are incomplete."""

MOST_CONNECTIONS = 1_000

HEAD_SECONDS, REQUEST_SECONDS, STALLED_SECONDS = 10.0, 30.0, 30.0
"""Time for a head, for a request with its body, and for a client that does not read its answer to go on reading. GitHub
itself gives up a delivery after ten seconds."""

LINGER_SECONDS = 2.0
"""After a refusal the rest of what the client sends is read and dropped: else the operating system drops our answer."""

CHECK_SECONDS = 1.0

CLOSE = {"Connection": "close"}
TOO_LATE = problem(408, "the request did not arrive in time", CLOSE)
TOO_LARGE = problem(431, f"the head of a request has at most {LARGEST_HEAD_BYTES} bytes", CLOSE)
TOO_MANY = problem(503, "there are too many connections; try again", {**CLOSE, "Retry-After": "5"})


class Connections:
    """All connections of the server. When there are too many, the one that has let us wait the longest is closed."""

    def __init__(self, most: int = MOST_CONNECTIONS) -> None:
        self._most = most
        self._all: dict[BoundedConnection, None] = {}
        self._held_bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, connection: BoundedConnection) -> None:
        """Records a connection."""
        self._all[connection] = None
        if len(self._all) > self._most:
            self._close_slowest()
        if self._timer is None:
            self._check()

    def discard(self, connection: BoundedConnection) -> None:
        """Forgets a connection that was closed."""
        self._all.pop(connection, None)

    def hold(self, size: int) -> None:
        """Adds to the bytes of incomplete heads; a negative number gives bytes back."""
        self._held_bytes += size
        if self._held_bytes > MOST_HELD_BYTES:
            self._close_slowest()

    def _close_slowest(self) -> None:
        waiting = [each for each in self._all if each.waiting_since is not None]
        slowest = min(waiting, key=lambda each: each.waiting_since or 0.0, default=next(reversed(self._all)))
        slowest.refuse(TOO_MANY)

    def _check(self) -> None:
        """Closes connections whose time is over; again each second while there are connections."""
        loop = asyncio.get_running_loop()
        for connection in [each for each in self._all if each.is_late(loop.time())]:
            connection.refuse(TOO_LATE)
        self._timer = loop.call_later(CHECK_SECONDS, self._check) if self._all else None


class BoundedConnection(asyncio.Protocol):
    """One connection, in front of uvicorn's protocol.

    Attributes:
        waiting_since: since when a request is incomplete, in the loop's time; None while it is our turn.
    """

    def __init__(self, connections: Connections, **options: Any) -> None:
        """`options` are uvicorn's."""
        self._connections, self._inner = connections, AutoHTTPProtocol(**options)
        self._parser = httptools.HttpRequestParser(self)
        self._time = asyncio.get_running_loop().time
        self._transport: asyncio.Transport | None = None
        self._is_in_head, self._held_bytes = True, 0
        self._stalled_since: float | None = None
        self._is_refused = False
        self.waiting_since: float | None = None

    # Of asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins to wait for a head."""
        self._transport, self.waiting_since = cast(asyncio.Transport, transport), self._time()
        self._inner.connection_made(transport)
        self._connections.add(self)

    def data_received(self, data: bytes) -> None:
        """Passes on what is in the bounds."""
        try:
            if len(data) <= SLICE_BYTES:
                self._look_at(data)
            else:
                self._look_at_slices(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            pass  # uvicorn answers it
        if not self._is_refused:
            self._inner.data_received(data)

    def _look_at_slices(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest and not self._is_refused:
            size = SLICE_BYTES if self._is_in_head else BODY_SLICE_BYTES
            self._look_at(rest[:size])
            rest = rest[size:]

    def _look_at(self, data: bytes | memoryview) -> None:
        if self._is_refused:
            return
        was_in_head = self._is_in_head
        self._parser.feed_data(data)
        if was_in_head and self._is_in_head and self.waiting_since is not None:
            self._held_bytes += len(data)
            self._connections.hold(len(data))
            if self._held_bytes >= LARGEST_HEAD_BYTES:
                self.refuse(TOO_LARGE)

    def eof_received(self) -> bool | None:
        """Passes it on; None closes the connection."""
        return None if self._is_refused else self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends all."""
        self._release()
        self._connections.discard(self)
        self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        """The client does not read."""
        self._stalled_since = self._time()
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._stalled_since = None
        self._inner.resume_writing()

    # Of httptools.

    def on_message_begin(self) -> None:
        """The first byte of a head."""
        self.waiting_since = self._time()

    def on_headers_complete(self) -> None:
        """The head is complete."""
        self._is_in_head = False
        if self._held_bytes:
            self._release()

    def on_message_complete(self) -> None:
        """The body is complete, too: it is our turn, and what follows is another head."""
        self._is_in_head, self.waiting_since = True, None

    # Of `Connections`.

    def is_late(self, now: float) -> bool:
        """True if a head, a body or the reading of an answer takes too long."""
        lasts = HEAD_SECONDS if self._is_in_head else REQUEST_SECONDS
        lasts = LINGER_SECONDS if self._is_refused else lasts
        waits = self.waiting_since is not None and now - self.waiting_since > lasts
        return waits or (self._stalled_since is not None and now - self._stalled_since > STALLED_SECONDS)

    def refuse(self, answer: Response) -> None:
        """Answers, and ends the connection; when it was refused before or its client does not read, it is cut off."""
        transport = self._transport
        if transport is None or self._is_refused or self._stalled_since is not None:
            if transport is not None:
                transport.abort()
            return
        self._is_refused, self.waiting_since = True, self._time()
        fields = b"".join(b"%b: %b\r\n" % field for field in answer.raw_headers)
        transport.write(b"HTTP/1.1 %d \r\n%b\r\n%b" % (answer.status_code, fields, bytes(answer.body)))
        transport.write_eof()

    def _release(self) -> None:
        self._connections.hold(-self._held_bytes)
        self._held_bytes = 0


def allow_connections(most: int = MOST_CONNECTIONS) -> None:
    """Raises this process' limit of open files, where it may, so that there can be as many connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 3 * most  # refused ones linger, and Redis has some
    if soft != resource.RLIM_INFINITY and soft < wanted:
        wanted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
