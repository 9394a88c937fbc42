"""Ways in which the simulated GitHub fails for a while, for one organization or for all; any number act together.

Here: all active faults; faults of requests, each of which replaces the true answer or damages it on its way out; and
permissions that tokens lack although they should have them. `runner_list` has false answers about runners, `deliveries`
the faults of deliveries.

Effects on requests wrap each other like ASGI middleware, the oldest one outermost. Another way to fail is another
effect.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from random import Random
from typing import Any, Protocol, TypeVar

import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ghapp.sandbox.apps import SandboxToken
from ghapp.sandbox.serving import break_connection

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


class Fault:
    """A temporary fault."""

    def note(self, now: float) -> None:
        """Called when time has passed and things may have changed."""

    def end(self, at: float) -> None:
        """Called when the fault is over."""


@dataclass(frozen=True, slots=True)
class Temporary(Fault):
    """A change that is undone when its time is over; `undo` gets the epoch second."""

    undo: Callable[[float], object]

    def end(self, at: float) -> None:
        """Undoes it."""
        self.undo(at)


@dataclass(frozen=True, slots=True)
class _Window:
    fault: Fault
    until: float
    org_id: int | None


Kind = TypeVar("Kind", bound=Fault)


class Faults:
    """All active faults, in the order in which they began.

    Attributes:
        latency_seconds: added to each REST call.
    """

    def __init__(self, latency_seconds: float) -> None:
        self.latency_seconds = latency_seconds
        self._windows: list[_Window] = []

    def __len__(self) -> int:
        return len(self._windows)

    def begin(self, fault: Fault, *, until: float, org_id: int | None = None) -> None:
        """Starts a fault until then (epoch seconds), for one organization or for all."""
        self._windows.append(_Window(fault, until, org_id))

    def active(self, kind: type[Kind], org_id: int | None, now: float) -> list[Kind]:
        """Returns the active faults of a kind for an organization; None is a request without an organization."""
        return [
            window.fault
            for window in self._windows
            if isinstance(window.fault, kind) and now < window.until and window.org_id in (None, org_id)
        ]

    def all_of(self, kind: type[Kind]) -> list[Kind]:
        """Returns the faults of a kind for all organizations, including those that are over and not ended yet."""
        return [window.fault for window in self._windows if isinstance(window.fault, kind)]

    def pass_time(self, now: float) -> None:
        """Ends faults that are over, each at its own time, and notifies the others."""
        over = sorted((window for window in self._windows if window.until <= now), key=lambda window: window.until)
        self._windows = [window for window in self._windows if window.until > now]
        for window in over:
            window.fault.end(window.until)
        for window in self._windows:
            window.fault.note(now)

    def end_kind(self, kind: type[Fault], org_id: int | None, now: float) -> None:
        """Ends the faults of a kind for an organization, those for all organizations included."""
        over = [each for each in self._windows if isinstance(each.fault, kind) and each.org_id in (None, org_id)]
        self._windows = [each for each in self._windows if each not in over]
        for window in over:
            window.fault.end(now)

    def end_all(self, now: float) -> None:
        """Ends all temporary faults."""
        over, self._windows = self._windows, []
        for window in over:
            window.fault.end(now)


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
        body = error_document(status, HTTPStatus(status).phrase)
    content = body.encode() if isinstance(body, str) else msgspec.json.encode(body)
    return AnswerInstead(status, content, headers or {})


def error_document(status: int, message: str) -> dict[str, str]:
    """Returns an error in GitHub's shape."""
    return {"message": message, "documentation_url": DOCUMENTATION_URL, "status": str(int(status))}


def over_secondary_limit(status: int, retry_after: str) -> AnswerInstead:
    """Returns 403 or 429 with this `retry-after`, as a proxy may have rewritten it."""
    return error(status, error_document(status, SECONDARY_LIMIT), {"retry-after": retry_after})


def page(status: int) -> AnswerInstead:
    """Returns HTML where JSON is expected, as a proxy before the API would."""
    return AnswerInstead(status, UNICORN.encode(), {}, HTML)


@dataclass(frozen=True, slots=True)
class Withheld(Fault):
    """A permission that an installation does not have.

    Attributes:
        status: 403, or 404, in whose guise GitHub may answer.
        admitted: the installation and its tokens are shown without it; else they claim to hold it.
    """

    permission: str
    status: int
    admitted: bool


@dataclass(frozen=True, slots=True)
class TokensNotYetKnown(Fault):
    """Tokens that are refused with 401 at first, and then answered 404, before all of GitHub knows them.

    Attributes:
        refused_seconds: from the token's creation.
        hidden_seconds: after that.
    """

    refused_seconds: float
    hidden_seconds: float

    def status_for(self, token: SandboxToken, now: float) -> int | None:
        """Returns the status for this token; None when it is accepted."""
        age = now - token.minted_at
        if age < self.refused_seconds:
            return HTTPStatus.UNAUTHORIZED
        return HTTPStatus.NOT_FOUND if age < self.refused_seconds + self.hidden_seconds else None
