"""Building blocks of one operation of the OpenAPI document: parameters, answers, problems."""

from __future__ import annotations

from ghapp.web.api.claims import LONGEST_NAME, POD_NAME
from ghapp.web.api.health import MOST_DIGITS
from ghapp.web.openapi.schemas import Schema, ref
from ghapp.web.problems import Problem

TEXT: Schema = {"type": "string"}
NONEMPTY: Schema = {"type": "string", "minLength": 1}
RUNNER_ID: Schema = {"type": "integer", "minimum": 1, "maximum": 10**MOST_DIGITS - 1}
POD: Schema = {"type": "string", "pattern": f"^{POD_NAME.pattern}$", "maxLength": LONGEST_NAME}

PATH = {"runner_id": RUNNER_ID, "job_id": RUNNER_ID, "pod": POD}
"""Schemas of path parameters that do not accept any text."""


def call(
    summary: str,
    scope: str | None,
    answers: Schema,
    in_path: list[str] | None = None,
    parameters: list[Schema] | None = None,
    body: type | None = None,
) -> Schema:
    """Returns an operation on an org; with a scope it needs a token."""
    named: list[Schema] = [
        {"name": name, "in": "path", "required": True, "schema": PATH.get(name, NONEMPTY)}
        for name in ["org", *(in_path or [])]
    ]
    described: Schema = {"summary": summary, "parameters": named + (parameters or []), "responses": answers}
    if scope is not None:
        described |= {"security": [{"bearer": []}], "description": f"Scope `{scope}`."}
        described["responses"] = answers | problems(400, 401, 403, 503)
    if body is not None:
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": ref(body)}}}
    return described


def unguarded(summary: str, answers: Schema) -> Schema:
    """Returns an operation that needs no token."""
    return {"summary": summary, "responses": answers}


def answer(description: str, document: type, status: int = 200) -> Schema:
    """Returns an answer with a JSON document."""
    return {str(status): {"description": description, "content": {"application/json": {"schema": ref(document)}}}}


def empty(status: int, description: str) -> Schema:
    """Returns an answer without a body."""
    return {str(status): {"description": description}}


PROBLEMS = {
    400: "Invalid request.",
    401: "The token is missing or invalid.",
    403: "The token lacks this org or this scope.",
    404: "The App is not installed there.",
    409: "Already in effect; nothing was recorded.",
    413: "The body is too large.",
    429: "Too many at once; try again after `Retry-After`.",
    503: "Redis is unavailable; try again after `Retry-After`.",
    507: "10,000 pods are claimed already; nothing was recorded.",
}


def problems(*statuses: int, because: str = "") -> Schema:
    """Returns problem documents by status; `because` replaces the usual description."""
    content = {"application/problem+json": {"schema": ref(Problem)}}
    return {str(status): {"description": because or PROBLEMS[status], "content": content} for status in statuses}


def query(name: str, schema: Schema, *, required: bool = False) -> Schema:
    """Returns a query parameter."""
    return {"name": name, "in": "query", "required": required, "schema": schema}


def header(name: str, *, required: bool = False) -> Schema:
    """Returns a header parameter."""
    return {"name": name, "in": "header", "required": required, "schema": TEXT}
