"""The API's description: at `/v1/openapi.json` for machines, at `/docs` for people."""

from __future__ import annotations

from functools import cache

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ghapp.health.verdict import Reason, State
from ghapp.web.docs import CONTENT_SECURITY_POLICY, page
from ghapp.web.schemas import (
    BUSY,
    NONEMPTY,
    POD,
    POOL,
    RUNNER_ID,
    SCHEMAS,
    TEXT,
    TOLD,
    Schema,
    array_of,
    nullable,
    object_of,
    ref,
    takes,
)

RUNNERS = "/v1/orgs/{org}/runners"
ID, NAME = "runner_id", "name"
PATH = {ID: RUNNER_ID, "pod": POD}
"""What parameters in a path look like, where any text will not do."""


def routes() -> list[Route]:
    """Both renderings. They say nothing of anybody's fleet, and need no token."""
    return [Route("/v1/openapi.json", _json, methods=["GET"]), Route("/docs", _docs, methods=["GET"])]


@cache
def description() -> Schema:
    """The OpenAPI 3.1 document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "ghapp",
            "version": "1",
            "description": "What is true of each self-hosted runner, how we know, and whether to replace it. "
            "Times are RFC 3339 in UTC. `ghapp token create` makes a token; it is bound to orgs and to scopes, and any "
            "other org is 403. `…/runners/{name}/alive` needs none, so that no secret is in a runner's pod.",
        },
        "paths": _paths(),
        "components": {
            "schemas": SCHEMAS | {"State": _enum(State), "Reason": _enum(Reason)},
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _paths() -> Schema:
    health, one = ref("Health"), _answer("The health document.", ref("Health"))
    page_of = object_of(runners=array_of(health), total={"type": "integer"}, next_cursor=nullable({"type": "string"}))
    at_once = {"maxItems": 1000}
    batch = takes(ids=array_of(RUNNER_ID) | at_once, names=array_of(NONEMPTY) | at_once)
    filters = [
        _query("state", ref("State")),
        _query("pool", {"type": "string"}),
        _query("limit", {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}),
        _query("cursor", {"type": "string", "pattern": "^[0-9]{1,18}$"}),
        _header("If-None-Match"),
    ]
    unchanged = {"304": {"description": "Nothing but their age has changed."}}
    stream = {"200": {"description": "CloudEvents.", "content": {"text/event-stream": {}}}} | _problems(404)
    probe = {
        "200": {"description": "Alive, or not known."},
        "410": {"description": "Invalidated, and being replaced: end the pod."},
    }
    return {
        f"{RUNNERS}/{{{ID}}}/health": {
            "get": _call("One runner. Never seen is `unknown`, not 404.", "read", one, [ID])
        },
        f"{RUNNERS}/health": {
            "get": _call("One runner, by name.", "read", one, [], [_query("name", NONEMPTY, required=True)]),
            "post": _call(
                "Up to 1,000 runners, in the order asked, ids first.",
                "read",
                _answer("The documents.", object_of(runners=array_of(health))) | _problems(413),
                body=batch,
            ),
        },
        RUNNERS: {
            "get": _call("The fleet, by id, in pages.", "read", _answer("A page.", page_of) | unchanged, [], filters)
        },
        f"{RUNNERS}/{{{ID}}}": {
            "delete": _call(
                "Say that this runner was removed on purpose.", "claim", _empty(204, "It is retired."), [ID]
            )
        },
        f"{RUNNERS}/{{{ID}}}/replaced": {
            "post": _call("Say that its replacement is on its way.", "claim", _empty(204, "Recorded."), [ID])
        },
        f"{RUNNERS}/{{{ID}}}/check": {
            "post": _call("Look now, within the budget.", "read", _empty(202, "Asked for.") | _problems(404), [ID])
        },
        f"{RUNNERS}/{{{NAME}}}/alive": {
            "get": _call("For a livenessProbe. Fails open.", None, probe, [NAME]),
        },
        "/v1/orgs/{org}/events": {
            "get": _call("What happens, as server-sent CloudEvents.", "read", stream, [], [_header("Last-Event-ID")])
        },
        "/v1/orgs/{org}/demand": {
            "get": _call(
                "Jobs by pool, and those nobody can take.",
                "read",
                _answer("The demand.", ref("Demand")) | _problems(404),
            )
        },
        "/v1/orgs/{org}/claims/{pod}": {
            "put": _call(
                "Say that this pod is busy, for so many seconds: its runner is not replaced, and it is not reaped. "
                "`runner_name`, when it is not the pod's, and `job_id` may be left out.",
                "claim",
                _empty(204, "It is claimed; asked again, the last word holds.") | _problems(404, 413, 507),
                ["pod"],
                body=BUSY,
            ),
            "delete": _call(
                "Give it back.", "claim", _empty(204, "It is not claimed, nor perhaps was.") | _problems(404), ["pod"]
            ),
        },
        "/v1/orgs/{org}/deaths/{runner_name}": {
            "get": _call(
                "How a runner of that name ended last, in the last 30 days.",
                "read",
                _answer("The post-mortem.", ref("Death"))
                | _problems(404, because="Nobody of that name has died, or the App is not installed there."),
                ["runner_name"],
            )
        },
        "/v1/orgs/{org}/pools/{pool}/shards/{shard}/gate": {
            "get": _call(
                "May this shard take over. It is one look; `ghapp gate` also waits.",
                "read",
                _answer("Whether it passes, and what to do next.", ref("Gate")) | _problems(404),
                ["pool", "shard"],
                [
                    _query("min_online", {"type": "integer", "minimum": 1, "maximum": 9_999_999}),
                    _query("canary", {"type": "boolean", "default": False}),
                    _query("version", TEXT),
                ],
            )
        },
        "/v1/orgs/{org}/pools/{pool}/shards/{shard}": {
            "put": _call(
                "Say what a deploy made of this shard. What is left out stays as it was told last.",
                "claim",
                _empty(204, "Recorded; the last word holds.") | _problems(404, 413),
                ["pool", "shard"],
                body=TOLD,
            )
        },
        "/v1/orgs/{org}/pause": {
            "post": _call(
                "Stop remediation, of a pool or of the whole org.",
                "admin",
                _empty(204, "Nothing more is done there.") | _problems(404, 413),
                body=takes("why", pool=nullable(POOL), why={"type": "string", "minLength": 1, "maxLength": 500}),
            )
        },
        "/v1/orgs/{org}/resume": {
            "post": _call(
                "Let it go on: pauses end, stopped fuses prove anew.",
                "admin",
                _answer("What ended, and which pools prove.", object_of(ended=array_of(TEXT), proving=array_of(TEXT)))
                | _problems(404, 413),
                body=takes(pool=nullable(POOL)),
            )
        },
        "/webhook": {"post": _webhook()},
        "/livez": {"get": _open("Is the process alive.", _answer("Yes.", {"type": "object"}))},
        "/readyz": {
            "get": _open("Is what it needs there.", _answer("Yes.", ref("Ready")) | _answer("No.", ref("Ready"), 503))
        },
        "/metrics": {
            "get": _open(
                "For Prometheus.", {"200": {"description": "Metrics.", "content": {"text/plain": {}}}} | _problems(503)
            )
        },
    }


def _call(
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
    call: Schema = {"summary": summary, "parameters": named + (parameters or []), "responses": answers}
    if scope is not None:
        call |= {"security": [{"bearer": []}], "description": f"Scope `{scope}`."}
        call["responses"] = answers | _problems(400, 401, 403, 429, 503)
    if body is not None:
        call["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return call


def _webhook() -> Schema:
    headers = ["X-GitHub-Event", "X-GitHub-Delivery", "X-Hub-Signature-256"]
    payload = {"schema": {"type": "object"}}
    return _open("GitHub's deliveries.", _empty(202, "It is durable.") | _problems(400, 401, 413, 503)) | {
        "parameters": [_header(name, required=True) for name in headers],
        "requestBody": {"content": {"application/json": payload, "application/x-www-form-urlencoded": payload}},
    }


def _open(summary: str, answers: Schema) -> Schema:
    return {"summary": summary, "responses": answers}


def _answer(said: str, schema: Schema, status: int = 200) -> Schema:
    return {str(status): {"description": said, "content": {"application/json": {"schema": schema}}}}


def _empty(status: int, said: str) -> Schema:
    return {str(status): {"description": said}}


PROBLEMS = {
    400: "The question is not well-formed.",
    401: "No token, or not a good one.",
    403: "This token does not open that org for that scope.",
    404: "The App is not installed there.",
    413: "Too large.",
    429: "Too many unknown tokens from this address.",
    503: "Redis is away; ask again after `Retry-After`.",
    507: "10,000 pods are claimed already; nothing was recorded.",
}


def _problems(*statuses: int, because: str = "") -> Schema:
    content = {"application/problem+json": {"schema": ref("Problem")}}
    return {str(status): {"description": because or PROBLEMS[status], "content": content} for status in statuses}


def _query(name: str, schema: Schema, *, required: bool = False) -> Schema:
    return {"name": name, "in": "query", "required": required, "schema": schema}


def _header(name: str, *, required: bool = False) -> Schema:
    return {"name": name, "in": "header", "required": required, "schema": {"type": "string"}}


def _enum(values: type[State | Reason]) -> Schema:
    return {"type": "string", "enum": [each.value for each in values]}


@cache
def _encoded() -> bytes:
    return msgspec.json.encode(description())


async def _json(_: Request) -> Response:
    return Response(_encoded(), media_type="application/json")


async def _docs(_: Request) -> Response:
    return Response(page(description()), media_type="text/html", headers=CONTENT_SECURITY_POLICY)
