"""Ways in which this GitHub can be told to fail.

A fault names the requests that it befalls and what becomes of them: an `Effect`. Another way to fail is another effect
and a line in `effect_of`.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Protocol

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send


class Effect(Protocol):
    """What becomes of a request; True when it was answered, or never will be."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> bool:
        """Does it to one request."""


@dataclass(frozen=True, slots=True)
class AnswerInstead:
    """Another answer than the true one; `body` is text as it is, anything else as JSON."""

    status: int
    body: bytes
    headers: dict[str, str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> bool:
        """Sends it."""
        response = Response(self.body, self.status, self.headers, "application/json; charset=utf-8")
        await response(scope, receive, send)
        return True


@dataclass(frozen=True, slots=True)
class Hang:
    """Silence for so many seconds, and then the true answer."""

    seconds: float

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> bool:
        """Waits."""
        del scope, receive, send
        await asyncio.sleep(self.seconds)
        return False


@dataclass(frozen=True, slots=True)
class Reset:
    """An answer whose connection breaks in the midst of it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> bool:
        """Promises more than it sends; the server then has to drop the connection."""
        del scope, receive
        headers = [(b"content-type", b"application/json"), (b"content-length", b"4096")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b'{"', "more_body": True})
        return True


@dataclass(slots=True)
class Fault:
    """An effect on all requests that match.

    Attributes:
        match: searched in the path, which has no `/api/v3` in front.
        org: only requests to this organization.
        method: only this one.
        until: epoch seconds at which it is over.
        times: how many requests are left for it; None is no end.
    """

    effect: Effect
    match: re.Pattern[str]
    until: float
    org: str | None = None
    method: str | None = None
    times: int | None = None
    struck: int = field(default=0, init=False)

    def befalls(self, method: str, path: str, org: str | None, now: float) -> bool:
        """Whether this request is meant."""
        return (
            now < self.until
            and (self.times is None or self.struck < self.times)
            and self.org in (None, org)
            and self.method in (None, method)
            and self.match.search(path) is not None
        )


class Faults:
    """The faults at work, and the latency of everything."""

    def __init__(self, latency_seconds: float) -> None:
        self.latency_seconds = latency_seconds
        self.active: list[Fault] = []

    def pick(self, method: str, path: str, org: str | None, now: float) -> Effect | None:
        """What befalls this request: the first fault that matches, and counts it."""
        for fault in self.active:
            if fault.befalls(method, path, org, now):
                fault.struck += 1
                return fault.effect
        return None


def effect_of(
    *, status: int | None, hang: float | None, reset: bool, body: Any, headers: dict[str, str] | None
) -> Effect:
    """The effect that these words of the control API mean.

    Raises:
        ValueError: none or several of status, hang and reset were given.
    """
    if [status is not None, hang is not None, reset].count(True) != 1:
        raise ValueError("a fault needs exactly one of status, hang (seconds) and reset (true)")
    if hang is not None:
        return Hang(hang)
    if status is None:
        return Reset()
    if body is None:
        body = {"message": HTTPStatus(status).phrase, "documentation_url": "https://docs.github.com/rest"}
    content = body.encode() if isinstance(body, str) else msgspec.json.encode(body)
    return AnswerInstead(status, content, headers or {})
