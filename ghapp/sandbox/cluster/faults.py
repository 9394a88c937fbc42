"""Temporary faults of the API server: each affects the requests that it matches."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ghapp.sandbox.cluster.requests import ParsedRequest
from ghapp.sandbox.cluster.status import StatusError, unauthorized
from ghapp.sandbox.faults import AnswerInstead
from ghapp.sandbox.serving import break_connection

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
TOO_MANY = b"Too many requests, please try again later.\n"
_ERRORS = {
    403: ("Forbidden", "forbidden: injected fault"),
    404: ("NotFound", "the server could not find the requested resource"),
    409: ("Conflict", "injected fault"),
    500: ("InternalError", "Internal error occurred: etcdserver: leader changed"),
    502: ("", "bad gateway"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
    504: ("Timeout", "Timeout: request did not complete within the allotted timeout"),
}


class ClusterFaultEffect(Protocol):
    """An effect on a request; `onward` gives the true answer."""

    async def __call__(self, onward: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Applies the effect to one request."""


@dataclass(frozen=True, slots=True)
class AnswerLost:
    """The request takes effect, and the connection is reset before the answer is sent."""

    async def __call__(self, onward: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Runs the request, and discards its answer."""
        del send

        async def keep(message: Message) -> None:
            del message

        await onward(scope, receive, keep)
        break_connection(scope)


@dataclass(slots=True)
class ClusterFault:
    """An effect on requests; empty conditions match any. As a context manager it is over at the end.

    Attributes:
        until: epoch second of the cluster's clock; None: no limit.
        times: how many requests it affects; None: no limit.
        affected: how many it has affected.
    """

    effect: ClusterFaultEffect
    verbs: Collection[str] = ()
    resources: Collection[str] = ()
    users: Collection[str] = ()
    names: Collection[str] = ()
    until: float | None = None
    times: int | None = None
    affected: int = 0
    _over: threading.Event = field(default_factory=threading.Event)

    def end(self) -> None:
        """Ends it, from any thread."""
        self._over.set()

    def affects(self, user: str, asked: ParsedRequest | None, now: float) -> bool:
        """True if it affects this request, which is then counted."""
        match = (
            not self._over.is_set()
            and (self.until is None or now < self.until)
            and (self.times is None or self.affected < self.times)
            and (not self.users or user in self.users)
            and self._means(asked)
        )
        self.affected += match
        return match

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def _means(self, asked: ParsedRequest | None) -> bool:
        if asked is None:
            return not (self.verbs or self.resources or self.names)
        return (
            (not self.verbs or asked.verb in self.verbs)
            and (not self.resources or asked.full_resource in self.resources)
            and (not self.names or asked.name in self.names)
        )


class ClusterFaults:
    """All active faults.

    Attributes:
        delay_seconds: added to each request.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.delay_seconds = 0.0
        self._clock = clock
        self._troubles: list[ClusterFault] = []

    def begin(self, fault: ClusterFault) -> ClusterFault:
        """Starts a fault, from any thread."""
        self._troubles.append(fault)
        return fault

    def end_all(self) -> None:
        """Ends all faults."""
        for fault in self._troubles:
            fault.end()
        self._troubles = []
        self.delay_seconds = 0.0

    def effect_on(self, user: str, asked: ParsedRequest | None) -> ClusterFaultEffect | None:
        """Returns the effect on this request; the oldest fault is first."""
        now = self._clock()
        return next((fault.effect for fault in self._troubles if fault.affects(user, asked, now)), None)


def status(code: int, *, retry_after: int = 1) -> AnswerInstead:
    """Returns an answer of this code, in the form of the real server."""
    if code == 429:  # noqa: PLR2004 - flow control answers in plain text
        return AnswerInstead(code, TOO_MANY, {"retry-after": str(retry_after)}, TEXT)
    if code == 401:  # noqa: PLR2004
        return AnswerInstead(code, msgspec.json.encode(unauthorized().document()), {}, JSON)
    reason, message = _ERRORS.get(code, ("", "injected fault"))
    details = {"retryAfterSeconds": retry_after} if code in (503, 504) else {}
    document = StatusError(code, reason, message, details).document()
    return AnswerInstead(code, msgspec.json.encode(document), {}, JSON)


def page(code: int) -> AnswerInstead:
    """Returns HTML, as from a proxy before the server."""
    return AnswerInstead(code, b"<html><body>upstream unavailable</body></html>\n", {}, "text/html")
