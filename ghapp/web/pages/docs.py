"""Renders the OpenAPI document as one static page, without scripts or external resources."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from typing import Any

from ghapp.web.pages import layout as frame

CONTENT_SECURITY_POLICY = frame.headers()

LINKED = re.compile(r"`([^`]+)`|\[(\w+)\]")
"""Code, and the name of a schema, in the texts of the OpenAPI document."""

ENVIRONMENT = "export GHAPP=http://127.0.0.1:8000 TOKEN=$(ghapp token create --org acme --scope read)"
"""The shell variables that the curl examples use."""


def page(description: dict[str, Any]) -> str:
    """Returns the page of an OpenAPI document."""
    info, schemas = description["info"], description["components"]["schemas"]
    calls = [
        (method.upper(), path, call)
        for path, methods in description["paths"].items()
        for method, call in methods.items()
    ]
    contents = [(f"{method} {path}", call["summary"]) for method, path, call in calls]
    body = (
        f"<p>{_marked(info['description'])} OpenAPI: <a href='v1/openapi.json'>/v1/openapi.json</a></p>"
        f"<pre><code>{escape(ENVIRONMENT)}</code></pre>{_contents(contents)}"
        f"{''.join(_operation(*call, schemas) for call in calls)}"
        f"<h1>Documents</h1>{''.join(_schema(name, schema) for name, schema in schemas.items())}"
    )
    return frame.page("HTTP API", body, beside=f"version {info['version']}", wide=True)


def _contents(calls: list[tuple[str, str]]) -> str:
    rows = "".join(
        f'<tr><td><a href="#{_anchor(name)}"><code>{escape(name)}</code></a></td><td>{_marked(summary)}</td></tr>'
        for name, summary in calls
    )
    return f'<table class="contents">{rows}</table>'


def _operation(method: str, path: str, call: dict[str, Any], schemas: dict[str, Any]) -> str:
    parameters = [
        (each["name"], f"{each['in']}, {described(each['schema'])}")
        for each in call.get("parameters", [])
        if each["name"] != "org"
    ]
    body = call.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if body is not None:
        parameters.append(("body", described(body)))
    example = None if body is None or "$ref" not in body else _example(schemas[body["$ref"].rpartition("/")[2]])
    answers = [(status, _answer(answer)) for status, answer in call["responses"].items()]
    name = f"{method} {path}"
    return (
        f'<h2 id="{_anchor(name)}"><code>{escape(name)}</code></h2>'
        f"<p>{_marked(call['summary'])} {_marked(call.get('description', 'No token.'))}</p>"
        f"{_curl(method, path, example, with_token='security' in call)}{_table(parameters)}{_table(answers)}"
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
    return f"<pre><code>{escape(' '.join([*words, url]))}</code></pre>"


def _example(schema: dict[str, Any]) -> str:
    examples = {"ids": "[4242]", "names": "[]", "pool": '"linux-4vcpu"', "why": '"network maintenance"'}
    examples |= {"ttl_seconds": "3600", "runner_name": '"linux-4vcpu-x7k2p"', "job_id": "1234567"}
    examples |= {"role": '"inactive"', "deployed_at": '"2026-11-20T12:00:00Z"', "ref": '"v42"'}
    return "{" + ", ".join(f'"{name}": {examples[name]}' for name in schema["properties"]) + "}"


def _answer(answer: dict[str, Any]) -> str:
    shapes = [described(each["schema"]) for each in answer.get("content", {}).values() if "schema" in each]
    return " ".join([answer["description"], *shapes])


def _schema(name: str, schema: dict[str, Any]) -> str:
    rows = [(field, described(kind)) for field, kind in schema.get("properties", {}).items()]
    shape = _table(rows) if rows else f"<p>{_marked(described(schema))}</p>"
    about = f"<p>{_marked(schema['description'])}</p>" if "description" in schema else ""
    return f'<h2 id="{escape(name)}"><code>{escape(name)}</code></h2>{about}{shape}'


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
    elif "properties" in schema:
        yield "{" + ", ".join(f"`{name}`: {described(kind)}" for name, kind in schema["properties"].items()) + "}"
    else:
        yield schema.get("format", schema["type"])


def _table(rows: list[tuple[str, str]]) -> str:
    cells = "".join(f"<tr><td><code>{escape(left)}</code></td><td>{_marked(right)}</td></tr>" for left, right in rows)
    return f"<table>{cells}</table>" if cells else ""


def _marked(text: str) -> str:
    """Returns the text as HTML, with code and schema names marked up."""

    def mark(found: re.Match[str]) -> str:
        code, name = found.groups()
        return f"<code>{code}</code>" if code else f'<a href="#{name}">{name}</a>'

    return LINKED.sub(mark, escape(text))


def _anchor(name: str) -> str:
    return re.sub(r"\W+", "-", name).strip("-")
