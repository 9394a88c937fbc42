"""One line of a watch, and what it says. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from ghapp.cluster.call import Call
from ghapp.cluster.refusal import read_status, understood
from ghapp.cluster.sight import Change, Kind
from ghapp.cluster.wire import envelope
from ghapp.health.cluster.pod import EphemeralRunner, Pod

T = TypeVar("T", Pod, EphemeralRunner)

KINDS: dict[str, Kind] = {"ADDED": "added", "MODIFIED": "modified", "DELETED": "deleted"}
GONE = 410


def change_of(call: Call, line: bytes, read: Callable[[msgspec.Raw], T]) -> Change[T]:
    """The change that an event tells of.

    Args:
        call: the watch.
        line: of its answer.
        read: makes the value of an object.

    Raises:
        VersionGoneError: an ERROR event that says so.
        ClusterError: another ERROR event, or no event at all.
    """
    event = envelope.event(line)
    if event.type == "ERROR":
        status = read_status(bytes(event.object))
        code = GONE if status.reason in ("Expired", "Gone") else status.code
        raise understood(call, code, bytes(event.object))
    if event.type == "BOOKMARK":
        return Change("bookmark", None, envelope.bookmarked(event.object))
    found = read(event.object)
    return Change(KINDS[event.type], found, found.version)
