"""The OpenAPI document: JSON at `/v1/openapi.json`, HTML at `/docs`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import get_args, get_type_hints, is_typeddict

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ghapp.deaths import api as deaths
from ghapp.deliveries import api as webhook
from ghapp.gate import api as gate
from ghapp.incidents import api as incidents
from ghapp.notifications import api as events
from ghapp.pods import api as claims
from ghapp.remediation import api as remediation
from ghapp.report.documents import Timestamp
from ghapp.runners import api as health
from ghapp.versions import api as versions
from ghapp.web.api import audit_log, doctor, overview, status
from ghapp.web.operation import SCHEMAS, Operation, Schema
from ghapp.web.pages import layout
from ghapp.web.pages.docs import page
from ghapp.workflow_jobs import api as jobs


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


OPERATIONS = (
    *health.OPERATIONS,
    *jobs.OPERATIONS,
    *overview.OPERATIONS,
    *events.OPERATIONS,
    *claims.OPERATIONS,
    *deaths.OPERATIONS,
    *versions.OPERATIONS,
    *incidents.OPERATIONS,
    *remediation.OPERATIONS,
    *audit_log.OPERATIONS,
    *gate.OPERATIONS,
    *doctor.OPERATIONS,
    *webhook.OPERATIONS,
    *status.OPERATIONS,
)
"""All operations, in reading order."""


def routes(address: str) -> list[Route]:
    """Returns both routes. They need no token, because the document has no data of any fleet.

    Args:
        address: of this server, for examples.
    """

    async def docs(_: Request) -> Response:
        return Response(_page(address), media_type="text/html", headers=layout.headers())

    return [Route("/v1/openapi.json", _json, methods=["GET"]), Route("/docs", docs, methods=["GET"])]


@cache
def description() -> Schema:
    """Returns the OpenAPI 3.1 document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "ghapp",
            "version": "1",
            "description": "The state of each self-hosted runner, the evidence for it, and whether to replace the "
            "runner. Times are RFC 3339 in UTC. Create a token with `ghapp token create`; a token is bound to orgs and "
            "scopes, and any other org is 403. Runners of a repository are under `/v1/orgs/acme~api/…`, those of an "
            "enterprise under `/v1/orgs/enterprises~acme-corp/…`: `~` stands for the slash of `acme/api`, which "
            "documents have as their `org`. A token of `acme` does not open `acme/api`. `…/runners/{name}/alive` needs "
            "no token, so that runners' pods need no secret.",
        },
        "paths": _paths(),
        "components": {
            "schemas": components(OPERATIONS),
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _paths() -> Schema:
    paths: Schema = {}
    for each in OPERATIONS:
        paths.setdefault(each.path, {})[each.method.lower()] = each.described()
    return paths


@cache
def _encoded() -> bytes:
    return msgspec.json.encode(description())


@cache
def _page(address: str) -> str:
    return page(description(), address)


async def _json(_: Request) -> Response:
    return Response(_encoded(), media_type="application/json")
