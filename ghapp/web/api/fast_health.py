"""Answers health reads from memory, before Starlette: the only route that controllers call for each of their runners.

Starlette's request, routing and response take longer than the answer itself. Whatever is not a plain read of a known
runner with a known token goes on to the application, which decides as if this module did not exist.
With it, the rate of reads evenly over 1,000 runners (`make bench`) is more than twice what it is without.
"""

from __future__ import annotations

from starlette.types import Scope, Send

from ghapp.web.api.health import Clock, runner_number
from ghapp.web.authentication import Authenticator
from ghapp.web.fleet_view import FleetReader

PARTS = 7
"""Of `/v1/orgs/{org}/runners/{runner_id}/health`, the empty one before the first slash included."""


class FastHealth:
    """The answers to plain ASGI requests."""

    def __init__(self, reader: FleetReader, authenticator: Authenticator, clock: Clock) -> None:
        self._reader, self._authenticator, self._clock = reader, authenticator, clock

    async def answer(self, scope: Scope, send: Send) -> bool:
        """Answers a request; returns False if it is for the application."""
        body = self._document(scope) if scope["type"] == "http" and scope["method"] == "GET" else None
        if body is None:
            return False
        headers = [(b"content-length", b"%d" % len(body)), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        return True

    def _document(self, scope: Scope) -> bytes | None:
        """Returns the document; None if the request is another one, or if something has to be read for it."""
        parts = scope["path"].split("/")
        if len(parts) != PARTS or parts[6] != "health" or parts[4] != "runners" or parts[1:3] != ["v1", "orgs"]:
            return None
        org, runner_id, now = parts[3], runner_number(parts[5]), self._clock()
        if runner_id is None:
            return None
        if not self._authenticator.is_known_to_allow(_authorization(scope), "read", org, now):
            return None
        found = self._reader.in_memory(org, runner_id, now)
        return None if found is None else found.at(now)


def _authorization(scope: Scope) -> bytes:
    for name, value in scope["headers"]:
        if name == b"authorization":
            return bytes(value)
    return b""
