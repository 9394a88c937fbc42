"""Objects as they are kept: never changed in place, so that old versions stay what they were."""

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
"""What the real one makes names of: nothing that reads as a word."""


class Key(NamedTuple):
    """Which object of a kind; the namespace is empty where there is none."""

    namespace: str
    name: str

    @property
    def path(self) -> str:
        """Lists are in the order of these, byte by byte, so that `a-b/c` comes before `a/b`."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


IN_ORDER = operator.attrgetter("path")
"""For sorting keys as lists have them."""


class Stored:
    """One version of one object.

    Attributes:
        value: the object, which nobody may change.
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
        """Which object it is."""
        meta = self.value["metadata"]
        return Key(meta.get("namespace", ""), meta["name"])

    @property
    def encoded(self) -> bytes:
        """As JSON, by itself."""
        if self._encoded is None:
            self._encoded = msgspec.json.encode(self.value)
        return self._encoded

    @property
    def item(self) -> bytes:
        """As JSON in a list: those of a built-in kind don't say what they are."""
        if self.kind.custom:
            return self.encoded
        if self._item is None:
            inner = {name: part for name, part in self.value.items() if name not in ("kind", "apiVersion")}
            self._item = msgspec.json.encode(inner)
        return self._item

    def at(self, version: int) -> Stored:
        """The same object under another version, as a DELETED event shows it."""
        meta = self.value["metadata"] | {"resourceVersion": str(version)}
        return Stored(self.kind, self.value | {"metadata": meta}, version)


def copied(value: Json) -> Json:
    """A deep copy of something that came from JSON."""
    copy: Any = value
    if isinstance(value, dict):
        copy = {key: copied(part) for key, part in value.items()}
    elif isinstance(value, list):
        copy = [copied(part) for part in value]
    return copy  # type: ignore[no-any-return]


def digged(value: Obj, path: tuple[str, ...]) -> Any:
    """What is at a path; None when there is nothing."""
    found: Any = value
    for step in path:
        if not isinstance(found, dict):
            return None
        found = found.get(step)
    return found


def timestamp(epoch: float) -> str:
    """As `metav1.Time` has it: RFC 3339 in UTC, whole seconds."""
    return datetime.fromtimestamp(int(epoch), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def timestamp_nano(epoch: float) -> str:
    """As log lines have it, with nine digits."""
    moment = datetime.fromtimestamp(epoch, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond:06d}000Z"


def epoch_of(stamp: str) -> float:
    """The epoch second of an RFC 3339 time; ValueError when it is none."""
    return datetime.fromisoformat(stamp).timestamp()


def new_uid() -> str:
    """A uid."""
    return str(uuid.uuid4())


def generated_name(prefix: str) -> str:
    """What `generateName` becomes."""
    return prefix[:58] + "".join(random.choices(SUFFIX_LETTERS, k=5))


def random_digits(count: int) -> str:
    """So many digits, the first not 0."""
    return random.choice("123456789") + "".join(random.choices(string.digits, k=count - 1))
