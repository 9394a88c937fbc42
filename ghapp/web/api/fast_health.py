"""Answers health reads from memory, before Starlette: the only route that controllers call for each of their runners.

A task, Starlette's request, routing and response take longer than the answer itself. Whatever is not a plain read of a
known runner with a known token goes on to the application, which decides as if this module did not exist.
"""

from __future__ import annotations

import re

from ghapp.web.api.health import MOST_DIGITS, Clock
from ghapp.web.authentication import Authenticator
from ghapp.web.fleet_view import FleetReader
from ghapp.web.http_protocol import Headers

_TARGET = re.compile(rb"/v1/orgs/([\w.-]+)/runners/([1-9][0-9]{0,%d})/health" % (MOST_DIGITS - 1))
"""Without a query, and without characters that are escaped."""


class FastHealth:
    """The answers."""

    def __init__(self, reader: FleetReader, authenticator: Authenticator, clock: Clock) -> None:
        self._reader, self._authenticator, self._clock = reader, authenticator, clock

    def document(self, target: bytes, headers: Headers) -> bytes | None:
        """Returns the document that answers a GET; None if it is another request, or needs a read from Redis."""
        asked = _TARGET.fullmatch(target)
        if asked is None:
            return None
        org, now = asked[1].decode(), self._clock()
        if not self._authenticator.is_known_to_allow(_authorization(headers), "read", org, now):
            return None
        found = self._reader.in_memory(org, int(asked[2]), now)
        return None if found is None else found.at(now)


def _authorization(headers: Headers) -> bytes:
    for name, value in headers:
        if name == b"authorization":
            return value
    return b""
