"""JSON Schemas of the API's documents and request bodies, generated from the types that are encoded and decoded."""

from __future__ import annotations

from functools import cache
from typing import Any, get_args, get_type_hints, is_typeddict

import msgspec

from ghapp.report.documents import DeathDocument, HealthDocument, Timestamp
from ghapp.report.history import HistoryDocument
from ghapp.report.jobs import JobDocument
from ghapp.report.overview import OverviewDocument
from ghapp.web.api.claims import ClaimBody
from ghapp.web.api.deaths import DeathsPage
from ghapp.web.api.demand import DemandDocument
from ghapp.web.api.doctor import DoctorDocument
from ghapp.web.api.gate import DeployBody, GateAnswer
from ghapp.web.api.health import Batch, BatchResult, RunnersPage
from ghapp.web.api.jobs import JobsPage
from ghapp.web.api.overview import DeadDeliveries, OrgsDocument
from ghapp.web.api.remediation import PauseBody, ResumeBody, ResumeResult, SweepOutcome, SweepRequested
from ghapp.web.api.status import LiveDocument, ReadyDocument
from ghapp.web.problems import Problem

Schema = dict[str, Any]

DOCUMENTS = (
    HealthDocument,
    BatchResult,
    RunnersPage,
    DemandDocument,
    JobDocument,
    JobsPage,
    DeathDocument,
    DeathsPage,
    GateAnswer,
    OrgsDocument,
    OverviewDocument,
    DeadDeliveries,
    DoctorDocument,
    HistoryDocument,
    ResumeResult,
    SweepRequested,
    SweepOutcome,
    LiveDocument,
    ReadyDocument,
    Problem,
)
"""What the API sends."""

BODIES = (Batch, ClaimBody, PauseBody, ResumeBody, DeployBody)
"""What the API accepts. These types forbid unknown fields."""

_PLACE = "#/components/schemas/"


def ref(shape: type) -> Schema:
    """Returns a reference to the schema of a type in `DOCUMENTS` or `BODIES`, or of an enumeration in one of them."""
    return {"$ref": _PLACE + shape.__name__}


@cache
def components() -> Schema:
    """Returns the schemas by name, those of nested types included."""
    _, found = msgspec.json.schema_components((*DOCUMENTS, *BODIES), ref_template=_PLACE + "{name}")
    shapes = {each.__name__: each for shape in (*DOCUMENTS, *BODIES) for each in _with_nested(shape)}
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
