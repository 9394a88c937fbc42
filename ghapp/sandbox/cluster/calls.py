"""Records the requests to the API server, for comparison with what rules allow."""

from __future__ import annotations

import threading
from collections import deque
from typing import NamedTuple

from ghapp.sandbox.cluster.requests import ParsedRequest

NO_ANSWER = 0
CALLS_KEPT = 20_000
"""A sandbox may run for days."""


class ClusterCall(NamedTuple):
    """One request for a resource.

    Attributes:
        verb: in the words of rules: get, list, watch, create, update, patch, delete, deletecollection.
        group: empty for the core.
        namespace: empty for all, and at the cluster scope.
        code: of the answer; 0 without one.
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
    """The last `CALLS_KEPT` requests, in the order of their answers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: deque[ClusterCall] = deque(maxlen=CALLS_KEPT)

    def note(self, user: str, asked: ParsedRequest, code: int) -> None:
        """Records one request."""
        call = ClusterCall(
            user, asked.verb, asked.group, asked.resource, asked.subresource, asked.namespace, asked.name, code
        )
        with self._lock:
            self._calls.append(call)

    def all(self) -> list[ClusterCall]:
        """Returns a copy of the records."""
        with self._lock:
            return list(self._calls)

    def clear(self) -> None:
        """Deletes the records."""
        with self._lock:
            self._calls.clear()
