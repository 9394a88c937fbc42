"""Parses reviews of our own permissions and account, and the API server's version. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from ghapp import decoding
from ghapp.cluster.api_errors import error_of, read_status
from ghapp.cluster.request import EPHEMERAL_RUNNERS, PODS, ClusterRequest, Resource
from ghapp.cluster.watch_events import Kind, WatchChange
from ghapp.cluster.wire import envelope
from ghapp.cluster.wire.envelope import NonEmpty, read
from ghapp.decoding import LeftOut, LeftOutRows
from ghapp.errors import ClusterUnavailableError
from ghapp.pods.pod import EphemeralRunner, Pod


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

_LEFT_OUT: dict[Resource, decoding.Kind] = {PODS: "pod", EPHEMERAL_RUNNERS: "ephemeral-runner"}


def change_of(
    call: ClusterRequest, line: bytes, read: Callable[[msgspec.Raw], T], left_out: LeftOutRows
) -> WatchChange[T]:
    """Returns the change of an event. One that cannot be read counts as a bookmark, so that the watch goes on after it.

    Args:
        call: the watch.
        line: the line of its answer.
        read: parses an object.
        left_out: gets what cannot be read. The next list shows the object, or that it does not exist.

    Raises:
        ResourceVersionExpiredError: an ERROR event with that reason.
        ClusterError: another ERROR event, or a line that is not an event with a `resourceVersion`.
    """
    event = envelope.event(line)
    if event.type == "ERROR":
        status = read_status(bytes(event.object))
        code = GONE if status.reason in ("Expired", "Gone") else status.code
        raise error_of(call, code, bytes(event.object))
    if event.type == "BOOKMARK":
        return WatchChange("bookmark", None, envelope.bookmarked(event.object))
    try:
        found = read(event.object)
    except ClusterUnavailableError as error:
        odd = LeftOut(_LEFT_OUT[call.resource], "object", str(error), is_row=True)
    else:
        if event.type in KINDS:
            return WatchChange(KINDS[event.type], found, found.version)
        odd = LeftOut(_LEFT_OUT[call.resource], "type", "an unknown type of event", is_row=True)
    version = envelope.bookmarked(event.object)
    left_out.add([odd])
    return WatchChange("bookmark", None, version)
