"""What is seen of a namespace: all of it at once, one change, or nothing for now. Values; no I/O."""

from __future__ import annotations

from typing import Generic, Literal, NamedTuple, TypeVar

from ghapp.errors import ClusterError

T = TypeVar("T")

Kind = Literal["added", "modified", "deleted", "bookmark"]


class Listed(NamedTuple, Generic[T]):
    """Everything that was there at one `resourceVersion`. Complete: what is not in it, is not there.

    `told_at`: when the last of it was told, by the API server's own clock (epoch seconds); None where it does not say.
    """

    items: list[T]
    version: str
    told_at: float | None = None


class WatchChange(NamedTuple, Generic[T]):
    """One event of a watch. What is `deleted` is as it was last; a `bookmark` has none, and says that all is well."""

    kind: Kind
    found: T | None
    version: str


class WatchFailure(NamedTuple):
    """Nothing can be seen just now, and why. Sight returns by itself: by further changes, or by a new list."""

    error: ClusterError


Sight = Listed[T] | WatchChange[T] | WatchFailure
