"""The garbage collector: deletes objects whose owners were deleted, by ownerReferences.

The real one is a controller that runs moments later; here it runs as part of the write, unless a control stops it.
"""

from __future__ import annotations

from ghapp.sandbox.cluster.deletion import DeleteOptions, delete, is_done
from ghapp.sandbox.cluster.objects import Obj, Stored, copied
from ghapp.sandbox.cluster.store import Store

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


def collect(store: Store, now: float) -> None:
    """Deletes objects without an owner, and owners that wait for their dependents, until nothing changes."""
    while True:
        version = store.version
        for stored in list(store.everything()):
            if _may_concern(stored) and store.get(stored.kind, stored.key) is stored:
                _look_at(store, stored, now)
        if store.version == version:
            return


def _may_concern(stored: Stored) -> bool:
    meta = stored.value["metadata"]
    return "ownerReferences" in meta or "deletionTimestamp" in meta


def _look_at(store: Store, stored: Stored, now: float) -> None:
    meta = stored.value["metadata"]
    owners = meta.get("ownerReferences")
    if owners:
        present = [owner for owner in owners if _is_there(store, owner["uid"])]
        if not present:
            delete(store, stored, DeleteOptions(uid=meta["uid"]), now)
            return
        if len(present) < len(owners):
            _rewrite(store, stored, "ownerReferences", present)
            return
    finalizers = meta.get("finalizers") or []
    if meta.get("deletionTimestamp"):
        if ORPHAN in finalizers:
            _orphan(store, meta["uid"])
            _let_go(store, stored, ORPHAN)
        elif FOREGROUND in finalizers and not _deletes_dependents(store, meta["uid"], now):
            _let_go(store, stored, FOREGROUND)


def _deletes_dependents(store: Store, uid: str, now: float) -> bool:
    """True if owners must wait for any of their dependents."""
    waiting = False
    for dependent, owner in _dependents(store, uid):
        waiting = waiting or bool(owner.get("blockOwnerDeletion"))
        if not dependent.value["metadata"].get("deletionTimestamp"):
            delete(store, dependent, DeleteOptions(policy="Foreground"), now)
    return waiting


def _orphan(store: Store, uid: str) -> None:
    for dependent, _ in _dependents(store, uid):
        owners = dependent.value["metadata"]["ownerReferences"]
        _rewrite(store, dependent, "ownerReferences", [owner for owner in owners if owner["uid"] != uid])


def _let_go(store: Store, stored: Stored, finalizer: str) -> None:
    finalizers = [each for each in stored.value["metadata"]["finalizers"] if each != finalizer]
    _rewrite(store, stored, "finalizers", finalizers)


def _rewrite(store: Store, stored: Stored, name: str, left: list[Obj] | list[str]) -> None:
    value = copied(stored.value)
    if left:
        value["metadata"][name] = copied(left)
    else:
        del value["metadata"][name]
    if is_done(value):
        store.remove(stored.kind, stored.key)
    else:
        store.put(stored.kind, value)


def _dependents(store: Store, uid: str) -> list[tuple[Stored, Obj]]:
    return [
        (stored, owner)
        for stored in store.everything()
        for owner in stored.value["metadata"].get("ownerReferences") or ()
        if owner["uid"] == uid
    ]


def _is_there(store: Store, uid: str) -> bool:
    return store.by_uid(uid) is not None
