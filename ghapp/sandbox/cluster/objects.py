"""Stored objects: never changed in place, so that old versions stay as they were."""

from __future__ import annotations

import operator
import random
import string
import uuid
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

import msgspec

from ghapp.sandbox.cluster.kinds import ObjectKind

Obj = dict[str, Any]
Json = TypeVar("Json")

SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""The letters of generated names on a real server: they form no words."""


class Key(NamedTuple):
    """The key of an object of a kind; the namespace is empty at the cluster scope."""

    namespace: str
    name: str

    @property
    def path(self) -> str:
        """Returns the path by which lists are sorted, byte by byte, so that `a-b/c` comes before `a/b`."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


IN_ORDER = operator.attrgetter("path")
"""Sorts keys as lists do."""


class Stored:
    """One version of one object.

    Attributes:
        value: the object, which is never changed.
        version: its resourceVersion.
    """

    __slots__ = ("_encoded", "_item", "kind", "value", "version")

    def __init__(self, kind: ObjectKind, value: Obj, version: int) -> None:
        self.kind = kind
        self.value = value
        self.version = version
        self._encoded: bytes | None = None
        self._item: bytes | None = None

    @property
    def key(self) -> Key:
        """Returns its key."""
        meta = self.value["metadata"]
        return Key(meta.get("namespace", ""), meta["name"])

    @property
    def encoded(self) -> bytes:
        """Returns it as JSON, by itself."""
        if self._encoded is None:
            self._encoded = msgspec.json.encode(self.value)
        return self._encoded

    @property
    def item(self) -> bytes:
        """Returns it as JSON in a list: items of a built-in kind have no kind."""
        if self.kind.custom:
            return self.encoded
        if self._item is None:
            inner = {name: part for name, part in self.value.items() if name not in ("kind", "apiVersion")}
            self._item = msgspec.json.encode(inner)
        return self._item

    def at(self, version: int) -> Stored:
        """Returns the same object with another version, as a DELETED event shows it."""
        meta = self.value["metadata"] | {"resourceVersion": str(version)}
        return Stored(self.kind, self.value | {"metadata": meta}, version)


def copied(value: Json) -> Json:
    """Returns a deep copy of a JSON value."""
    copy: Any = value
    if isinstance(value, dict):
        copy = {key: copied(part) for key, part in value.items()}
    elif isinstance(value, list):
        copy = [copied(part) for part in value]
    return copy  # type: ignore[no-any-return]


def value_at(value: Obj, path: tuple[str, ...]) -> Any:
    """Returns the value at a path; None when there is none."""
    found: Any = value
    for step in path:
        if not isinstance(found, dict):
            return None
        found = found.get(step)
    return found


def timestamp(epoch: float) -> str:
    """Returns a time as `metav1.Time` does: RFC 3339 in UTC, whole seconds."""
    return datetime.fromtimestamp(int(epoch), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def timestamp_nano(epoch: float) -> str:
    """Returns a time as log lines do, with nine digits."""
    moment = datetime.fromtimestamp(epoch, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond:06d}000Z"


def epoch_of(stamp: str) -> float:
    """Returns the epoch second of an RFC 3339 time; ValueError when it is invalid."""
    return datetime.fromisoformat(stamp).timestamp()


def new_uid() -> str:
    """Returns a new uid."""
    return str(uuid.uuid4())


def generated_name(prefix: str) -> str:
    """Returns a name for a `generateName`."""
    return prefix[:58] + "".join(random.choices(SUFFIX_LETTERS, k=5))


def random_digits(count: int) -> str:
    """Returns so many digits, the first not 0."""
    return random.choice("123456789") + "".join(random.choices(string.digits, k=count - 1))
