"""What was asked of the API server, to be compared with what rules allow."""

from __future__ import annotations

import threading
from typing import NamedTuple

from ghapp.sandbox.cluster.requests import ParsedRequest

NO_ANSWER = 0


class ClusterCall(NamedTuple):
    """One request for a resource.

    Attributes:
        verb: as rules have it: get, list, watch, create, update, patch, delete, deletecollection.
        group: empty for the core.
        namespace: empty for all, and at the cluster scope.
        code: what it was answered; 0 when it was not.
    """

    user: str
    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int


class ClusterCalls:
    """All of them, in the order in which they were answered."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: list[ClusterCall] = []

    def note(self, user: str, asked: ParsedRequest, code: int) -> None:
        """One more."""
        call = ClusterCall(
            user, asked.verb, asked.group, asked.resource, asked.subresource, asked.namespace, asked.name, code
        )
        with self._lock:
            self._calls.append(call)

    def all(self) -> list[ClusterCall]:
        """A copy."""
        with self._lock:
            return list(self._calls)

    def clear(self) -> None:
        """Forgets them."""
        with self._lock:
            self._calls.clear()
