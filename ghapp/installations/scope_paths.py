"""A scope's address in the path of a URL. Pure.

There the address is one segment, with `~` for its slash: `/v1/orgs/acme~api/runners`. No name at GitHub has a `~`, and
no proxy touches it (RFC 3986, section 2.3), while `%2F` is refused by Apache and Traefik, and decoded by nginx
(`proxy_pass` with a path) and Envoy Gateway, each by default.

Two other forms are understood, because people and generated clients write them: `acme%2Fapi`, and what such proxies
make of it, `acme/api`. The latter is ambiguous where the repository is named as one of our paths begins:
`/v1/orgs/acme/runners` are the runners of acme. Only `acme~runners` is that repository.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import quote, unquote

from ghapp.installations.scope import ENTERPRISES, Scope

SEPARATOR = "~"
"""In place of an address' slash."""

API, PAGES = "/v1/orgs/", "/orgs/"
"""What precedes the address, in paths of the API and of pages."""

_WORD_OF_OURS = re.compile(rf"({API}|{PAGES}){{\w+(?::\w+)?}}/(\w+)", re.ASCII)
_SLASH = re.compile("%2f", re.IGNORECASE)
_REQUESTED = re.compile(rf"({API}|{PAGES})([^/]+)(?:/([^/]+))?", re.ASCII)


def path_segment(address: str) -> str:
    """Returns an address as one segment of a path: `acme`, `acme~api`, `enterprises~acme-corp`."""
    return quote(address.replace("/", SEPARATOR), safe="")


def address_in(segment: str) -> str:
    """Returns the address of a decoded segment of a path."""
    return segment.replace(SEPARATOR, "/")


class Readdressed(NamedTuple):
    """A path with the address in one segment.

    Attributes:
        raw_path: not decoded.
        is_shorter: True if it has fewer segments than the requested path: relative links of a page would not fit.
    """

    raw_path: str
    is_shorter: bool


class ScopePaths:
    """Finds addresses that are not one segment in paths of requests."""

    def __init__(self, routes: Iterable[str]) -> None:
        """`routes`: all paths, with `{names}` in braces."""
        self._words = defaultdict[str, set[str]](set)
        for found in filter(None, map(_WORD_OF_OURS.match, routes)):
            self._words[found[1]].add(found[2])

    def readdressed(self, raw_path: str) -> Readdressed | None:
        """Returns a path with the address in one segment; None if the path may stay as it is.

        Args:
            raw_path: not decoded, without a query.
        """
        if (found := _REQUESTED.match(raw_path)) is None:
            return None
        prefix, first, second = found.groups()
        if "/" in (owner := unquote(first)):
            return Readdressed(prefix + _SLASH.sub(SEPARATOR, first) + raw_path[found.end(2) :], is_shorter=False)
        if second is None or (unquote(second) in self._words[prefix] and owner.lower() != ENTERPRISES):
            return None
        if Scope.parse(f"{owner}/{unquote(second)}") is None:
            return None
        return Readdressed(f"{prefix}{first}{SEPARATOR}{second}{raw_path[found.end() :]}", is_shorter=True)
