"""What happens in an org, as server-sent events: each one a CloudEvent, its id good for `Last-Event-ID`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import suppress

from redis.asyncio import Redis
from redis.exceptions import RedisError
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from ghapp.errors import StoreUnavailableError
from ghapp.store.connect import redis_errors
from ghapp.store.events import Events as Stream
from ghapp.web.api.health import Clock
from ghapp.web.authentication import Authenticator
from ghapp.web.cache import Cache
from ghapp.web.fleet_view import MOST_ORGS, FleetReader
from ghapp.web.problems import not_installed, problem

POLL_SECONDS = 0.5
KEEP_ALIVE_SECONDS = 15.0
"""Proxies cut a connection that is silent for longer than half a minute or so."""

AT_ONCE = 100
STREAM_ID = re.compile(r"0|[0-9]{1,19}-[0-9]{1,19}")
MEDIA_TYPE = "text/event-stream"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
RETRY_MILLISECONDS = 2000
KEEP_ALIVE = b": still here\n\n"


class EventStream:
    """The endpoint. Its streams end when `stopping` is set, and when their token is no longer good."""

    def __init__(
        self, redis: Redis, reads: FleetReader, gate: Authenticator, clock: Clock, stopping: asyncio.Event
    ) -> None:
        self._stream, self._reads, self._gate, self._clock = Stream(redis), reads, gate, clock
        self._stopping = stopping
        self._ends: Cache[int, str] = Cache(MOST_ORGS, MOST_ORGS)
        """Where each org's stream ends: asked once a second, however many listen."""

    def routes(self) -> list[Route]:
        """The one."""
        return [Route("/v1/orgs/{org}/events", self._events, methods=["GET"])]

    async def _events(self, request: Request) -> Response:
        org = request.path_params["org"]
        if refusal := await self._gate.refuse(request, "read", org, self._clock()):
            return refusal
        last_id = request.headers.get("last-event-id")
        if last_id is not None and not STREAM_ID.fullmatch(last_id):
            return problem(400, "Last-Event-ID takes the id of an event of this stream, or 0 for all that are kept")
        if (of := await self._reads.org(org)) is None:
            return not_installed(org)
        installation = of.installation.id
        async with redis_errors():
            if last_id is None:
                last_id = await self._stream.last_id(installation)
            elif await self._stream.since(installation, last_id, 1) is None:
                return problem(410, f"{last_id} is not kept any more; read the fleet, and listen without Last-Event-ID")
        if request.method == "HEAD":
            return Response(headers=HEADERS, media_type=MEDIA_TYPE)
        told = self._tell(request, org, installation, last_id)
        return StreamingResponse(told, headers=HEADERS, media_type=MEDIA_TYPE)

    async def _tell(self, request: Request, org: str, installation: int, last_id: str) -> AsyncIterator[bytes]:
        yield hello(last_id)
        loop = asyncio.get_running_loop()
        silent_since = loop.time()
        while not self._stopping.is_set():
            try:
                if await self._gate.refuse(request, "read", org, self._clock()) is not None:
                    return
                end = await self._ends.read(installation, lambda: self._stream.last_id(installation))
                is_behind = end is not None and place(end) > place(last_id)
                news = await self._stream.since(installation, last_id, AT_ONCE) if is_behind else []
            except (RedisError, OSError, StoreUnavailableError):  # the listener keeps its place until Redis is back
                news = []
            if news is None:  # it was too slow: when it comes back it is told so
                return
            if news:
                last_id = news[-1][0]
                yield b"".join(as_message(entry_id, event) for entry_id, event in news)
            elif loop.time() - silent_since >= KEEP_ALIVE_SECONDS:
                yield KEEP_ALIVE
            else:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), POLL_SECONDS)
                continue
            silent_since = loop.time()


def place(stream_id: str) -> tuple[int, int]:
    """A stream id as what it is ordered by."""
    milliseconds, _, number = stream_id.partition("-")
    return int(milliseconds), int(number or 0)


def hello(last_id: str) -> bytes:
    """The first message, without data: who is cut off before the first event, too, knows where it was."""
    return b"retry: %d\nid: %s\n\n" % (RETRY_MILLISECONDS, last_id.encode())


def as_message(entry_id: str, event: bytes) -> bytes:
    """A CloudEvent (JSON, one line) as an unnamed message, so that `EventSource.onmessage` sees it."""
    return b"id: %s\ndata: %s\n\n" % (entry_id.encode(), event)
