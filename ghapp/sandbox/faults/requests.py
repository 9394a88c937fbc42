"""The fate of a request: an effect replaces the true answer, or damages it on its way out.

Effects wrap each other like ASGI middleware, the oldest one outermost. Another way to fail is another effect.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from http import HTTPStatus
from random import Random
from typing import Any, Protocol

import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ghapp.sandbox.faults.faults import Fault
from ghapp.sandbox.wire import break_connection

JSON = "application/json; charset=utf-8"
HTML = "text/html; charset=utf-8"
DOCUMENTATION_URL = "https://docs.github.com/rest"
SECONDARY_LIMIT = (
    "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
    " If you reach out to GitHub Support for help, please include the request ID."
)
BLOCKED = (
    "Although you appear to have the correct authorization credentials, the organization has an IP allow list enabled,"
    " and your IP address is not permitted to access this resource."
)
UNICORN = "<!DOCTYPE html>\n<html><head><title>Unicorn!</title></head><body>This page is taking too long.</body></html>"


class RequestFaultEffect(Protocol):
    """An effect on a request; `onward` gives the true answer."""

    async def __call__(self, onward: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Applies the effect to one request."""


@dataclass(frozen=True, slots=True)
class AnswerInstead:
    """Another answer; the true one is never computed."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    media_type: str = JSON

    async def __call__(self, onward: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends it."""
        del onward
        await Response(self.body, self.status, self.headers, self.media_type)(scope, receive, send)


@dataclass(frozen=True, slots=True)
class Hang:
    """No answer for so many seconds, and then the true one."""

    seconds: float

    async def __call__(self, onward: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Waits."""
        await asyncio.sleep(self.seconds)
        await onward(scope, receive, send)


@dataclass(frozen=True, slots=True)
class Reset:
    """A connection that is reset before there is an answer."""

    async def __call__(self, onward: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Resets the connection."""
        del onward, receive, send
        break_connection(scope)


@dataclass(frozen=True, slots=True)
class CutShort:
    """The true answer with half of its body; its `Content-Length` still promises all of it."""

    async def __call__(self, onward: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Lets the request take effect, and sends half of the answer."""

        async def send_half(message: Message) -> None:
            body = message.get("body", b"")
            if body:
                message = {"type": "http.response.body", "body": body[: len(body) // 2], "more_body": True}
            await send(message)

        await onward(scope, receive, send_half)


@dataclass(slots=True)
class RequestFault(Fault):
    """An effect on all matching requests.

    Attributes:
        match: searched in the path, without `/api/v3`.
        method: only this one.
        times: how many requests it affects; None: no limit.
        share: the share of matching requests, from 0 to 1, chosen by `rng`.
    """

    effect: RequestFaultEffect
    match: re.Pattern[str]
    rng: Random
    method: str | None = None
    times: int | None = None
    share: float = 1.0
    affected: int = field(default=0, init=False)

    def affects(self, method: str, path: str) -> bool:
        """True if it affects this request, which is then counted."""
        meant = (
            (self.times is None or self.affected < self.times)
            and self.method in (None, method)
            and self.match.search(path) is not None
            and (self.share >= 1 or self.rng.random() < self.share)
        )
        self.affected += meant
        return meant


def error(status: int, body: Any = None, headers: dict[str, str] | None = None) -> AnswerInstead:
    """Returns an answer of this status; `body` is text, or anything else as JSON; without one GitHub's own shape."""
    if body is None:
        body = document(status, HTTPStatus(status).phrase)
    content = body.encode() if isinstance(body, str) else msgspec.json.encode(body)
    return AnswerInstead(status, content, headers or {})


def document(status: int, message: str) -> dict[str, str]:
    """Returns an error in GitHub's shape."""
    return {"message": message, "documentation_url": DOCUMENTATION_URL, "status": str(status)}


def over_secondary_limit(status: int, retry_after: str) -> AnswerInstead:
    """Returns 403 or 429 with this `retry-after`, as a proxy may have rewritten it."""
    return error(status, document(status, SECONDARY_LIMIT), {"retry-after": retry_after})


def page(status: int) -> AnswerInstead:
    """Returns HTML where JSON is expected, as a proxy before the API would."""
    return AnswerInstead(status, UNICORN.encode(), {}, HTML)
