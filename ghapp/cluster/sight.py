"""What is seen of a namespace: all of it at once, one change, or nothing for now. Values; no I/O."""

from __future__ import annotations

from typing import Generic, Literal, NamedTuple, TypeVar

from ghapp.errors import ClusterError
from ghapp.health.cluster.pod import Pod

T = TypeVar("T")

Kind = Literal["added", "modified", "deleted", "bookmark"]


class Listed(NamedTuple, Generic[T]):
    """Everything that was there at one `resourceVersion`. Complete: what is not in it, is not there."""

    items: list[T]
    version: str


class Change(NamedTuple):
    """One event of a watch. A `deleted` pod is as it was last; a `bookmark` has none, and says that all is well."""

    kind: Kind
    pod: Pod | None
    version: str


class Trouble(NamedTuple):
    """Nothing can be seen just now, and why. Sight returns by itself: by further changes, or by a new list."""

    error: ClusterError


Sight = Listed[Pod] | Change | Trouble
