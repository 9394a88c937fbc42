"""What `follow` yields about a namespace: a complete list, a change, or a failure. Values; no I/O."""

from __future__ import annotations

from typing import Any, Generic, Literal, NamedTuple, TypeVar

from ghapp.decoding import LeftOut
from ghapp.errors import ClusterError

T = TypeVar("T")

Kind = Literal["added", "modified", "deleted", "bookmark"]


class Listed(NamedTuple, Generic[T]):
    """All objects that existed at one `resourceVersion`. Complete: what is missing from it does not exist.

    Attributes:
        items: the objects.
        version: the `resourceVersion`.
        server_time: time of the last page by the API server's own clock (epoch seconds); None without a Date.
        left_out: objects that exist and cannot be read.
    """

    items: list[T]
    version: str
    server_time: float | None = None
    left_out: tuple[LeftOut, ...] = ()

    def may_have(self, uid: str) -> bool:
        """True if an object that `items` lacks may exist: it cannot be read, or that of another one has no uid."""
        uids = [_uid(each.row) for each in self.left_out]
        return uid in uids or None in uids


def _uid(row: Any) -> str | None:
    """Returns the uid of an untyped object; None if it has none."""
    metadata = row.get("metadata") if isinstance(row, dict) else None
    uid = metadata.get("uid") if isinstance(metadata, dict) else None
    return uid if uid and isinstance(uid, str) and uid.isascii() else None


class WatchChange(NamedTuple, Generic[T]):
    """One event of a watch. A `deleted` object is in its last state; a `bookmark` has no object, only a version."""

    kind: Kind
    found: T | None
    version: str


class WatchFailure(NamedTuple):
    """The namespace cannot be read now, and why. `follow` continues by itself, with changes or with a new list.

    Attributes:
        error: why.
        is_listed: True if the last list was read and a watch from it fails, so that only what happens between two
            lists is not seen.
    """

    error: ClusterError
    is_listed: bool = False


WatchEvent = Listed[T] | WatchChange[T] | WatchFailure
