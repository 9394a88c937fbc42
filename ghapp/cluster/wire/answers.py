"""Parses reviews of our own permissions and account, and the API server's version. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from ghapp.cluster.api_errors import error_of, read_status
from ghapp.cluster.request import ClusterRequest
from ghapp.cluster.watch_events import Kind, WatchChange
from ghapp.cluster.wire import envelope
from ghapp.cluster.wire.envelope import NonEmpty, read
from ghapp.health.pods.pod import EphemeralRunner, Pod


class _Decision(msgspec.Struct):
    allowed: bool


class _Review(msgspec.Struct):
    status: _Decision


class _Version(msgspec.Struct, rename="camel"):
    git_version: NonEmpty


class _User(msgspec.Struct):
    username: NonEmpty = ""


class _Who(msgspec.Struct, rename="camel"):
    user_info: _User


class _SelfReview(msgspec.Struct):
    status: _Who


_self_review = msgspec.json.Decoder(_SelfReview)
_review = msgspec.json.Decoder(_Review)
_version = msgspec.json.Decoder(_Version)


def is_allowed(body: bytes) -> bool:
    """Parses an answered `SelfSubjectAccessReview`."""
    return read(_review, body).status.allowed


def username(body: bytes) -> str:
    """Parses a `SelfSubjectReview`; returns our user name, as `system:serviceaccount:NAMESPACE:NAME`."""
    return read(_self_review, body).status.user_info.username


def git_version(body: bytes) -> str:
    """Parses `GET /version`."""
    return read(_version, body).git_version


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
