"""All objects with one counter of versions, and the changes that led to them.

Nothing here judges a write; it gives it a version, keeps the change, and tells those who watch. Not safe by itself:
whoever calls holds the cluster's lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from ghapp.sandbox.cluster.kinds import KINDS, ObjectKind
from ghapp.sandbox.cluster.objects import Key, Obj, Stored

FIRST_VERSION = 1000
CHANGES_KEPT = 20_000
"""Of each kind. The real one keeps five minutes of them in etcd, and by default as many as it has room for."""


class StoredChange(NamedTuple):
    """One write. `after` is None when the object is gone, and `last` then is what a watch shows of it."""

    version: int
    before: Stored | None
    after: Stored | None
    last: Stored


Listener = Callable[[StoredChange], None]


class VersionForgotten(Exception):  # noqa: N818 - the real one's word is Expired; this is why
    """A version is older than what is kept; `oldest` is the oldest that can still be asked for."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"version {asked} is forgotten; the oldest kept is {oldest}")
        self.asked = asked
        self.oldest = oldest


class Store:
    """The objects.

    Attributes:
        version: the last that was given.
    """

    def __init__(self) -> None:
        self.version = FIRST_VERSION
        self._objects: dict[ObjectKind, dict[Key, Stored]] = {kind: {} for kind in KINDS}
        self._by_uid: dict[str, Stored] = {}
        self._changes: dict[ObjectKind, deque[StoredChange]] = {kind: deque() for kind in KINDS}
        self._oldest: dict[ObjectKind, int] = dict.fromkeys(KINDS, FIRST_VERSION)
        self._listeners: dict[ObjectKind, list[Listener]] = {kind: [] for kind in KINDS}

    def get(self, kind: ObjectKind, key: Key) -> Stored | None:
        """An object as it is now."""
        return self._objects[kind].get(key)

    def by_uid(self, uid: str) -> Stored | None:
        """The object of that uid, of whatever kind."""
        return self._by_uid.get(uid)

    def all(self, kind: ObjectKind) -> Mapping[Key, Stored]:
        """All of a kind as they are now, in no order; to be read at once."""
        return self._objects[kind]

    def everything(self) -> Iterator[Stored]:
        """All of all kinds; a copy."""
        return iter([stored for objects in self._objects.values() for stored in objects.values()])

    def put(self, kind: ObjectKind, value: Obj) -> Stored:
        """Keeps an object; one that is what it was gets no new version, and nobody hears of it."""
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
        """Takes an object away; what it was last, under the version of its end. KeyError when there is none."""
        before = self._objects[kind].pop(key)
        del self._by_uid[before.value["metadata"]["uid"]]
        self.version += 1
        last = before.at(self.version)
        self._note(kind, StoredChange(self.version, before, None, last))
        return last

    def snapshot(self, kind: ObjectKind, version: int) -> dict[Key, Stored]:
        """All of a kind as they were at a version; VersionForgotten when that is no longer known."""
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
        """The changes after a version, oldest first; VersionForgotten when some of them are no longer known."""
        if version < self._oldest[kind]:
            raise VersionForgotten(version, self._oldest[kind])
        found: list[StoredChange] = []
        for change in reversed(self._changes[kind]):
            if change.version <= version:
                break
            found.append(change)
        return found[::-1]

    def forget(self) -> None:
        """Only what is now is known from here on; watches that are open lose nothing."""
        for kind in KINDS:
            self._changes[kind].clear()
            self._oldest[kind] = self.version

    def listen(self, kind: ObjectKind, listener: Listener) -> Callable[[], None]:
        """Calls with each change of a kind from now on, until what is returned is called."""
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
