"""Answers health reads from memory, before Starlette: the only route that controllers call for each of their runners.

Starlette's request, routing and response take longer than the answer itself. Whatever is not a plain read of a known
runner with a known token goes on to the application, which decides as if this module did not exist.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from starlette.types import Scope

from ghapp.web.authentication import Authenticator
from ghapp.web.fleet_view import FleetReader
from ghapp.web.operation import Clock
from ghapp.web.parameters import MOST_DIGITS

_PATH = re.compile(rf"/v1/orgs/([\w.-]+)/runners/([1-9][0-9]{{0,{MOST_DIGITS - 1}}})/health", re.ASCII)


class FastHealth:
    """The answers."""

    def __init__(self, reader: FleetReader, authenticator: Authenticator, clock: Clock) -> None:
        self._reader, self._authenticator, self._clock = reader, authenticator, clock

    def document(self, scope: Scope) -> bytes | None:
        """Returns the document that answers a request; None if it is another one, or needs a read from Redis."""
        asked = _PATH.fullmatch(scope["path"]) if scope["method"] == "GET" and not scope["query_string"] else None
        if asked is None:
            return None
        org, now = asked[1], self._clock()
        if not self._authenticator.is_known_to_allow(_authorization(scope["headers"]), "read", org, now):
            return None
        found = self._reader.in_memory(org, int(asked[2]), now)
        return None if found is None else found.at(now)


def _authorization(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    for name, value in headers:
        if name == b"authorization":
            return value
    return b""
