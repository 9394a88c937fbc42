"""Faults of the sandbox' API server: requests that fail, watches that are cut, versions that are dropped."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from types import TracebackType
from typing import NamedTuple, Protocol, Self, TypedDict, Unpack

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ghapp.sandbox.cluster.cluster import SimulatedCluster
from ghapp.sandbox.cluster.control import ClusterControl
from ghapp.sandbox.cluster.deletion import collect
from ghapp.sandbox.cluster.requests import ParsedRequest
from ghapp.sandbox.cluster.status import StatusError, unauthorized
from ghapp.sandbox.cluster.watch import Ending
from ghapp.sandbox.faults import AnswerInstead, CutShort, Hang, Reset
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

NO_ANSWER = 0


class ClusterCall(NamedTuple):
    """One request for a resource.

    Attributes:
        verb: in the words of rules: get, list, watch, create, update, patch, delete, deletecollection.
        group: empty for the core.
        namespace: empty for all, and at the cluster scope.
        code: of the answer; 0 without one.
    """

    user: str
    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int


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
        self._faults: list[ClusterFault] = []

    def begin(self, fault: ClusterFault) -> ClusterFault:
        """Starts a fault, from any thread."""
        self._faults.append(fault)
        return fault

    def end_all(self) -> None:
        """Ends all faults."""
        for fault in self._faults:
            fault.end()
        self._faults = []
        self.delay_seconds = 0.0

    def effect_on(self, user: str, asked: ParsedRequest | None) -> ClusterFaultEffect | None:
        """Returns the effect on this request; the oldest fault is first."""
        now = self._clock()
        return next((fault.effect for fault in self._faults if fault.affects(user, asked, now)), None)


def _status(code: int, *, retry_after: int = 1) -> AnswerInstead:
    """Returns an answer of this code, in the form of the real server."""
    if code == 429:  # flow control answers in plain text
        return AnswerInstead(code, TOO_MANY, {"retry-after": str(retry_after)}, TEXT)
    if code == 401:
        return AnswerInstead(code, msgspec.json.encode(unauthorized().document()), {}, JSON)
    reason, message = _ERRORS.get(code, ("", "injected fault"))
    details = {"retryAfterSeconds": retry_after} if code in (503, 504) else {}
    document = StatusError(code, reason, message, details).document()
    return AnswerInstead(code, msgspec.json.encode(document), {}, JSON)


def _page(code: int) -> AnswerInstead:
    """Returns HTML, as from a proxy before the server."""
    return AnswerInstead(code, b"<html><body>upstream unavailable</body></html>\n", {}, "text/html")


class Cuts:
    """Counts the events of all watches together, and decides when one is cut."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._every = 0
        self._count = 0
        self._times: int | None = 0
        self._how = Ending.BROKEN

    def arm(self, events: int, how: Ending, times: int | None) -> None:
        """Cuts the watch that sends the event with this number from now on; so many times, None: no limit."""
        if events < 1:
            raise ValueError(f"a watch can be cut after 1 event or more, not after {events}")
        with self._lock:
            self._every, self._count, self._times, self._how = events, 0, times, how

    def disarm(self) -> None:
        """Stops cutting."""
        with self._lock:
            self._every = 0

    def after_event(self) -> Ending | None:
        """Counts one sent event; returns how its watch ends, None when it continues."""
        with self._lock:
            if not self._every or self._times == 0:
                return None
            self._count += 1
            if self._count < self._every:
                return None
            self._count = 0
            self._times = None if self._times is None else self._times - 1
            return self._how


class RequestMatch(TypedDict, total=False):
    """Which requests a fault affects; a condition that is left out matches any.

    `verbs`, `resources` (`pods`, `pods/log`), `users` and `names` are collections; `seconds` on the cluster's clock
    and `times` limit how long it lasts and how many requests it affects.
    """

    verbs: Collection[str]
    resources: Collection[str]
    users: Collection[str]
    names: Collection[str]
    seconds: float
    times: int


class ClusterFaultControl(ClusterControl):
    """Controls of faults. A returned fault is over at its `end()`, or at the end of its `with`."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        super().__init__(cluster)
        self._faults, self._cuts = ClusterFaults(cluster.clock), Cuts()
        self._calls: list[ClusterCall] = []
        cluster.around, cluster.cut = self._around, self._cuts.after_event

    def calls(self, user: str = "") -> list[ClusterCall]:
        """Returns the requests, in the order of the answers; by one user if given."""
        return [call for call in self._calls if user in ("", call.user)]

    def forget_calls(self) -> None:
        """Deletes the record of requests."""
        self._calls.clear()

    def fails(self, code: int = 500, *, retry_after: int = 1, **match: Unpack[RequestMatch]) -> ClusterFault:
        """Requests are answered with this code, and have no effect."""
        return self._begin(_status(code, retry_after=retry_after), match)

    def answers_html(self, code: int = 502, **match: Unpack[RequestMatch]) -> ClusterFault:
        """Requests are answered with a page of HTML, as by a proxy before the API server."""
        return self._begin(_page(code), match)

    def hangs(self, hang_seconds: float = 3600, **match: Unpack[RequestMatch]) -> ClusterFault:
        """Requests are answered after so many seconds of the wall clock."""
        return self._begin(Hang(hang_seconds), match)

    def resets(self, **match: Unpack[RequestMatch]) -> ClusterFault:
        """Connections are reset before there is an answer; requests have no effect."""
        return self._begin(Reset(), match)

    def loses_answers(self, **match: Unpack[RequestMatch]) -> ClusterFault:
        """Requests take effect, and connections are reset before the answer."""
        return self._begin(AnswerLost(), match)

    def cuts_short(self, **match: Unpack[RequestMatch]) -> ClusterFault:
        """Answers stop half-way, after their effect. Not for watches, which have `cut_watches`."""
        return self._begin(CutShort(), match)

    def delay(self, seconds: float) -> None:
        """Delays each request by this much of the wall clock."""
        self._faults.delay_seconds = seconds

    def all_is_well(self) -> None:
        """Ends all faults, delays and cuts to come."""
        self._faults.end_all()
        self._cuts.disarm()
        self._cluster.expires_by_http = False

    def watches(self) -> int:
        """Returns how many watches are open."""
        with self._cluster.lock:
            return len(self._cluster.watches)

    def cut_watches(self, how: str = "broken") -> int:
        """Ends all open watches, at once: orderly, broken, reset, half or expired (see `Ending`); returns how many."""
        with self._cluster.lock:
            for watch in self._cluster.watches:
                watch.end(Ending(how))
            return len(self._cluster.watches)

    def cut_watches_after(self, events: int, how: str = "broken", *, times: int | None = 1) -> None:
        """Ends the watch that sends the event with this number, counted over all watches, without bookmarks.

        After that it counts again, until it has cut so many `times`; None: no limit.
        """
        self._cuts.arm(events, Ending(how), times)

    def bookmark(self) -> int:
        """Sends a bookmark on all watches that asked for some, after all events so far; returns how many are open."""
        with self._cluster.lock:
            for watch in self._cluster.watches:
                watch.bookmark(self._cluster.store.version)
            return len(self._cluster.watches)

    def forget_versions(self, *, by_http: bool = False) -> int:
        """Drops versions before now: watches and pages from them get 410; returns the current version.

        `by_http`: watches are answered 410, and not 200 with an ERROR event.
        """
        with self._cluster.lock:
            self._cluster.expires_by_http = by_http
            # Another object is written meanwhile, as in a real cluster, so that the last list is too old as well.
            self._cluster.store.version += 1
            self._cluster.store.forget()
            return self._cluster.store.version

    def version(self) -> int:
        """Returns the last resourceVersion."""
        with self._cluster.lock:
            return self._cluster.store.version

    def answers_plain_not_found(self, *, plain: bool = True) -> None:
        """An unknown path, as of a CRD that is not installed, is answered 404 in plain text, as by older servers."""
        self._cluster.plain_not_found = plain

    def collects_garbage(self, *, at_once: bool = True) -> None:
        """Sets whether dependents are deleted with their owners, or only by `collect_garbage`."""
        with self._at():
            self._cluster.collects_garbage = at_once

    def collect_garbage(self) -> None:
        """Deletes dependents now."""
        with self._cluster.lock:
            collect(self._cluster.store, self._cluster.clock())

    def settle(self) -> None:
        """Applies what is due by the cluster's clock; requests and controls do so by themselves."""
        self._cluster.settle()

    def _begin(self, effect: ClusterFaultEffect, match: RequestMatch) -> ClusterFault:
        until = self._cluster.clock() + match["seconds"] if "seconds" in match else None
        return self._faults.begin(
            ClusterFault(
                effect,
                match.get("verbs", ()),
                match.get("resources", ()),
                match.get("users", ()),
                match.get("names", ()),
                until,
                match.get("times"),
            )
        )

    def _around(self, user: str, asked: ParsedRequest | None, answer: ASGIApp) -> ASGIApp:
        """Records a request, and applies the faults that affect it."""

        async def act(scope: Scope, receive: Receive, send: Send) -> None:
            is_noted = False

            async def send_noted(message: Message) -> None:
                nonlocal is_noted
                # Recorded before the answer is sent, so that a client with an answer finds its call among the records.
                if message["type"] == "http.response.start":
                    self._note(user, asked, message["status"])
                    is_noted = True
                await send(message)

            try:
                if self._faults.delay_seconds:
                    await asyncio.sleep(self._faults.delay_seconds)
                effect = self._faults.effect_on(user, asked)
                await (effect(answer, scope, receive, send_noted) if effect else answer(scope, receive, send_noted))
            finally:
                if not is_noted:
                    self._note(user, asked, NO_ANSWER)

        return act

    def _note(self, user: str, asked: ParsedRequest | None, code: int) -> None:
        if asked is not None:
            place = asked.group, asked.resource, asked.subresource, asked.namespace, asked.name
            self._calls.append(ClusterCall(user, asked.verb, *place, code))
