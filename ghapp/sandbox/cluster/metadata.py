"""Checks and sets the metadata of objects on writes."""

from __future__ import annotations

import re

from ghapp.sandbox.cluster.kinds import ObjectKind
from ghapp.sandbox.cluster.objects import Obj, generated_name, new_uid, timestamp
from ghapp.sandbox.cluster.status import StatusCause, bad_request, invalid

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
