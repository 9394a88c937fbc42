"""Parses one line of a watch. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from ghapp.cluster.api_errors import error_of, read_status
from ghapp.cluster.request import ClusterRequest
from ghapp.cluster.watch_events import Kind, WatchChange
from ghapp.cluster.wire import envelope
from ghapp.health.pods.pod import EphemeralRunner, Pod

T = TypeVar("T", Pod, EphemeralRunner)

KINDS: dict[str, Kind] = {"ADDED": "added", "MODIFIED": "modified", "DELETED": "deleted"}
GONE = 410


def change_of(call: ClusterRequest, line: bytes, read: Callable[[msgspec.Raw], T]) -> WatchChange[T]:
    """Returns the change of an event.

    Args:
        call: the watch.
        line: the line of its answer.
        read: parses an object.

    Raises:
        ResourceVersionExpiredError: an ERROR event with that reason.
        ClusterError: another ERROR event, or a line that is not an event.
    """
    event = envelope.event(line)
    if event.type == "ERROR":
        status = read_status(bytes(event.object))
        code = GONE if status.reason in ("Expired", "Gone") else status.code
        raise error_of(call, code, bytes(event.object))
    if event.type == "BOOKMARK":
        return WatchChange("bookmark", None, envelope.bookmarked(event.object))
    found = read(event.object)
    return WatchChange(KINDS[event.type], found, found.version)
