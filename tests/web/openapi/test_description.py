"""The API description is valid, complete and accurate."""

from __future__ import annotations

import re
from typing import get_type_hints

import httpx
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openapi_spec_validator import validate

from ghapp.runners.verdict import Reason, State
from ghapp.store.tokens import Tokens
from ghapp.web.openapi import OPERATIONS, description, routes
from tests.web.conftest import NOW

DOCUMENTS = {each.document for operation in OPERATIONS for each in operation.answers.values() if each.document}


def test_the_description_is_valid():
    validate(description())


SCHEMAS = description()["components"]["schemas"]


@pytest.mark.parametrize("name", [name for name, schema in SCHEMAS.items() if schema.get("type") == "object"])
def test_a_document_has_no_fields_but_those_described(name):
    assert SCHEMAS[name]["additionalProperties"] is False


@pytest.mark.parametrize("shape", sorted(DOCUMENTS, key=lambda each: each.__name__))
def test_every_field_of_a_document_is_required(shape):
    schema = SCHEMAS[shape.__name__]
    defaults = (
        {field.name for field in msgspec.structs.fields(shape) if not field.required}
        if issubclass(shape, msgspec.Struct)
        else set()
    )
    assert set(schema["required"]) | defaults == schema["properties"].keys()
    assert list(schema["properties"]) == list(get_type_hints(shape)), "in the order of the type's fields"


DATED = {
    ("SweepRequested", "requested_at"),
    ("HealthDocument", "since"),
    ("RemediationDocument", "since"),
    ("HeadlineDocument", "since"),
    ("HealthDocument", "observed_at"),
    ("EvidenceDocument", "at"),
    ("AuditEntryDocument", "at"),
    ("IncidentDocument", "began"),
    ("IncidentDocument", "ended"),
    ("HistoryDocument", "begin"),
    ("HistoryDocument", "end"),
    ("DeathDocument", "at"),
    ("JobDocument", "queued_at"),
    ("JobDocument", "started_at"),
    ("JobDocument", "ended_at"),
    ("WhyDocument", "since"),
    ("WhyDocument", "fails_at"),
    ("JobDeathDocument", "at"),
    ("JobRerunDocument", "at"),
    ("LaterAttemptDocument", "at"),
    ("StoryEventDocument", "at"),
    ("DemandDocument", "observed_at"),
    ("UnservedDocument", "queued_at"),
    ("InstallationDocument", "next_sweep_at"),
    ("InstallationDocument", "failing_since"),
    ("DeployBody", "deployed_at"),
    ("DeadDeliveryDocument", "at"),
    ("GateAnswer", "observed_at"),
    ("PauseDocument", "since"),
    ("PauseDocument", "until"),
    ("PhantomDocument", "since"),
    ("LeakDocument", "at"),
    ("PoolQueueDocument", "oldest_queued_at"),
    ("VersionDocument", "jobs_end_at"),
    ("VersionDocument", "registration_ends_at"),
    ("VersionsDocument", "observed_at"),
}


def test_times_are_described_as_times():
    dated = {
        (name, field)
        for name, schema in SCHEMAS.items()
        for field, kind in schema.get("properties", {}).items()
        if any(each.get("format") == "date-time" for each in kind.get("anyOf", [kind]))
    }
    assert dated == DATED


def test_states_and_reasons_are_enumerated():
    assert SCHEMAS["State"]["enum"] == sorted(State)
    assert SCHEMAS["Reason"]["enum"] == sorted(Reason)


PAGES = ("/setup", "/docs", "/static", "/orgs", "/system", "/sign-", "/v1/openapi.json")


async def test_every_route_is_described_and_every_described_route_exists(http):
    routes = {
        (method, re.sub(r":\w+}", "}", route.path))
        for route in http._transport.app.routes
        for method in route.methods - {"HEAD"}
        if route.path != "/" and not route.path.startswith(PAGES)
    }
    found = {(method.upper(), path) for path, methods in description()["paths"].items() for method in methods}
    assert found == routes


SCOPED = [operation for operation in OPERATIONS if operation.scope is not None]


@pytest.mark.parametrize("operation", SCOPED, ids=lambda each: f"{each.method} {each.path}")
async def test_an_operation_needs_a_token_that_allows_its_scope_in_its_organization(http, redis, operation):
    path = re.sub(r"{\w+}", "1", operation.path.replace("{org}", "acme"))
    lesser = {"read": (), "claim": ("read",), "admin": ("read", "claim")}[operation.scope]
    for orgs, scopes in ((("globex",), ("read", "claim", "admin")), (("acme",), lesser)):
        secret, _ = await Tokens(redis).create("", orgs, scopes, NOW)
        http.headers["authorization"] = f"Bearer {secret}"
        assert (await http.request(operation.method, path)).status_code == 403


@pytest.mark.parametrize(
    "operation", [each for each in OPERATIONS if each.needs_token], ids=lambda each: f"{each.method} {each.path}"
)
async def test_an_operation_that_needs_a_token_is_401_without_one(http, operation):
    del http.headers["authorization"]
    path = re.sub(r"{\w+}", "1", operation.path.replace("{org}", "acme"))
    assert (await http.request(operation.method, path)).status_code == 401


async def test_the_description_and_its_page_require_no_token(http):
    del http.headers["authorization"]
    answer = await http.get("/v1/openapi.json")
    assert answer.json() == description()
    page = await http.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "script" not in page.headers["content-security-policy"]
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "<script" not in page.text
    assert "export GHAPP=http://127.0.0.1:8000 TOKEN=$(ghapp token create" in page.text
    for path in description()["paths"]:
        assert path in page.text


SEGMENTS = st.text(st.characters(codec="utf-8", exclude_characters="?#"), min_size=1, max_size=40)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    method=st.sampled_from(["GET", "POST", "DELETE", "PUT", "HEAD", "OPTIONS"]),
    path=st.lists(st.sampled_from(["v1", "orgs", "acme", "runners", "health", "alive", "check", "1"]) | SEGMENTS),
    body=st.binary(max_size=200),
)
async def test_any_request_is_answered_and_each_refusal_is_a_problem(http, method, path, body):
    url = httpx.URL("http://ghapp").copy_with(raw_path=("/" + "/".join(map(quoted, path))).encode())
    answer = await http.request(method, url, content=body)
    assert answer.status_code < 500
    if answer.status_code >= 400 and answer.status_code != 410 and method != "HEAD":
        assert answer.headers["content-type"] == "application/problem+json"


def quoted(segment):
    from urllib.parse import quote

    return quote(segment, safe="")


@pytest.mark.parametrize("path", ["/nowhere", "/v1", "/v1/orgs/acme/runners/1/healthy"])
async def test_an_unknown_path_is_a_problem(http, path):
    answer = await http.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")


@pytest.mark.parametrize(
    ("address", "shown"),
    [("https://ghapp.example.com/ci", "https://ghapp.example.com/ci"), ("http://[::1]:8010", "http://[::1]:8010")],
)
async def test_the_page_has_the_servers_own_address_to_copy(address, shown):
    (_, docs) = routes(address)
    assert f"export GHAPP={shown} TOKEN=" in (await docs.endpoint(None)).body.decode()
