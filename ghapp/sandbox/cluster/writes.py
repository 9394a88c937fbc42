"""Rules of POST and PATCH, and the metadata that writes check and set.

An update names the version from which it was made, and one from an older version is refused. The main resource does not
change `status` where that is a subresource, and the subresource changes nothing else.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from ghapp.sandbox.cluster.deletion import is_done
from ghapp.sandbox.cluster.kinds import NAMESPACES, PODS, ObjectKind
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
from ghapp.sandbox.cluster.store import Key, Obj, Store, Stored, copied, generated_name, new_uid, timestamp

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
NAME_LENGTH = 253
LABEL_LENGTH = 63

_NAME_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'example.com', regex used for validation is"
    " '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is"
    " '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)

KEPT = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")
"""Fields that an update takes from the stored object, whatever it contains; a wrong value of the first is refused."""

_CHANGEABLE = ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds")
_CONTAINERS = ("containers", "initContainers")


def check_shape(kind: ObjectKind, value: object, namespace: str) -> Obj:
    """Returns an object of this kind and for this namespace; StatusError (400) for anything else."""
    if not isinstance(value, dict) or not isinstance(value.get("metadata", {}), dict):
        raise bad_request(f"{kind.kind} in version {kind.version!r} cannot be handled as a {kind.kind}: not an object")
    found = value.get("apiVersion", ""), value.get("kind", "")
    if found[0] not in ("", kind.api_version):
        why = f"the API version in the data ({found[0]}) does not match the expected API version ({kind.api_version})"
        raise bad_request(why)
    if found[1] not in ("", kind.kind):
        why = f"the kind in the data ({found[1]}) does not match the expected kind ({kind.kind})"
        raise bad_request(why)
    if kind.custom and not all(found):
        raise bad_request("Object 'Kind' is missing in the data")
    meta = value.setdefault("metadata", {})
    if kind.namespaced:
        if meta.get("namespace") and meta["namespace"] != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        meta["namespace"] = namespace
    # The order in which Go writes the fields, for readers of the answers.
    rest = {name: part for name, part in value.items() if name not in ("kind", "apiVersion")}
    return {"kind": kind.kind, "apiVersion": kind.api_version, **rest}


def stamp(kind: ObjectKind, value: Obj, now: float) -> None:
    """Sets the metadata of a new object."""
    meta = value["metadata"]
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"):
        meta.pop(name, None)
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = generated_name(meta["generateName"])
    meta["uid"] = new_uid()
    meta["creationTimestamp"] = timestamp(now)
    if kind.counts_generations:
        meta["generation"] = 1


def check(kind: ObjectKind, value: Obj) -> None:
    """Checks the metadata; StatusError (422) when it breaks rules."""
    meta = value["metadata"]
    name = meta.get("name") or ""
    causes: list[StatusCause] = []
    if not name:
        causes.append(
            StatusCause("FieldValueRequired", "Required value: name or generateName is required", "metadata.name")
        )
    elif not isinstance(name, str) or len(name) > NAME_LENGTH or not _NAME.fullmatch(name):
        causes.append(StatusCause("FieldValueInvalid", f'Invalid value: "{name}": {_NAME_RULE}', "metadata.name"))
    causes += _labels(meta.get("labels") or {})
    for at, owner in enumerate(meta.get("ownerReferences") or ()):
        for part in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(part):
                where = f"metadata.ownerReferences[{at}].{part}"
                causes.append(StatusCause("FieldValueInvalid", 'Invalid value: "": must not be empty', where))
    if causes:
        raise invalid(kind, name, causes)


def check_update(kind: ObjectKind, before: Obj, value: Obj) -> None:
    """StatusError (422) when an update changes immutable fields, or adds finalizers during a deletion."""
    old, new = before["metadata"], value["metadata"]
    causes = [
        StatusCause("FieldValueInvalid", f'Invalid value: "{new.get(name)}": field is immutable', f"metadata.{name}")
        for name in ("name", "namespace", "uid")
        if new.get(name) and new.get(name) != old.get(name)
    ]
    if old.get("deletionTimestamp"):
        added = [found for found in new.get("finalizers") or () if found not in (old.get("finalizers") or ())]
        if added:
            listed = ", ".join(f'"{found}"' for found in added)
            why = (
                "Forbidden: no new finalizers can be added if the object is being deleted,"
                f" found new finalizers []string{{{listed}}}"
            )
            causes.append(StatusCause("FieldValueForbidden", why, "metadata.finalizers"))
    if causes:
        raise invalid(kind, old["name"], causes)


def _labels(labels: object) -> list[StatusCause]:
    if not isinstance(labels, dict):
        raise bad_request(
            "json: cannot unmarshal into Go struct field ObjectMeta.metadata.labels of type map[string]string"
        )
    causes: list[StatusCause] = []
    for key, value in labels.items():
        if not isinstance(value, str):
            raise bad_request(
                f"json: cannot unmarshal {_go_type(value)} into Go struct field"
                " ObjectMeta.metadata.labels of type string"
            )
        if not _LABEL_KEY.fullmatch(key) or len(key.rpartition("/")[2]) > LABEL_LENGTH:
            causes.append(StatusCause("FieldValueInvalid", f'Invalid value: "{key}": not a label', "metadata.labels"))
        if not _LABEL_VALUE.fullmatch(value):
            causes.append(
                StatusCause("FieldValueInvalid", f'Invalid value: "{value}": {_LABEL_RULE}', "metadata.labels")
            )
        elif len(value) > LABEL_LENGTH:
            why = f'Invalid value: "{value}": must be no more than {LABEL_LENGTH} bytes'
            causes.append(StatusCause("FieldValueInvalid", why, "metadata.labels"))
    return causes


def _go_type(value: object) -> str:
    if isinstance(value, bool):
        return "bool"
    return "number" if isinstance(value, int | float) else "object" if isinstance(value, dict) else "array"


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
    value = check_shape(kind, body, where.key.namespace)
    meta = value["metadata"]
    if meta.get("resourceVersion"):
        raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
    if kind.namespaced:
        _check_namespace(store, kind, where.key.namespace, meta.get("name", ""))
    meta.pop("resourceVersion", None)
    stamp(kind, value, where.now)
    check(kind, value)
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
    value = check_shape(where.kind, value, where.key.namespace)
    _check_name(where, value)
    return _update(store, where, before, value)


def _update(store: Store, where: Write, before: Stored, value: Obj) -> Written:
    kind, old = where.kind, before.value
    version = value["metadata"].get("resourceVersion")
    if version and version != old["metadata"]["resourceVersion"]:
        raise stale(kind, where.key.name)
    check_update(kind, old, value)
    value = _of_status(kind, old, value) if where.subresource == "status" else _of_main(kind, old, value)
    check(kind, value)
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
    for name in (*KEPT, "generation", "generateName"):
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
