"""Values as GitHub's description has them, and one field of one of them made odd."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

from hypothesis import strategies as st

from tests.sandbox.openapi import description

MISSING = object()
DATE = "2026-11-20T12:00:00Z"
LONG = "x" * 5000
OTHER_TYPES = [True, 7, -7, 0, 0.5, "no-such-member", "", [], [None], {}, {"id": None}]
HUGE = [10**30, -(10**30), 1e300, LONG, "2026-13-45T99:00:00Z", "\ud800"]

Path = tuple[str | int, ...]


class Change(NamedTuple):
    """One field of a row, and what it is instead; `MISSING`: the row lacks it."""

    path: Path
    value: Any


def sample(schema: Any, number: int, depth: int = 0) -> Any:
    """Returns a value of a schema of the description with all its fields; rows of different numbers differ."""
    if "$ref" in schema:
        schema = description()["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    for combined in ("allOf", "anyOf", "oneOf"):
        if combined in schema:
            parts = [sample(each, number, depth) for each in schema[combined]]
            return {k: v for part in parts for k, v in part.items()} if combined == "allOf" else parts[0]
    match schema.get("type", "object"):
        case "object":
            properties = schema.get("properties", {}) if depth < 3 else {}
            return {name: sample(each, number, depth + 1) for name, each in properties.items()}
        case "array":
            return [sample(schema["items"], number, depth + 1)]
        case "integer" | "number":
            return number
        case "boolean":
            return False
    if "enum" in schema:
        return schema["enum"][0]
    return DATE if schema.get("format") == "date-time" else f"text-{number}"


def paths(value: Any, depth: int = 3) -> Iterator[Path]:
    """Yields the path of each field, to that depth."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        yield (key,)
        if depth > 1:
            yield from ((key, *rest) for rest in paths(each, depth - 1))


def changes(value: Any, depth: int = 3) -> st.SearchStrategy[Change]:
    """One field in turn null, missing, of another type, an unknown member, huge, negative."""
    shallow, deep = sorted(paths(value, 1), key=str), sorted(paths(value, depth), key=str)
    odd = st.sampled_from([None, MISSING, *OTHER_TYPES, *HUGE])
    return st.builds(Change, st.sampled_from(shallow) | st.sampled_from(deep), odd)


def changed(value: Any, change: Change) -> Any:
    """Returns the value with that field changed."""
    result = copy.deepcopy(value)
    inner = result
    for key in change.path[:-1]:
        inner = inner[key]
    if change.value is MISSING:
        del inner[change.path[-1]]
    else:
        inner[change.path[-1]] = change.value
    return result
