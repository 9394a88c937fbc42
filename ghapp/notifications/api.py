"""An org's events as server-sent events: each is a CloudEvent, and `Last-Event-ID` resumes after its id.

A listener that resumes reads events of days ago, and controllers act by name. So a replacement request is checked when
it is read: one that was withdrawn, or done, is left out.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from ghapp.errors import StoreUnavailableError
from ghapp.installations.pool_matching import rule_named, runner_pool
from ghapp.remediation.steps import REPLACE, may_hand_out, replacement_path
from ghapp.settings import Settings
from ghapp.store.stores import Stores
from ghapp.web.authentication import Authenticator
from ghapp.web.cache import Cache
from ghapp.web.fleet_view import MOST_ORGS, FleetReader
from ghapp.web.operation import Answer, Clock, Handler, Operation, Parameter, problems
from ghapp.web.problems import problem

POLL_SECONDS = 0.5
KEEP_ALIVE_SECONDS = 15.0
"""Proxies close a connection that is silent for about half a minute."""

MOST_PER_READ = 100
MOST_STREAMS, MOST_OF_TOKEN = 256, 32
"""At a time, in this process; each holds a connection, and reads Redis as long as it lasts."""

STREAM_ID = re.compile(r"0|[0-9]{1,19}-[0-9]{1,19}")
MEDIA_TYPE = "text/event-stream"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
RETRY_MILLISECONDS = 2000
RETRY = {"Retry-After": "30"}
KEEP_ALIVE = b": still here\n\n"


class _CountedStream(StreamingResponse):
    """A stream that counts among the open ones while it lasts, however it ends."""

    def __init__(self, streams: Counter[str], token_id: str, content: AsyncIterator[bytes], **options: Any) -> None:
        super().__init__(content, **options)
        self._streams, self._token_id = streams, token_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends it."""
        self._streams[self._token_id] += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._streams[self._token_id] -= 1
            if not self._streams[self._token_id]:
                del self._streams[self._token_id]


class _RequestData(msgspec.Struct):
    runner_id: int = 0


class _Request(msgspec.Struct):
    """What identifies a replacement request."""

    id: str
    type: str
    data: _RequestData


STREAM_EVENTS = Operation(
    "GET",
    "/v1/orgs/{org}/events",
    "Events as server-sent CloudEvents.",
    {200: Answer("CloudEvents.", media_types=[MEDIA_TYPE]), **problems(404, 429)},
    "read",
    parameters=[Parameter("Last-Event-ID", place="header")],
)
OPERATIONS = (STREAM_EVENTS,)


class EventStream:
    """The endpoint. Streams end when `stopping` is set, and when their token expires or is revoked."""

    def __init__(
        self,
        settings: Settings,
        stores: Stores,
        reader: FleetReader,
        authenticator: Authenticator,
        clock: Clock,
        stopping: asyncio.Event,
    ) -> None:
        self._settings, self._runners = settings, stores.runners
        self._stream, self._reader, self._authenticator, self._clock = stores.events, reader, authenticator, clock
        self._stopping = stopping
        self._ends: Cache[int, str] = Cache(MOST_ORGS, MOST_ORGS)
        """The last id of each org's stream, read once a second for all listeners."""
        self._open: Counter[str] = Counter()
        """The number of streams by the token's id."""

    def handlers(self) -> Mapping[Operation, Handler]:
        """Returns the handler."""
        return {STREAM_EVENTS: self._events}

    async def _events(self, request: Request) -> Response:
        org = request.path_params["org"]
        token = await self._authenticator.token(request, self._clock())
        last_id = request.headers.get("last-event-id")
        if last_id is not None and not STREAM_ID.fullmatch(last_id):
            return problem(400, "Last-Event-ID takes the id of an event of this stream, or 0 for all stored events")
        org_state = await self._reader.installed(org)
        installation = org_state.installation.id
        if last_id is None:
            last_id = await self._stream.last_id(installation)
        elif await self._stream.since(installation, last_id, 1) is None:
            return problem(410, f"{last_id} is no longer stored; read the fleet, then listen without Last-Event-ID")
        if request.method == "HEAD":
            return Response(headers=HEADERS, media_type=MEDIA_TYPE)
        if self._open[token.id] >= MOST_OF_TOKEN:
            return problem(429, f"this token has {MOST_OF_TOKEN} streams here already", RETRY)
        if self._open.total() >= MOST_STREAMS:
            return problem(503, f"there are {MOST_STREAMS} streams here already; try again", RETRY)
        messages = self._messages(request, org, installation, last_id)
        return _CountedStream(self._open, token.id, messages, headers=HEADERS, media_type=MEDIA_TYPE)

    async def _messages(self, request: Request, org: str, installation: int, last_id: str) -> AsyncIterator[bytes]:
        yield first_message(last_id)
        loop = asyncio.get_running_loop()
        silent_since = loop.time()
        while not self._stopping.is_set():
            try:
                await self._authenticator.require(request, "read", org, self._clock())
                end = await self._ends.read(installation, lambda: self._stream.last_id(installation))
                is_behind = end is not None and position(end) > position(last_id)
                new = await self._stream.since(installation, last_id, MOST_PER_READ) if is_behind else []
                current = await self._without_past_requests(org, installation, new or [])
            except HTTPException:  # the token expired, or was revoked
                return
            except StoreUnavailableError:  # the stream continues when Redis is back
                new, current = [], []
            if new is None:  # the listener was too slow: its position expired, and reconnecting returns 410
                return
            if new:
                last_id = new[-1][0]
            if current:
                yield b"".join(as_message(entry_id, event) for entry_id, event in current)
            elif new:
                continue
            elif loop.time() - silent_since >= KEEP_ALIVE_SECONDS:
                yield KEEP_ALIVE
            else:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), POLL_SECONDS)
                continue
            silent_since = loop.time()

    async def _without_past_requests(
        self, org: str, installation: int, events: Sequence[tuple[str, bytes]]
    ) -> list[tuple[str, bytes]]:
        """Returns the events without replacement requests that are not open any more."""
        asked = {entry_id: found for entry_id, event in events if (found := _request(event)) is not None}
        if not asked:
            return [*events]
        now, named = self._clock(), (await self._reader.installed(org)).installation.org
        records = await self._runners.some(installation, [runner_id for _, runner_id in asked.values()])
        rules, past = self._settings.pools_of(named), set[str]()
        for entry_id, (event_id, runner_id) in asked.items():
            evidence = records.get(runner_id)
            pool = None if evidence is None else runner_pool(evidence, rules)
            path = replacement_path(None if pool is None else rule_named(pool, rules))
            if not may_hand_out(evidence, path, event_id, now):
                past.add(entry_id)
        return [each for each in events if each[0] not in past]


def _request(event: bytes) -> tuple[str, int] | None:
    """Returns the id and the runner of a replacement request; None for an event of another type."""
    if REPLACE.encode() not in event:
        return None
    try:
        request = msgspec.json.decode(event, type=_Request)
    except msgspec.DecodeError:
        return None
    return (request.id, request.data.runner_id) if request.type == REPLACE else None


def position(stream_id: str) -> tuple[int, int]:
    """Returns the sort key of a stream id."""
    milliseconds, _, number = stream_id.partition("-")
    return int(milliseconds), int(number or 0)


def first_message(last_id: str) -> bytes:
    """Returns the first message, without data, so that a client cut off before any event can resume."""
    return b"retry: %d\nid: %s\n\n" % (RETRY_MILLISECONDS, last_id.encode())


def as_message(entry_id: str, event: bytes) -> bytes:
    """Returns a CloudEvent (JSON, one line) as a message without a type, so that `EventSource.onmessage` gets it."""
    return b"id: %s\ndata: %s\n\n" % (entry_id.encode(), event)
