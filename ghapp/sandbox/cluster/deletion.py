"""What a DELETE does: at once, after the finalizers, or after the node; and the garbage collector.

Preconditions are checked first. An object with finalizers, and a pod that a node runs, is marked by
`deletionTimestamp` and stays; a pod's is the time at which its grace period ends, so it may be in the future.

The garbage collector deletes objects whose owners were deleted, by ownerReferences. The real one is a controller that
runs moments later; here it runs as part of the write, unless a control stops it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from ghapp.sandbox.cluster.kinds import PODS
from ghapp.sandbox.cluster.status import StatusCause, bad_request, conflict, invalid_as
from ghapp.sandbox.cluster.store import Obj, Store, Stored, copied, epoch_of, timestamp, value_at

DEFAULT_GRACE_SECONDS = 30
OVER = ("Failed", "Succeeded")
FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
POLICIES = {"Background": None, "Foreground": FOREGROUND, "Orphan": ORPHAN}
"""The finalizer that each policy adds."""


class DeleteOptions(NamedTuple):
    """The options of a DELETE; None is what it does not specify."""

    uid: str | None = None
    version: str | None = None
    grace_seconds: int | None = None
    policy: str | None = None
    dry_run: bool = False


class DeletionOutcome(NamedTuple):
    """The result: `is_deleted`, or marked and still stored."""

    stored: Stored
    is_deleted: bool


def read_options(body: bytes, query: dict[str, str]) -> DeleteOptions:
    """Reads them from the body or, without one, from the query; StatusError for invalid options."""
    options: Any = {}
    if body.strip():
        try:
            options = msgspec.json.decode(body)
        except msgspec.DecodeError as error:
            raise bad_request(f"couldn't get version/kind; json parse error: {error}") from None
        if not isinstance(options, dict) or options.get("kind", "DeleteOptions") != "DeleteOptions":
            raise bad_request("invalid object, expected DeleteOptions")
    else:
        if "gracePeriodSeconds" in query:
            options["gracePeriodSeconds"] = _whole(query["gracePeriodSeconds"])
        if "propagationPolicy" in query:
            options["propagationPolicy"] = query["propagationPolicy"]
        if "dryRun" in query:
            options["dryRun"] = [query["dryRun"]]
    policy = options.get("propagationPolicy")
    if policy is not None and policy not in POLICIES:
        why = f'Unsupported value: "{policy}": supported values: "Foreground", "Background", "Orphan", "nil"'
        causes = [StatusCause("FieldValueNotSupported", why, "propagationPolicy")]
        raise invalid_as("DeleteOptions", "meta.k8s.io", "", causes)
    grace = options.get("gracePeriodSeconds")
    if grace is not None and (isinstance(grace, bool) or not isinstance(grace, int)):
        raise bad_request("json: cannot unmarshal into Go struct field DeleteOptions.gracePeriodSeconds of type int64")
    wanted = options.get("preconditions") or {}
    return DeleteOptions(
        wanted.get("uid"),
        wanted.get("resourceVersion"),
        # The real server replaces a negative number by one second.
        1 if grace is not None and grace < 0 else grace,
        policy,
        bool(options.get("dryRun")),
    )


def delete(store: Store, stored: Stored, wanted: DeleteOptions, now: float) -> DeletionOutcome:
    """Deletes an object, or marks it; StatusError (409) when a precondition does not hold."""
    _check_preconditions(stored, wanted)
    value = copied(stored.value)
    meta = value["metadata"]
    going = meta.get("deletionTimestamp")
    if stored.kind.graceful and going and meta.get("deletionGracePeriodSeconds"):
        if wanted.grace_seconds is None or wanted.grace_seconds >= meta["deletionGracePeriodSeconds"]:
            return DeletionOutcome(stored, is_deleted=False)
        asked_at = epoch_of(going) - meta["deletionGracePeriodSeconds"]
        _mark(value, asked_at, wanted.grace_seconds)
    elif stored.kind.graceful and not going:
        _mark(value, now, _grace(stored, wanted))
    if wanted.policy is not None:
        _set_policy(meta, wanted.policy)
    if meta.get("finalizers") and not meta.get("deletionTimestamp"):
        _mark(value, now, 0)
    if wanted.dry_run:
        return DeletionOutcome(Stored(stored.kind, value, stored.version), is_deleted=not _stays(value))
    if _stays(value):
        return DeletionOutcome(store.put(stored.kind, value), is_deleted=False)
    if stored.kind.graceful:
        # An object that supports graceful deletion is marked even when nothing waits for it: a watch sees that first.
        store.put(stored.kind, value)
    return DeletionOutcome(store.remove(stored.kind, stored.key), is_deleted=True)


def is_done(value: Obj) -> bool:
    """True if a marked object has nothing left to wait for, as after its last finalizer was removed."""
    return bool(value["metadata"].get("deletionTimestamp")) and not _stays(value)


def _stays(value: Obj) -> bool:
    meta = value["metadata"]
    return bool(meta.get("finalizers")) or bool(meta.get("deletionGracePeriodSeconds"))


def _set_policy(meta: Obj, policy: str) -> None:
    """Sets the finalizer of the policy, and removes that of another."""
    finalizers = [each for each in meta.get("finalizers") or () if each not in POLICIES.values()]
    if (needed := POLICIES[policy]) is not None:
        finalizers.append(needed)
    if finalizers:
        meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)


def _mark(value: Obj, asked_at: float, grace: int) -> None:
    meta = value["metadata"]
    if not meta.get("deletionTimestamp") and "generation" in meta:
        meta["generation"] += 1
    meta["deletionTimestamp"] = timestamp(asked_at + grace)
    meta["deletionGracePeriodSeconds"] = grace


def _grace(stored: Stored, wanted: DeleteOptions) -> int:
    """Returns a pod's grace period: 0 when no node runs it, or it has ended."""
    if stored.kind is not PODS or not value_at(stored.value, ("spec", "nodeName")):
        return 0
    if value_at(stored.value, ("status", "phase")) in OVER:
        return 0
    if wanted.grace_seconds is not None:
        return wanted.grace_seconds
    configured = value_at(stored.value, ("spec", "terminationGracePeriodSeconds"))
    return DEFAULT_GRACE_SECONDS if configured is None else int(configured)


def _check_preconditions(stored: Stored, wanted: DeleteOptions) -> None:
    meta = stored.value["metadata"]
    if wanted.uid is not None and wanted.uid != meta["uid"]:
        why = (
            f"the UID in the precondition ({wanted.uid}) does not match the UID in record ({meta['uid']})."
            " The object might have been deleted and then recreated"
        )
        raise conflict(stored.kind, meta["name"], why, by_kind=True)
    if wanted.version is not None and wanted.version != meta["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({wanted.version}) does not match the ResourceVersion in record"
            f" ({meta['resourceVersion']}). The object might have been modified"
        )
        raise conflict(stored.kind, meta["name"], why, by_kind=True)


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def collect(store: Store, now: float) -> None:
    """Deletes objects without an owner, and owners that wait for their dependents, until nothing changes."""
    while True:
        version = store.version
        for stored in list(store.everything()):
            if _may_concern(stored) and store.get(stored.kind, stored.key) is stored:
                _collect_one(store, stored, now)
        if store.version == version:
            return


def _may_concern(stored: Stored) -> bool:
    meta = stored.value["metadata"]
    return "ownerReferences" in meta or "deletionTimestamp" in meta


def _collect_one(store: Store, stored: Stored, now: float) -> None:
    meta = stored.value["metadata"]
    owners = meta.get("ownerReferences")
    if owners:
        present = [owner for owner in owners if store.by_uid(owner["uid"]) is not None]
        if not present:
            delete(store, stored, DeleteOptions(uid=meta["uid"]), now)
            return
        if len(present) < len(owners):
            rewrite_metadata(store, stored, "ownerReferences", present)
            return
    finalizers = meta.get("finalizers") or []
    if meta.get("deletionTimestamp"):
        if ORPHAN in finalizers:
            _orphan(store, meta["uid"])
            _remove_finalizer(store, stored, ORPHAN)
        elif FOREGROUND in finalizers and not _deletes_dependents(store, meta["uid"], now):
            _remove_finalizer(store, stored, FOREGROUND)


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
        rewrite_metadata(store, dependent, "ownerReferences", [owner for owner in owners if owner["uid"] != uid])


def _remove_finalizer(store: Store, stored: Stored, finalizer: str) -> None:
    finalizers = [each for each in stored.value["metadata"]["finalizers"] if each != finalizer]
    rewrite_metadata(store, stored, "finalizers", finalizers)


def rewrite_metadata(store: Store, stored: Stored, name: str, left: list[Obj] | list[str]) -> None:
    """Leaves these owners or finalizers; an object that waited for its last finalizer is deleted then."""
    value = copied(stored.value)
    if left:
        value["metadata"][name] = copied(left)
    else:
        value["metadata"].pop(name, None)
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
