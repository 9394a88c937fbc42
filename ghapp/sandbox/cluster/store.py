"""All objects with one counter of versions, and their changes.

Stored objects are never changed in place, so that old versions stay as they were. The store checks no write; it assigns
a version, keeps the change, and notifies watches. Not thread-safe: callers hold the cluster's lock.
"""

from __future__ import annotations

import operator
import random
import string
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

import msgspec

from ghapp.sandbox.cluster.kinds import KINDS, ObjectKind

Obj = dict[str, Any]
Json = TypeVar("Json")

SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""The letters of generated names on a real server: they form no words."""

FIRST_VERSION = 1000
CHANGES_KEPT = 20_000
"""Of each kind. The real server keeps five minutes of them in etcd, and by default as many as fit."""


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


class StoredChange(NamedTuple):
    """One write. `after` is None when the object is deleted, and `last` then is what a watch shows of it."""

    version: int
    before: Stored | None
    after: Stored | None
    last: Stored


Listener = Callable[[StoredChange], None]


class VersionForgotten(Exception):  # noqa: N818 - "Expired" is the refusal; this is its cause
    """A version is older than what is kept; `oldest` is the oldest that is available."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"version {asked} is forgotten; the oldest kept is {oldest}")
        self.asked = asked
        self.oldest = oldest


class Store:
    """The objects.

    Attributes:
        version: the last one assigned.
    """

    def __init__(self) -> None:
        self.version = FIRST_VERSION
        self._objects: dict[ObjectKind, dict[Key, Stored]] = {kind: {} for kind in KINDS}
        self._by_uid: dict[str, Stored] = {}
        self._changes: dict[ObjectKind, deque[StoredChange]] = {kind: deque() for kind in KINDS}
        self._oldest: dict[ObjectKind, int] = dict.fromkeys(KINDS, FIRST_VERSION)
        self._listeners: dict[ObjectKind, list[Listener]] = {kind: [] for kind in KINDS}

    def get(self, kind: ObjectKind, key: Key) -> Stored | None:
        """Returns an object as it is now."""
        return self._objects[kind].get(key)

    def by_uid(self, uid: str) -> Stored | None:
        """Returns the object of that uid, of any kind."""
        return self._by_uid.get(uid)

    def all(self, kind: ObjectKind) -> Mapping[Key, Stored]:
        """Returns all objects of a kind as they are now, unordered; not a copy."""
        return self._objects[kind]

    def everything(self) -> Iterator[Stored]:
        """Yields all objects of all kinds, from a copy."""
        return iter([stored for objects in self._objects.values() for stored in objects.values()])

    def put(self, kind: ObjectKind, value: Obj) -> Stored:
        """Stores an object; an unchanged one gets no new version, and watches are not notified."""
        meta = value["metadata"]
        key = Key(meta.get("namespace", ""), meta["name"])
        before = self._objects[kind].get(key)
        if before is not None:
            meta["resourceVersion"] = before.value["metadata"]["resourceVersion"]
            if value == before.value:
                return before
        self.version += 1
        meta["resourceVersion"] = str(self.version)
        after = Stored(kind, value, self.version)
        self._objects[kind][key] = after
        self._by_uid[meta["uid"]] = after
        self._note(kind, StoredChange(self.version, before, after, after))
        return after

    def remove(self, kind: ObjectKind, key: Key) -> Stored:
        """Deletes an object; returns its last state, with the version of its deletion. KeyError for an unknown one."""
        before = self._objects[kind].pop(key)
        del self._by_uid[before.value["metadata"]["uid"]]
        self.version += 1
        last = before.at(self.version)
        self._note(kind, StoredChange(self.version, before, None, last))
        return last

    def snapshot(self, kind: ObjectKind, version: int) -> dict[Key, Stored]:
        """Returns all objects of a kind as they were at a version; VersionForgotten when it is not kept any more."""
        if version < self._oldest[kind]:
            raise VersionForgotten(version, self._oldest[kind])
        objects = dict(self._objects[kind])
        for change in reversed(self._changes[kind]):
            if change.version <= version:
                break
            key = change.last.key
            if change.before is None:
                objects.pop(key, None)
            else:
                objects[key] = change.before
        return objects

    def since(self, kind: ObjectKind, version: int) -> list[StoredChange]:
        """Returns the changes after a version, oldest first; VersionForgotten when some are not kept any more."""
        if version < self._oldest[kind]:
            raise VersionForgotten(version, self._oldest[kind])
        found: list[StoredChange] = []
        for change in reversed(self._changes[kind]):
            if change.version <= version:
                break
            found.append(change)
        return found[::-1]

    def forget(self) -> None:
        """Drops all earlier versions; open watches lose nothing."""
        for kind in KINDS:
            self._changes[kind].clear()
            self._oldest[kind] = self.version

    def listen(self, kind: ObjectKind, listener: Listener) -> Callable[[], None]:
        """Calls the listener with each change of a kind, until the returned function is called."""
        self._listeners[kind].append(listener)

        def leave() -> None:
            if listener in self._listeners[kind]:
                self._listeners[kind].remove(listener)

        return leave

    def _note(self, kind: ObjectKind, change: StoredChange) -> None:
        changes = self._changes[kind]
        if len(changes) >= CHANGES_KEPT:
            self._oldest[kind] = changes.popleft().version
        changes.append(change)
        for listener in tuple(self._listeners[kind]):
            listener(change)
