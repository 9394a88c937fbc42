"""Bounds the bytes of all request bodies that are in memory at a time: a plain ASGI middleware.

Anyone may send half of a large body and wait. So where there is no room for another one, those that have not arrived
after two seconds are cut off: GitHub's deliveries take less.
"""

from __future__ import annotations

from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ghapp.web.bounded_connection import CONNECTION, BoundedConnection
from ghapp.web.problems import problem

MOST_HELD_BYTES = 32 * 1024 * 1024
"""One delivery of the largest size, and many of the usual ones, which have some ten kilobytes."""

RETRY_AFTER_SECONDS = "10"

SLOW_SECONDS = 2.0
"""A body that has not arrived after this time gives way to others."""


class _TooManyError(Exception):
    """There is no room for a body."""


@dataclass(eq=False, slots=True)
class _HeldBody:
    """The bytes of a body; `connection` is None where the server is another one."""

    connection: BoundedConnection | None
    size: int = 0


class HeldBodies:
    """Answers 503 to a request whose body would exceed the bound. A body counts until its request is answered."""

    def __init__(self, application: ASGIApp, most: int = MOST_HELD_BYTES) -> None:
        self._application, self._most, self._held = application, most, 0
        self._bodies: dict[_HeldBody, None] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on."""
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self._application(scope, receive, send)
            return
        body = _HeldBody(scope.get("state", {}).get(CONNECTION))
        self._bodies[body] = None

        async def bounded() -> Message:
            message = await receive()
            size = len(message.get("body", b""))
            if self._held + size > self._most:
                self._cut_off_slow_ones()
            if self._held + size > self._most:
                raise _TooManyError
            self._hold(body, size)
            return message

        try:
            await self._application(scope, bounded, send)
        except _TooManyError:
            detail = "too many requests at once; send it again"
            await problem(503, detail, {"Retry-After": RETRY_AFTER_SECONDS})(scope, receive, send)
        finally:
            self._hold(body, -body.size)
            del self._bodies[body]

    def _cut_off_slow_ones(self) -> None:
        for body in self._bodies:
            if body.connection is not None and body.size and body.connection.has_waited(SLOW_SECONDS):
                body.connection.cut_off()
                self._hold(body, -body.size)

    def _hold(self, body: _HeldBody, size: int) -> None:
        body.size += size
        self._held += size
