"""The two supported patches: JSON merge patch (RFC 7386) and JSON patch (RFC 6902)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ghapp.sandbox.cluster.status import StatusError, bad_request, unprocessable
from ghapp.sandbox.cluster.store import Obj, copied

MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
ACCEPTED = (JSON, MERGE)
MOST_OPERATIONS = 10_000
_MISSING = object()


class _Inapplicable(Exception):  # noqa: N818
    """An operation that this object does not allow."""


def applied(value: Obj, patch: Any, media_type: str) -> Obj:
    """Returns a patched copy; StatusError 400 for an invalid patch, 422 when it does not apply."""
    if media_type == MERGE:
        if not isinstance(patch, dict):
            raise bad_request("Invalid JSON Patch")
        merged = _merged(value, patch)
        return merged if isinstance(merged, dict) else {}
    if not isinstance(patch, list) or not all(isinstance(operation, dict) for operation in patch):
        raise bad_request("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    if len(patch) > MOST_OPERATIONS:
        message = f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(patch)}"
        raise StatusError(413, "RequestEntityTooLarge", message)
    changed = copied(value)
    try:
        for operation in patch:
            changed = _operated(changed, operation)
    except _Inapplicable:
        raise unprocessable() from None
    if not isinstance(changed, dict):
        raise unprocessable()
    return changed


def _merged(value: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return copied(patch)
    merged = dict(value) if isinstance(value, dict) else {}
    for key, part in patch.items():
        if part is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), part)
    return {key: copied(part) for key, part in merged.items()}


def _operated(document: Any, operation: Obj) -> Any:
    name, path = operation.get("op"), operation.get("path")
    act = _OPERATIONS.get(name) if isinstance(name, str) else None
    if act is None or not isinstance(path, str):
        raise _Inapplicable(f"Unexpected kind: {name}")
    return act(document, path, operation)


def _add(document: Any, path: str, operation: Obj) -> Any:
    return _placed(document, path, _value(operation))


def _remove(document: Any, path: str, operation: Obj) -> Any:
    del operation
    _taken(document, path)
    return document


def _replace(document: Any, path: str, operation: Obj) -> Any:
    if path == "":
        return _value(operation)
    _found(document, path)
    where, last = _parent(document, path)
    if isinstance(where, list):
        where[_index(last, len(where))] = _value(operation)
    else:
        where[last] = _value(operation)
    return document


def _test(document: Any, path: str, operation: Obj) -> Any:
    wanted = operation.get("value")
    try:
        found = _found(document, path)
    except _Inapplicable:
        # A missing value counts as null.
        if wanted is None and path:
            return document
        raise
    if not _same(found, wanted):
        raise _Inapplicable(f"testing value {path} failed")
    return document


def _move(document: Any, path: str, operation: Obj) -> Any:
    return _placed(document, path, _taken(document, _source(operation)))


def _copy(document: Any, path: str, operation: Obj) -> Any:
    return _placed(document, path, copied(_found(document, _source(operation))))


_OPERATIONS: dict[str, Callable[[Any, str, Obj], Any]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "test": _test,
    "move": _move,
    "copy": _copy,
}


def _placed(document: Any, path: str, value: Any) -> Any:
    if path == "":
        return value
    where, last = _parent(document, path)
    if isinstance(where, list):
        where.insert(len(where) if last == "-" else _index(last, len(where) + 1), value)
    else:
        where[last] = value
    return document


def _taken(document: Any, path: str) -> Any:
    value = _found(document, path)
    where, last = _parent(document, path)
    if isinstance(where, list):
        del where[_index(last, len(where))]
    else:
        del where[last]
    return value


def _found(document: Any, path: str) -> Any:
    found = document
    for step in _steps(path):
        if isinstance(found, list):
            found = found[_index(step, len(found))]
        elif isinstance(found, dict) and step in found:
            found = found[step]
        else:
            raise _Inapplicable(f"{path} does not exist")
    return found


def _parent(document: Any, path: str) -> tuple[Any, str]:
    steps = _steps(path)
    if not steps:
        raise _Inapplicable("the whole document has nothing around it")
    above = "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in steps[:-1])
    where = _found(document, above)
    if not isinstance(where, dict | list):
        raise _Inapplicable(f"{above} holds nothing")
    return where, steps[-1]


def _steps(path: str) -> list[str]:
    if path == "":
        return []
    if not path.startswith("/"):
        raise _Inapplicable(f"{path} is no path")
    return [step.replace("~1", "/").replace("~0", "~") for step in path[1:].split("/")]


def _index(step: str, below: int) -> int:
    if not (step.isascii() and step.isdigit()) or int(step) >= below:
        raise _Inapplicable(f"{step} is no place in an array")
    return int(step)


def _value(operation: Obj) -> Any:
    value = operation.get("value", _MISSING)
    if value is _MISSING:
        raise _Inapplicable("no value")
    return copied(value)


def _source(operation: Obj) -> str:
    source = operation.get("from")
    if not isinstance(source, str):
        raise _Inapplicable("no from")
    return source


def _same(one: Any, other: Any) -> bool:
    """Compares as JSON does: true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(part, other[key]) for key, part in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)
