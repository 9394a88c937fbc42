"""Bounds the bytes of all request bodies that are in memory at a time: a plain ASGI middleware."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ghapp.web.problems import problem

MOST_HELD_BYTES = 32 * 1024 * 1024
"""One delivery of the largest size, and many of the usual ones, which have some ten kilobytes."""

RETRY_AFTER_SECONDS = "10"


class _TooManyError(Exception):
    """There is no room for a body."""


class HeldBodies:
    """Answers 503 to a request whose body would exceed the bound. A body counts until its request is answered."""

    def __init__(self, application: ASGIApp, most: int = MOST_HELD_BYTES) -> None:
        self._application, self._most, self._held = application, most, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on."""
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self._application(scope, receive, send)
            return
        held = 0

        async def bounded() -> Message:
            nonlocal held
            message = await receive()
            size = len(message.get("body", b""))
            if self._held + size > self._most:
                raise _TooManyError
            held += size
            self._held += size
            return message

        try:
            await self._application(scope, bounded, send)
        except _TooManyError:
            detail = "too many requests at once; send it again"
            await problem(503, detail, {"Retry-After": RETRY_AFTER_SECONDS})(scope, receive, send)
        finally:
            self._held -= held
