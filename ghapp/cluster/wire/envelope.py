"""Parses the common parts of all objects and lists of the API server. No I/O.

Strict for fields on which actions depend (name, uid, resourceVersion, age): a body without them is not an object.
Lenient for all other fields.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Generic, NamedTuple, TypeVar

import msgspec

from ghapp.decoding import LeftOut, RowDecoder, decode
from ghapp.errors import ClusterUnavailableError
from ghapp.pods.pod import Owner as OwnerValue

T = TypeVar("T")
V = TypeVar("V")

Timestamp = Annotated[datetime, msgspec.Meta(tz=True)]
NonEmpty = Annotated[str, msgspec.Meta(min_length=1)]


class OwnerReference(msgspec.Struct):
    """An ownerReference."""

    kind: str = ""
    name: str = ""
    uid: str = ""


class Annotations(msgspec.Struct):
    """The only annotation that is read."""

    default_container: str | None = msgspec.field(name="kubectl.kubernetes.io/default-container", default=None)


class Meta(msgspec.Struct, rename="camel"):
    """`metadata` of a namespaced object."""

    name: NonEmpty
    namespace: NonEmpty
    uid: NonEmpty
    resource_version: NonEmpty
    creation_timestamp: Timestamp
    deletion_timestamp: Timestamp | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: Annotations | None = None
    owner_references: list[OwnerReference] | None = None
    finalizers: list[str] | None = None

    @property
    def created_at(self) -> float:
        """Creation time in epoch seconds."""
        return self.creation_timestamp.timestamp()

    @property
    def deleting_since(self) -> float | None:
        """Time of the deletion request. `deletionTimestamp` is the end of the grace period, for pods later."""
        if self.deletion_timestamp is None:
            return None
        return self.deletion_timestamp.timestamp() - max(0, self.deletion_grace_period_seconds or 0)

    @property
    def owners(self) -> tuple[OwnerValue, ...]:
        """The ownerReferences."""
        return tuple(OwnerValue(each.kind, each.name, each.uid) for each in self.owner_references or ())


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str
    next: str | None = msgspec.field(name="continue", default=None)


class Items(msgspec.Struct, Generic[T]):
    """A list, or a page of one. `items` is mandatory: a body without it is not an empty list."""

    metadata: _ListMeta
    items: list[T] | None


class ObjectPage(NamedTuple, Generic[V]):
    """A page of a list, the token of the next page (empty for the last page), and objects that cannot be read."""

    items: list[V]
    version: str
    next: str
    left_out: tuple[LeftOut, ...] = ()


class Event(msgspec.Struct):
    """A line of a watch."""

    type: str
    object: msgspec.Raw


class _Object(msgspec.Struct):
    metadata: Meta


class _Version(msgspec.Struct, rename="camel"):
    resource_version: NonEmpty


class _Bookmark(msgspec.Struct):
    metadata: _Version


_event = msgspec.json.Decoder(Event)
_object = msgspec.json.Decoder(_Object)
_bookmark = msgspec.json.Decoder(_Bookmark)


def meta(body: bytes) -> Meta:
    """Parses the metadata of any namespaced object."""
    return read(_object, body).metadata


def event(line: bytes) -> Event:
    """Parses a line of a watch; its object is not parsed yet."""
    return read(_event, line)


def bookmarked(body: bytes | msgspec.Raw) -> str:
    """Returns the version of a bookmark."""
    return read(_bookmark, body).metadata.resource_version


def page(decoder: RowDecoder[Items[T]], body: bytes, value: Callable[[T], V]) -> ObjectPage[V]:
    """Parses a page of a list, and converts its items.

    Raises:
        ClusterUnavailableError: the list itself is not what the API describes.
    """
    try:
        found, odd = decoder.decode(body)
    except msgspec.DecodeError as error:
        raise _unusable(error) from None
    version = found.metadata.resource_version
    if version in ("", "0"):  # a watch from these versions may start anywhere
        raise ClusterUnavailableError("the cluster's list has no resourceVersion")
    return ObjectPage([value(each) for each in found.items or ()], version, found.metadata.next or "", odd)


def read(decoder: msgspec.json.Decoder[T], body: bytes | msgspec.Raw) -> T:
    """Decodes a body.

    Raises:
        ClusterUnavailableError: the body is not what the API describes.
    """
    try:
        return decode(decoder, body)
    except msgspec.DecodeError as error:
        raise _unusable(error) from None


def _unusable(error: msgspec.DecodeError) -> ClusterUnavailableError:
    return ClusterUnavailableError(f"the cluster's answer is not what its API describes: {error}")
