"""What the description says of one operation: its parameters, its answers, its problems."""

from __future__ import annotations

from ghapp.web.openapi.schemas import NONEMPTY, POD, RUNNER_ID, Schema, ref

PATH = {"runner_id": RUNNER_ID, "pod": POD}
"""What parameters in a path look like, where any text will not do."""


def call(
    summary: str,
    scope: str | None,
    answers: Schema,
    in_path: list[str] | None = None,
    parameters: list[Schema] | None = None,
    body: Schema | None = None,
) -> Schema:
    """An operation on an org; with a scope it needs a token."""
    named: list[Schema] = [
        {"name": name, "in": "path", "required": True, "schema": PATH.get(name, NONEMPTY)}
        for name in ["org", *(in_path or [])]
    ]
    described: Schema = {"summary": summary, "parameters": named + (parameters or []), "responses": answers}
    if scope is not None:
        described |= {"security": [{"bearer": []}], "description": f"Scope `{scope}`."}
        described["responses"] = answers | problems(400, 401, 403, 429, 503)
    if body is not None:
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return described


def unguarded(summary: str, answers: Schema) -> Schema:
    """An operation that needs no token."""
    return {"summary": summary, "responses": answers}


def answer(said: str, schema: Schema, status: int = 200) -> Schema:
    """A JSON answer."""
    return {str(status): {"description": said, "content": {"application/json": {"schema": schema}}}}


def empty(status: int, said: str) -> Schema:
    """An answer without a body."""
    return {str(status): {"description": said}}


PROBLEMS = {
    400: "The question is not well-formed.",
    401: "No token, or not a good one.",
    403: "This token does not open that org for that scope.",
    404: "The App is not installed there.",
    409: "It holds already; nothing was recorded.",
    413: "Too large.",
    429: "Too many unknown tokens from this address.",
    503: "Redis is away; ask again after `Retry-After`.",
    507: "10,000 pods are claimed already; nothing was recorded.",
}


def problems(*statuses: int, because: str = "") -> Schema:
    """What may be wrong, as problem documents; `because` in other words than usual."""
    content = {"application/problem+json": {"schema": ref("Problem")}}
    return {str(status): {"description": because or PROBLEMS[status], "content": content} for status in statuses}


def query(name: str, schema: Schema, *, required: bool = False) -> Schema:
    """A parameter of the query."""
    return {"name": name, "in": "query", "required": required, "schema": schema}


def header(name: str, *, required: bool = False) -> Schema:
    """A header."""
    return {"name": name, "in": "header", "required": required, "schema": {"type": "string"}}
