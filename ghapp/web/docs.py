"""The API's description as one static page: no script, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from ghapp.web import page as frame

CONTENT_SECURITY_POLICY = frame.headers()


def page(description: dict[str, Any]) -> str:
    """The page, from an OpenAPI document."""
    info = description["info"]
    operations = "".join(
        _operation(path, method, call)
        for path, methods in description["paths"].items()
        for method, call in methods.items()
    )
    schemas = "".join(_schema(name, schema) for name, schema in description["components"]["schemas"].items())
    body = (
        f"<p>{escape(info['description'])}</p>"
        f'<p>For machines: <a href="v1/openapi.json">/v1/openapi.json</a></p>'
        f"{operations}<h1>Documents</h1>{schemas}"
    )
    return frame.page("HTTP API", body, beside=f"version {info['version']}", wide=True)


def _operation(path: str, method: str, call: dict[str, Any]) -> str:
    parameters = [(each["name"], f"{each['in']}, {said(each['schema'])}") for each in call.get("parameters", [])]
    answers = [(status, _answer(answer)) for status, answer in call["responses"].items()]
    needs = f" {call['description']}" if "description" in call else ""
    return (
        f"<h2><code>{escape(method.upper())} {escape(path)}</code></h2><p>{escape(call['summary'] + needs)}</p>"
        f"{_table(parameters)}{_table(answers)}"
    )


def _answer(answer: dict[str, Any]) -> str:
    shapes = [said(each["schema"]) for each in answer.get("content", {}).values() if "schema" in each]
    return " ".join([answer["description"], *shapes])


def _schema(name: str, schema: dict[str, Any]) -> str:
    rows = [(field, said(kind)) for field, kind in schema.get("properties", {}).items()]
    return f"<h2><code>{escape(name)}</code></h2>{_table(rows) if rows else f'<p>{escape(said(schema))}</p>'}"


def said(schema: dict[str, Any]) -> str:
    """A schema in a few words."""
    return " or ".join(_words(schema))


def _words(schema: dict[str, Any]) -> Iterator[str]:
    if "$ref" in schema:
        yield schema["$ref"].rpartition("/")[2]
    elif "anyOf" in schema:
        for each in schema["anyOf"]:
            yield from _words(each)
    elif "enum" in schema:
        yield from schema["enum"]
    elif schema["type"] == "array":
        yield f"list of {said(schema['items'])}"
    elif "properties" in schema:
        yield "{" + ", ".join(f"{name}: {said(kind)}" for name, kind in schema["properties"].items()) + "}"
    else:
        yield schema.get("format", schema["type"])


def _table(rows: list[tuple[str, str]]) -> str:
    cells = "".join(f"<tr><td><code>{escape(left)}</code></td><td>{escape(right)}</td></tr>" for left, right in rows)
    return f"<table>{cells}</table>" if cells else ""
