"""Renders the OpenAPI document as one static page, without scripts or external resources."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from ghapp.web.pages.layout import render

LINKED = re.compile(r"`([^`]+)`|\[(\w+)\]")
"""Code, and the name of a schema, in the texts of the OpenAPI document."""

ENVIRONMENT = "export GHAPP={} TOKEN=$(ghapp token create --org acme --scope read)"
"""The shell variables that the curl examples use."""

EXAMPLES = {
    "ids": "[4242]",
    "names": "[]",
    "pool": '"linux-4vcpu"',
    "why": '"network maintenance"',
    "for_seconds": "7200",
    "ttl_seconds": "3600",
    "runner_name": '"linux-4vcpu-x7k2p"',
    "job_id": "1234567",
    "role": '"inactive"',
    "deployed_at": '"2026-11-20T12:00:00Z"',
    "ref": '"v42"',
    "provision": '"2,0,1"',
    "provision_error": '""',
}
"""Values of the fields of request bodies, as JSON."""

Rows = list[tuple[str, str]]


class ShownOperation(NamedTuple):
    """One operation as the page shows it. `curl` is empty for `/webhook`, which only GitHub calls."""

    name: str
    anchor: str
    summary: str
    description: str
    curl: str
    parameters: Rows
    answers: Rows


class ShownSchema(NamedTuple):
    """One schema as the page shows it. `shape` describes a schema without fields."""

    name: str
    description: str
    fields: Rows
    shape: str


def page(description: dict[str, Any], address: str) -> str:
    """Returns the page of an OpenAPI document; `address`: of the server that answers it."""
    info, schemas = description["info"], description["components"]["schemas"]
    operations = [
        _operation(method.upper(), path, call, schemas)
        for path, methods in description["paths"].items()
        for method, call in methods.items()
    ]
    return render(
        "docs.html",
        version=info["version"],
        about=info["description"],
        environment=ENVIRONMENT.format(address),
        operations=operations,
        schemas=[_schema(name, schema) for name, schema in schemas.items()],
        pieces=pieces,
    )


def pieces(text: str) -> Iterator[tuple[str, str]]:
    """Yields the parts of a text as (`text`, `code` or `schema`, part)."""
    at = 0
    for found in LINKED.finditer(text):
        yield "text", text[at : found.start()]
        code, schema = found.groups()
        yield ("code", code) if code else ("schema", schema)
        at = found.end()
    yield "text", text[at:]


def _operation(method: str, path: str, call: dict[str, Any], schemas: dict[str, Any]) -> ShownOperation:
    parameters = [
        (each["name"], f"{each['in']}, {described(each['schema'])}")
        for each in call.get("parameters", [])
        if each["name"] != "org"
    ]
    body = call.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if body is not None:
        parameters.append(("body", described(body)))
    example = None if body is None or "$ref" not in body else _example(schemas[body["$ref"].rpartition("/")[2]])
    name = f"{method} {path}"
    return ShownOperation(
        name,
        re.sub(r"\W+", "-", name).strip("-"),
        call["summary"],
        call.get("description", "No token."),
        _curl(method, path, example, with_token="security" in call),
        parameters,
        [(status, _answer(answer)) for status, answer in call["responses"].items()],
    )


def _curl(method: str, path: str, body: str | None, *, with_token: bool) -> str:
    """Returns a curl command with example values; empty for `/webhook`, which only GitHub calls."""
    if path == "/webhook":
        return ""
    words = ["curl"]
    words += [f"-X {method}"] if method != "GET" else []
    words += ['-H "Authorization: Bearer $TOKEN"'] if with_token else []
    words += [f"-d '{body}'"] if body is not None else []
    named = path.replace("{org}", "acme").replace("{runner_id}", "4242")
    named = re.sub(r"{(name|pod|runner_name)}", "linux-4vcpu-x7k2p", named)
    named = named.replace("{pool}", "linux-4vcpu").replace("{shard}", "pink")
    url = f"$GHAPP{named}" + ("?name=linux-4vcpu-x7k2p" if path.endswith("runners/health") and method == "GET" else "")
    return " ".join([*words, url])


def _example(schema: dict[str, Any]) -> str:
    return "{" + ", ".join(f'"{name}": {EXAMPLES[name]}' for name in schema["properties"]) + "}"


def _answer(answer: dict[str, Any]) -> str:
    shapes = [described(each["schema"]) for each in answer.get("content", {}).values() if "schema" in each]
    return " ".join([answer["description"], *shapes])


def _schema(name: str, schema: dict[str, Any]) -> ShownSchema:
    fields = [(field, described(kind)) for field, kind in schema.get("properties", {}).items()]
    return ShownSchema(name, schema.get("description", ""), fields, "" if fields else described(schema))


def described(schema: dict[str, Any]) -> str:
    """Returns a schema in a few words, with references as names in square brackets."""
    return " or ".join(_words(schema))


def _words(schema: dict[str, Any]) -> Iterator[str]:
    if "$ref" in schema:
        yield f"[{schema['$ref'].rpartition('/')[2]}]"
    elif "anyOf" in schema:
        for each in schema["anyOf"]:
            yield from _words(each)
    elif "enum" in schema:
        yield from (f"`{each}`" for each in schema["enum"])
    elif schema["type"] == "array":
        yield f"list of {described(schema['items'])}"
    else:
        yield schema.get("format", schema["type"])
