"""JSON Schemas of the API's documents and request bodies, generated from the types that are encoded and decoded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args, get_type_hints, is_typeddict

import msgspec

from ghapp.report.documents import Timestamp
from ghapp.web.operation import SCHEMAS, Operation, Schema


def components(operations: Iterable[Operation]) -> Schema:
    """Returns the schemas of what these operations send and take by name, those of nested types included."""
    used = {shape.__name__: shape for operation in operations for shape in operation.shapes}
    _, found = msgspec.json.schema_components(used.values(), ref_template=SCHEMAS + "{name}")
    shapes = {each.__name__: each for shape in used.values() for each in _with_nested(shape)}
    return {name: _completed(shapes[name], found[name]) if name in shapes else found[name] for name in sorted(found)}


def _with_nested(shape: type) -> list[type]:
    """Returns a type, and the types with fields that its fields refer to."""
    found = [shape]
    for hint in get_type_hints(shape).values():
        for inner in (hint, *get_args(hint)):
            if is_typeddict(inner) or (isinstance(inner, type) and issubclass(inner, msgspec.Struct)):
                found += _with_nested(inner)
    return found


def _completed(shape: type, schema: Schema) -> Schema:
    """Adds what msgspec does not know: fields in the order of the type, `date-time`, and that there are no others."""
    properties = {}
    for name, hint in get_type_hints(shape, include_extras=True).items():
        properties[name] = schema["properties"][name]
        if hint == Timestamp or Timestamp in get_args(hint):
            properties[name] = _dated(properties[name])
    return schema | {"properties": properties, "additionalProperties": False}


def _dated(schema: Schema) -> Schema:
    if "anyOf" in schema:
        return schema | {"anyOf": [_dated(each) for each in schema["anyOf"]]}
    return schema | {"format": "date-time"} if schema["type"] == "string" else schema
