"""Rules of POST and PATCH.

An update names the version from which it was made, and one from an older version is refused. The main resource does not
change `status` where that is a subresource, and the subresource changes nothing else.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ghapp.sandbox.cluster import metadata
from ghapp.sandbox.cluster.deletion import is_done
from ghapp.sandbox.cluster.kinds import NAMESPACES, PODS, ObjectKind
from ghapp.sandbox.cluster.objects import Key, Obj, Stored, copied
from ghapp.sandbox.cluster.patch import applied
from ghapp.sandbox.cluster.status import (
    StatusCause,
    StatusError,
    already_exists,
    bad_request,
    forbidden,
    invalid,
    not_found,
    stale,
)
from ghapp.sandbox.cluster.store import Store

_CHANGEABLE = ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds")
_CONTAINERS = ("containers", "initContainers")


class Written(NamedTuple):
    """The result of an update; `removed` when it deleted the object."""

    stored: Stored
    removed: bool = False


class Write(NamedTuple):
    """The target and the time of an update. A `dry_run` changes nothing."""

    kind: ObjectKind
    key: Key
    now: float
    subresource: str = ""
    dry_run: bool = False


def create(store: Store, where: Write, body: Any) -> Stored:
    """Creates an object with its name from the body, or a generated one. StatusError 400, 404, 409 or 422."""
    kind = where.kind
    value = metadata.check_shape(kind, body, where.key.namespace)
    meta = value["metadata"]
    if meta.get("resourceVersion"):
        raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
    if kind.namespaced:
        _check_namespace(store, kind, where.key.namespace, meta.get("name", ""))
    meta.pop("resourceVersion", None)
    metadata.stamp(kind, value, where.now)
    metadata.check(kind, value)
    if kind.has_status:
        value.pop("status", None)
    if kind is PODS:
        _check_pod(value)
        value["status"] = {"phase": "Pending", "qosClass": "BestEffort"}
    if kind is NAMESPACES:
        value["status"] = {"phase": "Active"}
    key = Key(where.key.namespace, meta["name"])
    if store.get(kind, key) is not None:
        raise already_exists(kind, key.name)
    return Stored(kind, value, 0) if where.dry_run else store.put(kind, value)


def patch(store: Store, where: Write, body: Any, media_type: str) -> Written:
    """A PATCH of that type; StatusError 400, 404, 409 or 422."""
    before = store.get(where.kind, where.key)
    if before is None:
        raise not_found(where.kind, where.key.name)
    value = applied(before.value, body, media_type)
    if not isinstance(value.get("metadata"), dict):
        value["metadata"] = {}
    value = metadata.check_shape(where.kind, value, where.key.namespace)
    _check_name(where, value)
    return _update(store, where, before, value)


def _update(store: Store, where: Write, before: Stored, value: Obj) -> Written:
    kind, old = where.kind, before.value
    version = value["metadata"].get("resourceVersion")
    if version and version != old["metadata"]["resourceVersion"]:
        raise stale(kind, where.key.name)
    metadata.check_update(kind, old, value)
    value = _of_status(kind, old, value) if where.subresource == "status" else _of_main(kind, old, value)
    metadata.check(kind, value)
    if where.dry_run:
        return Written(Stored(kind, value, before.version))
    if is_done(value):
        # The last finalizer was removed: the object is deleted as it was, and the client sees what it wrote.
        store.remove(kind, where.key)
        return Written(Stored(kind, value, before.version), removed=True)
    return Written(store.put(kind, value))


def _of_main(kind: ObjectKind, old: Obj, value: Obj) -> Obj:
    """Returns everything but the status and the metadata that the server owns."""
    value = _keep_metadata(old, value)
    if kind.has_status:
        value.pop("status", None)
        if "status" in old:
            value["status"] = copied(old["status"])
    if kind is PODS:
        _check_pod_update(old, value)
    if kind.counts_generations and _content(kind, value) != _content(kind, old):
        value["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    return value


def _of_status(kind: ObjectKind, old: Obj, value: Obj) -> Obj:
    """Returns the status alone; for a built-in kind metadata too, without its owners."""
    kept = copied(old)
    if not kind.custom:
        kept = _keep_metadata(old, {**kept, "metadata": value["metadata"]})
        kept["metadata"].pop("ownerReferences", None)
        if "ownerReferences" in old["metadata"]:
            kept["metadata"]["ownerReferences"] = copied(old["metadata"]["ownerReferences"])
    kept.pop("status", None)
    if "status" in value:
        kept["status"] = copied(value["status"])
    return kept


def _keep_metadata(old: Obj, value: Obj) -> Obj:
    meta = {key: copied(part) for key, part in value["metadata"].items()}
    for name in (*metadata.KEPT, "generation", "generateName"):
        meta.pop(name, None)
        if name in old["metadata"]:
            meta[name] = old["metadata"][name]
    # An empty list or map counts as missing, as with Go's omitempty.
    meta = {key: part for key, part in meta.items() if part not in ({}, [], None)}
    return {key: (meta if key == "metadata" else copied(part)) for key, part in value.items()}


def _content(kind: ObjectKind, value: Obj) -> Obj:
    """Returns the part of an object whose changes a generation counts."""
    if kind.custom:
        return {key: part for key, part in value.items() if key != "metadata"}
    return {"spec": value.get("spec")}


def _check_name(where: Write, value: Obj) -> None:
    name = value["metadata"].get("name")
    if not name:
        why = f"the name of the object ({where.key.name} based on URL) was undeterminable: name must be provided"
        raise bad_request(why)
    if name != where.key.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({where.key.name})")


def _check_namespace(store: Store, kind: ObjectKind, namespace: str, name: str) -> None:
    stored = store.get(NAMESPACES, Key("", namespace))
    if stored is None:
        raise not_found(NAMESPACES, namespace)
    if stored.value.get("status", {}).get("phase") == "Terminating":
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        raise forbidden(kind.group, kind.plural, name, why)


def _check_pod(value: Obj) -> None:
    containers = (value.get("spec") or {}).get("containers")
    if not containers:
        causes = [StatusCause("FieldValueRequired", "Required value", "spec.containers")]
        raise invalid(PODS, value["metadata"]["name"], causes)


def _check_pod_update(old: Obj, value: Obj) -> None:
    if _fixed(old.get("spec") or {}) != _fixed(value.get("spec") or {}):
        why = (
            "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
            "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing"
            " tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
        )
        raise invalid(PODS, value["metadata"]["name"], [StatusCause("FieldValueForbidden", why, "spec")])


def _fixed(spec: Obj) -> Obj:
    fixed = {key: part for key, part in spec.items() if key not in (*_CHANGEABLE, *_CONTAINERS)}
    for name in _CONTAINERS:
        fixed[name] = [{k: v for k, v in one.items() if k != "image"} for one in spec.get(name) or []]
    return fixed
