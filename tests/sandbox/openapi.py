"""GitHub's REST description as JSON Schema: what an answer must look like."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec
from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import best_match

DESCRIPTION = Path(__file__).parent.parent / "github" / "openapi.json"

_formats = FormatChecker(formats=())
_formats.checks("date-time", raises=ValueError)(lambda text: bool(datetime.fromisoformat(text).tzinfo))
_formats.checks("uri", raises=ValueError)(lambda text: bool(urlsplit(text).scheme))


@cache
def description() -> dict[str, Any]:
    described = msgspec.json.decode(DESCRIPTION.read_bytes(), type=dict[str, Any])
    # In this one place GitHub describes an account as a user and an enterprise at once, which is impossible; elsewhere,
    # the single installation included, it is "or".
    listed = described["paths"]["/app/installations"]["get"]["responses"]["200"]["content"]["application/json"]
    account = listed["schema"]["items"]["properties"]["account"]
    account["anyOf"] = account.pop("allOf")
    return described


def statuses(method: str, template: str) -> set[int]:
    """The statuses that the description has for an operation; KeyError for one that it does not know."""
    return {int(status) for status in description()["paths"][template][method.lower()]["responses"]}


def mistakes(method: str, template: str, answer: httpx.Response) -> list[str]:
    """The mistakes in an answer; an error not in the description must at least be a `basic-error`."""
    schema = _schema(method, template, answer.status_code)
    if schema is None:
        return [f"a body where there is none: {answer.text[:80]}"] if answer.content else []
    if not answer.headers["content-type"].startswith("application/json"):
        return [f"content-type is {answer.headers['content-type']}"]
    whole = {**schema, "components": _json_schema(description()["components"])}
    error = best_match(Draft202012Validator(whole, format_checker=_formats).iter_errors(answer.json()))
    return [] if error is None else [f"{error.json_path}: {error.message[:200]}"]


def _schema(method: str, template: str, status: int) -> dict[str, Any] | None:
    answers = description()["paths"][template][method.lower()]["responses"]
    if str(status) not in answers:
        assert status >= 400, f"{method} {template} has no {status}"
        return {"$ref": "#/components/schemas/basic-error", "required": ["message", "documentation_url", "status"]}
    described = answers[str(status)]
    if "$ref" in described:
        described = description()["components"]["responses"][described["$ref"].rpartition("/")[2]]
    if "content" not in described:
        return None
    schema: dict[str, Any] = _json_schema(described["content"]["application/json"]["schema"])
    return schema


def _json_schema(described: Any) -> Any:
    """OpenAPI 3.0 has `nullable` where JSON Schema has a type `null`."""
    if isinstance(described, list):
        return [_json_schema(item) for item in described]
    if not isinstance(described, dict):
        return described
    schema = {key: _json_schema(value) for key, value in described.items() if key != "nullable"}
    return {"anyOf": [{"type": "null"}, schema]} if described.get("nullable") is True else schema
