"""`POST /webhook`: checks a delivery's size, signature and format, stores it, then answers 202."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from starlette.requests import Request
from starlette.responses import Response

from ghapp.errors import MalformedDeliveryError, StoreUnavailableError
from ghapp.github.deliveries import encode, parse, verify
from ghapp.log import logger
from ghapp.store.inbox import Inbox
from ghapp.web.problems import problem

log = logger(__name__)

LARGEST_BYTES = 25 * 1024 * 1024
"""GitHub's maximum for a delivery."""

RETRY_AFTER_SECONDS = "10"


class Webhook:
    """The endpoint; `secrets` returns the current secrets: none before there is an App, several in a rotation."""

    def __init__(self, inbox: Inbox, secrets: Callable[[], Sequence[str]]) -> None:
        self._inbox, self._secrets = inbox, secrets

    async def receive(self, request: Request) -> Response:
        """Answers one delivery. Nothing in it is read before its signature was verified."""
        secrets = self._secrets()
        if not secrets:
            return problem(503, "the App has no webhook secret here yet", {"Retry-After": RETRY_AFTER_SECONDS})
        body = await _read(request)
        if body is None:
            return problem(413, f"a delivery has at most {LARGEST_BYTES} bytes")
        headers = request.headers
        if not verify(body, headers.get("x-hub-signature-256"), secrets):
            return problem(401, "X-Hub-Signature-256 is missing, or was not made with this App's webhook secret")
        event, guid = headers.get("x-github-event"), headers.get("x-github-delivery")
        if not event or not guid:
            return problem(400, "a delivery has the headers X-GitHub-Event and X-GitHub-Delivery")
        try:
            delivery = parse(event, body, headers.get("content-type", ""))
            await self._inbox.keep(guid, event, encode(delivery))
        except MalformedDeliveryError as error:
            return problem(400, str(error))
        except StoreUnavailableError as error:
            log.warning("delivery not stored", delivery=guid, github_event=event, why=str(error))
            return problem(503, "the delivery could not be stored; send it again", {"Retry-After": RETRY_AFTER_SECONDS})
        return Response(status_code=202)


async def _read(request: Request) -> bytes | None:
    """Returns the body; None if it is too large. The limit does not rely on Content-Length."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > LARGEST_BYTES:
            return None
        chunks.append(chunk)
    return b"".join(chunks)
