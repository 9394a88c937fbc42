"""Schemathesis sends valid and invalid requests to a real web role and validates the answers."""

from __future__ import annotations

import time
from pathlib import Path

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    positive_data_acceptance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from ghapp.installations.installation import Installation
from ghapp.installations.store import Installations
from ghapp.store.connect import connect
from ghapp.store.tokens import SCOPES, Tokens
from ghapp.web.openapi import description
from tests.stories.processes import Role
from tests.support.keys import private_key
from tests.support.ports import free_port
from tests.support.running import wait_for

ANSWER_SECONDS = 5.0
"""The maximum duration of an answer."""

MOST_BYTES = 120 * 1024 * 1024
"""The maximum resident memory of the role after thousands of requests; after its start it has some 60 MiB."""

STREAM = "/v1/orgs/{org}/events"
"""Excluded: a stream never ends; tests/web/api/test_events.py covers it."""

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
    positive_data_acceptance,
]

"""Checks of tokens are in test_authentication.py (after many wrong tokens the answer is 429), of methods in test_description.py."""

api = schemathesis.pytest.from_fixture("described_api").exclude(path=STREAM)
"""Read where the test runs: each process that collects the tests would make the boundary cases of all operations."""


@pytest.fixture(scope="module")
def described_api():
    described = schemathesis.openapi.from_dict(description())
    described.hook(map_body)
    return described


def map_body(context, body):
    """JSON Schema counts 7.0 as an integer; no client sends a runner's id in this form, and the API refuses it."""
    if isinstance(body, dict):
        return {name: map_body(context, value) for name, value in body.items()}
    if isinstance(body, list):
        return [map_body(context, value) for value in body]
    return int(body) if isinstance(body, float) and body.is_integer() else body


@pytest.fixture(scope="module")
def web(redis_url, tmp_path_factory):
    """A separate web role."""
    address = f"127.0.0.1:{free_port()}"
    environ = {
        "GHAPP_REDIS_URL": f"{redis_url}",
        "GHAPP_LISTEN": address,
        "GHAPP_APP_ID": "1",
        "GHAPP_PRIVATE_KEY": private_key(),
        "GHAPP_WEBHOOK_SECRET": "secret",
    }
    with Role("web", environ, tmp_path_factory.mktemp("web")) as role:
        url = f"http://{address}"
        assert wait_for(lambda: _lives(url), 30), role.log
        yield url, role


def _lives(url):
    try:
        return httpx.get(f"{url}/livez", trust_env=False).is_success
    except httpx.TransportError:
        return False


@pytest.fixture
async def token(redis_url):
    redis = connect(redis_url)
    await Installations(redis).put(Installation(7, "acme", 1))
    secret, _ = await Tokens(redis).create("stranger", ("acme",), SCOPES, time.time())
    await redis.aclose()
    return secret


@api.parametrize()
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_each_request_is_answered_as_described(case, web, token):
    url, role = web
    if "org" in case.path_parameters:
        case.path_parameters["org"] = "acme"
    case.call_and_validate(
        base_url=url, headers={"Authorization": f"Bearer {token}"}, checks=CHECKS, timeout=ANSWER_SECONDS
    )
    assert _resident(role.process.pid) < MOST_BYTES


def _resident(pid):
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096
