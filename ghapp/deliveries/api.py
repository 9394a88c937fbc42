"""`POST /webhook`: checks a delivery's size, signature and format, stores it, then answers 202."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ghapp.deliveries.store import Inbox
from ghapp.errors import MalformedDeliveryError, StoreUnavailableError
from ghapp.github.deliveries import encode, parse, verify
from ghapp.log import logger
from ghapp.web.operation import Answer, Operation, Parameter, problems
from ghapp.web.problems import problem

log = logger(__name__)

LARGEST_BYTES = 25 * 1024 * 1024
"""GitHub's maximum for a delivery."""

RETRY_AFTER_SECONDS = "10"

MOST_AT_ONCE = 16
"""Deliveries that are handled before other events. The next ones are handled while Redis stores these."""

MOST_DIGITS = len(str(LARGEST_BYTES))
SIGNATURE = re.compile("sha256=[0-9a-f]{64}")

ACCEPTED = Response(status_code=202)
TOO_LARGE = problem(413, f"a delivery has at most {LARGEST_BYTES} bytes")
UNSIGNED = problem(401, "X-Hub-Signature-256 is missing, or was not made with this App's webhook secret")

Answered = asyncio.Future[Response | None]
"""Of a delivery: its refusal, or None once it is stored; else a StoreUnavailableError."""

RECEIVE_DELIVERY = Operation(
    "POST",
    "/webhook",
    "GitHub's deliveries.",
    {202: Answer("The delivery is stored."), **problems(400, 401, 413, 503)},
    needs_token=False,
    parameters=[
        Parameter(name, place="header", required=True)
        for name in ("X-GitHub-Event", "X-GitHub-Delivery", "X-Hub-Signature-256")
    ],
    bodies={"application/json": {"type": "object"}, "application/x-www-form-urlencoded": {"type": "object"}},
)
OPERATIONS = (RECEIVE_DELIVERY,)


class Webhook:
    """The endpoint; `secrets` returns the current secrets: none before there is an App, several in a rotation."""

    def __init__(self, inbox: Inbox, secrets: Callable[[], Sequence[str]]) -> None:
        self._inbox, self._secrets = inbox, secrets
        self._arrived: deque[tuple[Mapping[bytes, bytes], bytes, Answered]] = deque()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one delivery. A body that cannot be valid is not read."""
        headers = dict(scope["headers"])
        response = self._refused(headers)
        if response is None:
            try:
                body = await _read(receive)
            except ClientDisconnect:
                return
            response = TOO_LARGE if body is None else await self._accept(headers, body)
        await response(scope, receive, send)

    def _refused(self, headers: Mapping[bytes, bytes]) -> Response | None:
        """Returns the answer to a delivery that its head shows to be invalid; else None."""
        length = _text(headers, b"content-length")
        if not self._secrets():
            return problem(503, "the App has no webhook secret here yet", {"Retry-After": RETRY_AFTER_SECONDS})
        if length.isdecimal() and (len(length) > MOST_DIGITS or int(length) > LARGEST_BYTES):
            return TOO_LARGE
        return None if SIGNATURE.fullmatch(_text(headers, b"x-hub-signature-256")) else UNSIGNED

    async def _accept(self, headers: Mapping[bytes, bytes], body: bytes) -> Response:
        """Stores a delivery, and returns its answer."""
        loop = asyncio.get_running_loop()
        answered: Answered = loop.create_future()
        self._arrived.append((headers, body, answered))
        if len(self._arrived) == 1:
            loop.call_soon(self._store_some)
        try:
            return await answered or ACCEPTED
        except StoreUnavailableError as error:
            guid, event = _text(headers, b"x-github-delivery"), _text(headers, b"x-github-event")
            log.warning("delivery not stored", delivery=guid, github_event=event, why=str(error))
        detail = "the delivery could not be stored; send it again"
        return problem(503, detail, {"Retry-After": RETRY_AFTER_SECONDS})

    def _store_some(self) -> None:
        arrived = [self._arrived.popleft() for _ in range(min(MOST_AT_ONCE, len(self._arrived)))]
        if self._arrived:
            asyncio.get_running_loop().call_soon(self._store_some)
        for headers, body, answered in arrived:
            try:
                refused = self._store(headers, body, answered)
            except Exception:
                log.exception("delivery not stored")
                refused = problem(500, "internal error; see the log")
            if refused is not None and not answered.done():  # its sender may be away
                answered.set_result(refused)

    def _store(self, headers: Mapping[bytes, bytes], body: bytes, answered: Answered) -> Response | None:
        """Begins to store a delivery, or refuses it. Nothing in it is read before its signature was verified."""
        if not verify(body, _text(headers, b"x-hub-signature-256"), self._secrets()):
            return UNSIGNED
        event, guid = _text(headers, b"x-github-event"), _text(headers, b"x-github-delivery")
        if not event or not guid:
            return problem(400, "a delivery has the headers X-GitHub-Event and X-GitHub-Delivery")
        try:
            facts = encode(parse(event, body, _text(headers, b"content-type")))
        except MalformedDeliveryError as error:
            return problem(400, str(error))
        self._inbox.keep(guid, event, facts, answered)
        return None


def _text(headers: Mapping[bytes, bytes], name: bytes) -> str:
    return headers.get(name, b"").decode("latin-1")


async def _read(receive: Receive) -> bytes | None:
    """Returns the body; None if it is too large. The limit does not rely on Content-Length.

    Raises:
        ClientDisconnect: the sender went away.
    """
    chunks: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunks.append(message.get("body", b""))
        size, more = size + len(chunks[-1]), message.get("more_body", False)
        if size > LARGEST_BYTES:
            return None
    return b"".join(chunks)
