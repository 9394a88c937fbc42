"""Parses a request's method, path and query as the real API server does.

Authorization uses the result, whether or not the resource exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

_FALSE = frozenset({"false", "0"})
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_OF_NAMESPACES = frozenset({"status", "finalize"})
_NAME_FIELD = "metadata.name"


class ParsedRequest(NamedTuple):
    """A request for a resource.

    Attributes:
        verb: get, list, watch, create, update, patch, delete or deletecollection.
        group: empty for the core.
    """

    verb: str
    group: str
    version: str
    resource: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def full_resource(self) -> str:
        """Returns its name in rules: `pods/log`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def read(method: str, path: str, query: Mapping[str, str]) -> ParsedRequest | None:
    """Returns the parsed request; None for a non-resource path."""
    parts = [part for part in path.split("/") if part]
    if len(parts) >= 3 and parts[0] == "api":  # noqa: PLR2004 - /api/v1/pods
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":  # noqa: PLR2004 - /apis/group/version/resource
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        # /namespaces/x and /namespaces/x/status are the namespace itself; any other path below is a resource in it.
        if len(rest) > 2 and rest[2] not in _OF_NAMESPACES:  # noqa: PLR2004
            rest = rest[2:]
    resource, name, subresource = (*rest[:3], "", "")[:3]
    if len(rest) > 3:  # noqa: PLR2004
        return None
    verb, name = _verb(method, name, query)
    return ParsedRequest(verb, group, version, resource, namespace, name, subresource)


def is_true(value: str | None) -> bool:
    """Returns a boolean of a query as the real server reads it: anything that is present and does not mean false."""
    return value is not None and value.lower() not in _FALSE


def _verb(method: str, name: str, query: Mapping[str, str]) -> tuple[str, str]:
    if method == "DELETE":
        verb = "delete" if name else "deletecollection"
    elif method in ("GET", "HEAD"):
        verb = "get" if name else "watch" if is_true(query.get("watch")) else "list"
    else:
        verb = _VERBS.get(method, "")
    if not name and verb in ("list", "watch"):
        name = _named(query.get("fieldSelector", ""))
    return verb, name


def _named(fields: str) -> str:
    """Returns the one name that a field selector matches."""
    for term in fields.split(","):
        for operator in ("==", "="):
            label, found, value = term.partition(operator)
            if found and label == _NAME_FIELD:
                return value
    return ""
