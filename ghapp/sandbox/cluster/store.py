"""All objects with one counter of versions, and their changes.

The store checks no write; it assigns a version, keeps the change, and notifies watches. Not thread-safe: callers hold
the cluster's lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from ghapp.sandbox.cluster.kinds import KINDS, ObjectKind
from ghapp.sandbox.cluster.objects import Key, Obj, Stored

FIRST_VERSION = 1000
CHANGES_KEPT = 20_000
"""Of each kind. The real server keeps five minutes of them in etcd, and by default as many as fit."""


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
