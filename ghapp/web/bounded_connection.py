"""Bounds what a client can take of the server before it has shown anything: heads, bodies, time, connections, answers.

uvicorn reads heads of any length, waits for them and for bodies without end, and accepts each connection. Here each of
its protocols stands behind one that watches the same bytes. Both parse them by the same parser, with the same settings
and in the same pieces, so that both always agree on where a head ends. From the application this one learns which
requests were answered (`BoundedRequests`).

Whatever is full, connections on which the server waits for the client give way: for the rest of a request, for an
answer to be read, or for another request; the longest wait first.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import httptools
import uvicorn
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from ghapp.web.problems import problem

LARGEST_HEAD_BYTES = 64 * 1024
SLICE_BYTES = 4 * 1024
"""An incomplete head is looked at after so many bytes: one may be refused that is shorter by this."""

BODY_SLICE_BYTES = 4 * SLICE_BYTES
"""So many bytes, at the end of which another head may have begun, are not counted."""

MOST_FIELDS = 500
"""Of the heads that wait for an answer, and of their trailers."""

FIELD_BYTES, REQUEST_BYTES = 128, 4 * 1024
"""What a field and a request take in memory beside their own bytes."""

MOST_HELD_OF_CONNECTION = LARGEST_HEAD_BYTES + MOST_FIELDS * FIELD_BYTES
"""Of the heads of one connection that wait for an answer: one head, or some 25 short ones that were sent at once."""

MOST_HELD_BYTES = 32 * 1024 * 1024
"""Of all heads together, and of all answers that are not read."""

MOST_BODY_BYTES = 32 * 1024 * 1024
"""Of all bodies together: one delivery of the largest size, and many of the usual ones of some ten kilobytes."""

MOST_CONNECTIONS = 1_000

HEAD_SECONDS, REQUEST_SECONDS, STALLED_SECONDS = 10.0, 30.0, 30.0
"""Time for a head, for a request with its body, and for a client that does not read its answer to go on reading. GitHub
itself gives up a delivery after ten seconds."""

KEEP_ALIVE_SECONDS = 620
"""How long a connection is kept between two requests. Proxies and load balancers keep theirs for 60 s (nginx, AWS), 90
s (Go) or 600 s (Google) and send the next request on them. If the server closes first, as uvicorn does after 5 s, a
delivery that is sent at that moment has no answer but the proxy's 502."""

KEEP_ALIVE_LATE_SECONDS = 2.0
"""After which a connection is closed that uvicorn did not close, because line breaks came in between."""

SLOW_SECONDS = 2.0
"""A body that has not arrived after this time gives way to others."""

LINGER_SECONDS = 2.0
"""After a refusal the rest of what the client sends is read and dropped: else the operating system drops our answer."""

CHECK_SECONDS = 1.0

CLOSE = {"Connection": "close"}
TOO_LATE = problem(408, "the request did not arrive in time", CLOSE)
TOO_LARGE = problem(
    431, f"the head of a request has at most {LARGEST_HEAD_BYTES} bytes, and {MOST_FIELDS} fields", CLOSE
)
NO_ROOM_HEADERS = {"Retry-After": "10"}
TOO_MANY = problem(503, "there are too many connections; try again", {**CLOSE, "Retry-After": "5"})

PROTOCOL_MODULES = ("httptools_impl", "h11_impl")
"""Of uvicorn."""

CONNECTION = "ghapp.connection"
"""Key of a request's connection in the state of its scope."""


class Connections:
    """All connections of the server. When there are too many, the one that has let us wait the longest is closed."""

    def __init__(self, most: int = MOST_CONNECTIONS, most_bytes: int = MOST_HELD_BYTES) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._all: dict[BoundedConnection, None] = {}
        self._held_bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, connection: BoundedConnection) -> None:
        """Records a connection."""
        self._all[connection] = None
        if len(self._all) > self._most:
            _slowest([*self._all]).refuse(TOO_MANY)
        if self._timer is None:
            self._check()

    def discard(self, connection: BoundedConnection) -> None:
        """Forgets a connection that was closed."""
        self._all.pop(connection, None)

    def hold(self, size: int) -> None:
        """Adds to the bytes of heads and of unread answers; a negative number gives bytes back."""
        self._held_bytes += size
        if size > 0 and self._held_bytes > self._most_bytes:
            holding = [each for each in self._all if each.held_bytes]
            if holding:
                _slowest(holding).cut_off()

    def _check(self) -> None:
        """Closes connections whose time is over; again each second while there are connections."""
        loop = asyncio.get_running_loop()
        for connection in [each for each in self._all if each.is_late(loop.time())]:
            connection.refuse(TOO_LATE)
        self._timer = loop.call_later(CHECK_SECONDS, self._check) if self._all else None


def _slowest(connections: Sequence[BoundedConnection]) -> BoundedConnection:
    """Returns one that was refused before, else that whose client we wait for the longest, else the newest."""
    waiting = [each for each in connections if each.idle_since is not None]
    return min(waiting, key=lambda each: (not each.is_refused, each.idle_since), default=connections[-1])


class BoundedConnection(asyncio.Protocol):
    """One connection, in front of uvicorn's protocol.

    Attributes:
        waiting_since: since when the next request is not complete, in the loop's time; None while it is our turn.
        held_bytes: of heads that wait for an answer, and of answers that the client does not read.
        is_refused: True once the connection is being closed.
    """

    def __init__(self, connections: Connections, **options: Any) -> None:
        """`options` are uvicorn's."""
        options["app_state"] = {**options["app_state"], CONNECTION: self}
        self._connections, self._inner = connections, AutoHTTPProtocol(**options)
        self._parser = httptools.HttpRequestParser(self)
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's
        self._time = asyncio.get_running_loop().time
        self._transport: asyncio.Transport | None = None
        self._is_in_head, self._idle_bytes = True, 0
        self._is_kept_alive = False
        self._unanswered = 0
        self._stalled_since: float | None = None
        self._stalled_bytes = 0
        self.is_refused = False
        self.waiting_since: float | None = None
        self.held_bytes = 0

    # Of asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins to wait for a head."""
        self._transport, self.waiting_since = cast(asyncio.Transport, transport), self._time()
        self._inner.connection_made(transport)
        self._connections.add(self)

    def data_received(self, data: bytes) -> None:
        """Passes on what is in the bounds, in pieces, so that nothing is parsed beyond the one that exceeds them."""
        begin, transport = 0, cast(asyncio.Transport, self._transport)
        while begin < len(data) and not self.is_refused and not transport.is_closing():
            size = SLICE_BYTES if self._is_in_head else BODY_SLICE_BYTES
            piece = data[begin : begin + size]
            self._look_at(piece)
            if not self.is_refused:
                self._inner.data_received(piece)
            begin += size

    def _look_at(self, data: bytes) -> None:
        self._idle_bytes += len(data)
        held_before = self.held_bytes
        with suppress(httptools.HttpParserError, httptools.HttpParserUpgrade):  # uvicorn answers it
            self._parser.feed_data(data)
        # Once for all fields: a call for each of them takes 2 µs of the 58 of a delivery.
        self._connections.hold(self.held_bytes - held_before)
        held = self.held_bytes - self._stalled_bytes
        if self._idle_bytes >= LARGEST_HEAD_BYTES or held > MOST_HELD_OF_CONNECTION:
            self.refuse(TOO_LARGE)

    def eof_received(self) -> bool | None:
        """Passes it on; None closes the connection."""
        return None if self.is_refused else self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends all."""
        self._hold(-self.held_bytes)
        self._connections.discard(self)
        self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        """The client does not read."""
        self._stalled_since = self._time()
        self._inner.pause_writing()
        if self._transport is not None:
            self._stalled_bytes = self._transport.get_write_buffer_size()
            self._hold(self._stalled_bytes)

    def resume_writing(self) -> None:
        """The client reads again."""
        self._stalled_since = None
        self._hold(-self._stalled_bytes)
        self._stalled_bytes = 0
        self._inner.resume_writing()

    # Of httptools.

    def on_message_begin(self) -> None:
        """The first byte of a head."""
        self._is_kept_alive, self.waiting_since = False, self._time()
        if not self._unanswered:  # uvicorn keeps the latest head until the next one
            self.held_bytes = self._stalled_bytes
        self.held_bytes += REQUEST_BYTES

    def on_url(self, url: bytes) -> None:
        """Some of an address."""
        self.held_bytes += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field of a head, or of a trailer."""
        self.held_bytes += len(name) + len(value) + FIELD_BYTES

    def on_headers_complete(self) -> None:
        """The head is complete."""
        self._is_in_head, self._idle_bytes = False, 0
        self._unanswered += 1

    def on_body(self, _: bytes) -> None:
        """Some of a body. What follows a body without being one is a trailer, and counts as a head does."""
        self._idle_bytes = 0

    def on_message_complete(self) -> None:
        """The body is complete, too: it is our turn, and what follows is another head."""
        self._is_in_head, self._idle_bytes = True, 0
        self.waiting_since = None if self._unanswered else self._time()

    # Of `BoundedRequests`.

    def answered(self) -> None:
        """A request was answered."""
        self._unanswered -= 1
        if not self._unanswered and self.waiting_since is None:
            self._is_kept_alive, self.waiting_since = True, self._time()

    # Of `Connections`.

    @property
    def idle_since(self) -> float | None:
        """Since when we wait for the client, to send or to read; None while it waits for us."""
        return self._stalled_since if self._stalled_since is not None else self.waiting_since

    def has_waited(self, seconds: float) -> bool:
        """True if a request has not arrived after this time."""
        return self.waiting_since is not None and self._time() - self.waiting_since > seconds

    def is_late(self, now: float) -> bool:
        """True if a head, a body or the reading of an answer takes too long, or no other request comes."""
        lasts = HEAD_SECONDS if self._is_in_head else REQUEST_SECONDS
        lasts = KEEP_ALIVE_SECONDS + KEEP_ALIVE_LATE_SECONDS if self._is_kept_alive else lasts
        lasts = LINGER_SECONDS if self.is_refused else lasts
        waits = self.waiting_since is not None and now - self.waiting_since > lasts
        return waits or (self._stalled_since is not None and now - self._stalled_since > STALLED_SECONDS)

    def refuse(self, answer: Response) -> None:
        """Answers, and ends the connection; when it was refused before or its client does not read, it is cut off."""
        transport = self._transport
        is_amid_answer = self._unanswered > (0 if self._is_in_head else 1)
        if transport is None or self.is_refused or self._stalled_since is not None or is_amid_answer:
            self.cut_off()
            return
        self.is_refused, self.waiting_since = True, self._time()
        fields = b"".join(b"%b: %b\r\n" % field for field in answer.raw_headers)
        transport.write(b"HTTP/1.1 %d \r\n%b\r\n%b" % (answer.status_code, fields, bytes(answer.body)))
        transport.write_eof()

    def cut_off(self) -> None:
        """Ends the connection without an answer."""
        self.is_refused, self._stalled_bytes = True, 0
        self._hold(-self.held_bytes)
        if self._transport is not None:
            self._transport.abort()

    def _hold(self, size: int) -> None:
        self.held_bytes += size
        self._connections.hold(size)


class _NoRoomError(HTTPException):
    """There is no room for a body. It is an HTTPException so that Starlette, too, answers it as what it is."""

    def __init__(self) -> None:
        super().__init__(503, "too many requests at once; send it again", NO_ROOM_HEADERS)


@dataclass(eq=False, slots=True)
class _HeldBody:
    """The bytes of a body; `connection` is None where the server is another one."""

    connection: BoundedConnection | None
    size: int = 0


class BoundedRequests:
    """Bounds the bytes of all bodies that are in memory, and reports to each connection that a request was answered.

    A body counts until its request is answered; a request whose body would exceed the bound is answered 503. Anyone may
    send half of a large body and wait. So where there is no room for another one, those that have not arrived after two
    seconds are cut off: GitHub's deliveries take less.
    """

    def __init__(self, application: ASGIApp, most: int = MOST_BODY_BYTES) -> None:
        self._application, self._most, self._held = application, most, 0
        self._bodies: dict[_HeldBody, None] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        connection: BoundedConnection | None = scope.get("state", {}).get(CONNECTION)
        body = _HeldBody(connection)
        self._bodies[body] = None

        async def bounded() -> Message:
            message = await receive()
            size = len(message.get("body", b""))
            if self._held + size > self._most:
                self._cut_off_slow_ones()
            if self._held + size > self._most:
                raise _NoRoomError
            self._hold(body, size)
            return message

        try:
            await self._application(scope, bounded, send)
        except _NoRoomError as error:
            await problem(error.status_code, error.detail, NO_ROOM_HEADERS)(scope, receive, send)
        finally:
            self._hold(body, -body.size)
            del self._bodies[body]
            if connection is not None:
                connection.answered()

    def _cut_off_slow_ones(self) -> None:
        for body in self._bodies:
            if body.connection is not None and body.size and body.connection.has_waited(SLOW_SECONDS):
                body.connection.cut_off()
                self._hold(body, -body.size)

    def _hold(self, body: _HeldBody, size: int) -> None:
        body.size += size
        self._held += size


def bounded_config(application: ASGIApp, connections: Connections, **options: Any) -> uvicorn.Config:
    """Returns the configuration of a server whose connections are bounded; without WebSockets, which would not be."""
    logging.getLogger("uvicorn.error").addFilter(_is_of_the_server)
    protocol: Any = partial(BoundedConnection, connections)
    application = BoundedRequests(application)
    options |= {"access_log": False, "log_config": None, "timeout_keep_alive": KEEP_ALIVE_SECONDS}
    return uvicorn.Config(application, http=protocol, ws="none", **options)


def _is_of_the_server(record: logging.LogRecord) -> bool:
    """False for a warning of uvicorn's protocols: they warn of what clients send, and strangers could fill the log.

    Such are requests for another protocol, which are answered as any other, and those that are no HTTP.
    """
    return record.levelno != logging.WARNING or record.module not in PROTOCOL_MODULES


def allow_connections(most: int = MOST_CONNECTIONS) -> None:
    """Raises this process' limit of open files, where it may, so that there can be as many connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 3 * most  # refused ones linger, and Redis has some
    if soft != resource.RLIM_INFINITY and soft < wanted:
        wanted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
