"""The API's description as one static page: no script, nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from html import escape
from typing import Any

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1f2328; }
h2 { font: 600 1rem ui-monospace, monospace; border-top: 1px solid #d1d9e0; padding-top: 1.2rem; margin-top: 2rem; }
code, pre { font-family: ui-monospace, monospace; font-size: .9em; }
b { text-transform: uppercase; } table { border-collapse: collapse; } td { padding: .15rem 1rem .15rem 0; }
@media (prefers-color-scheme: dark) { body { background: #0d1117; color: #f0f6fc; } h2 { border-color: #3d444d; } }
"""
_DIGEST = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
CONTENT_SECURITY_POLICY = {
    "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_DIGEST}'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}


def page(description: dict[str, Any]) -> str:
    """The page, from an OpenAPI document."""
    info = description["info"]
    operations = "".join(
        _operation(path, method, call)
        for path, methods in description["paths"].items()
        for method, call in methods.items()
    )
    schemas = "".join(_schema(name, schema) for name, schema in description["components"]["schemas"].items())
    title = escape(info["title"])
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>'
        f"<body><h1>{title}</h1><p>{escape(info['description'])}</p>"
        f'<p>For machines: <a href="/v1/openapi.json">/v1/openapi.json</a></p>'
        f"{operations}<h1>Documents</h1>{schemas}</body></html>"
    )


def _operation(path: str, method: str, call: dict[str, Any]) -> str:
    parameters = [(each["name"], f"{each['in']}, {said(each['schema'])}") for each in call.get("parameters", [])]
    answers = [(status, _answer(answer)) for status, answer in call["responses"].items()]
    needs = f" {call['description']}" if "description" in call else ""
    return (
        f"<h2><b>{escape(method)}</b> {escape(path)}</h2><p>{escape(call['summary'] + needs)}</p>"
        f"{_table(parameters)}{_table(answers)}"
    )


def _answer(answer: dict[str, Any]) -> str:
    shapes = [said(each["schema"]) for each in answer.get("content", {}).values() if "schema" in each]
    return " ".join([answer["description"], *shapes])


def _schema(name: str, schema: dict[str, Any]) -> str:
    rows = [(field, said(kind)) for field, kind in schema.get("properties", {}).items()]
    return f"<h2>{escape(name)}</h2>{_table(rows) if rows else f'<p>{escape(said(schema))}</p>'}"


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
