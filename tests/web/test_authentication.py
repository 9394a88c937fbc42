"""Authentication by API token."""

from __future__ import annotations

import pytest

from ghapp.store.tokens import LIFETIME_SECONDS, Tokens
from tests.web.conftest import NOW

PATH = "/v1/orgs/acme/runners/1/health"


async def ask(http, secret, path=PATH):
    return await http.get(path, headers={"authorization": f"Bearer {secret}"})


async def made(redis, scopes=("read",), orgs=("acme",), lifetime=60.0):
    secret, _ = await Tokens(redis).create("t", orgs, scopes, NOW, lifetime)
    return secret


@pytest.mark.parametrize(
    ("header", "status", "challenge"),
    [
        (None, 401, "Bearer"),
        ("Basic eDp5", 401, "Bearer"),
        ("Bearer", 401, "Bearer"),
        ("Bearer ghapp_unknown", 401, 'Bearer error="invalid_token"'),
        ("Bearer " + "x" * 5000, 401, 'Bearer error="invalid_token"'),
        ("bearer ghapp_" + "é".encode().decode("latin-1"), 401, 'Bearer error="invalid_token"'),
    ],
    ids=["none", "basic", "empty", "unknown", "long", "strange"],
)
async def test_a_request_without_a_valid_token_is_401_with_the_expected_header(http, header, status, challenge):
    headers = {"authorization": b"" if header is None else header.encode("latin-1")}
    answer = await http.get(PATH, headers=headers)
    assert (answer.status_code, answer.headers["www-authenticate"]) == (status, challenge)
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("scopes", "method", "path", "status"),
    [
        (("read",), "GET", PATH, 200),
        (("claim",), "GET", PATH, 403),
        (("admin",), "GET", PATH, 200),
        (("read",), "DELETE", "/v1/orgs/acme/runners/9", 403),
        (("claim",), "DELETE", "/v1/orgs/acme/runners/9", 204),
        (("read", "claim"), "POST", "/v1/orgs/acme/resume", 403),
        (("read",), "GET", "/v1/orgs/globex/runners/1/health", 403),
        (("read",), "GET", "/v1/orgs/nowhere/runners/1/health", 403),
    ],
)
async def test_a_token_is_limited_to_its_orgs_and_scopes(http, redis, scopes, method, path, status):
    secret = await made(redis, scopes)
    answer = await http.request(method, path, headers={"authorization": f"Bearer {secret}"})
    assert answer.status_code == status


@pytest.mark.parametrize(("lifetime", "status"), [(0.0, 401), (0.001, 200), (LIFETIME_SECONDS, 200)])
async def test_a_token_expires_at_its_time(http, redis, lifetime, status):
    assert (await ask(http, await made(redis, lifetime=lifetime))).status_code == status


async def test_however_many_unknown_tokens_come_from_an_address_a_token_is_looked_up(http, redis):
    for each in range(100):
        assert (await ask(http, f"ghapp_guess{each}")).status_code == 401
        assert (await ask(http, "guess")).status_code == 401
    assert (await ask(http, await made(redis))).status_code == 200
