"""What `follow` yields about a namespace: a complete list, a change, or a failure. Values; no I/O."""

from __future__ import annotations

from typing import Generic, Literal, NamedTuple, TypeVar

from ghapp.errors import ClusterError

T = TypeVar("T")

Kind = Literal["added", "modified", "deleted", "bookmark"]


class Listed(NamedTuple, Generic[T]):
    """All objects that existed at one `resourceVersion`. Complete: what is missing from it does not exist.

    `server_time`: time of the last page by the API server's own clock (epoch seconds); None without a Date.
    """

    items: list[T]
    version: str
    server_time: float | None = None


class WatchChange(NamedTuple, Generic[T]):
    """One event of a watch. A `deleted` object is in its last state; a `bookmark` has no object, only a version."""

    kind: Kind
    found: T | None
    version: str


class WatchFailure(NamedTuple):
    """The namespace cannot be read now, and why. `follow` continues by itself, with changes or with a new list."""

    error: ClusterError


WatchEvent = Listed[T] | WatchChange[T] | WatchFailure
