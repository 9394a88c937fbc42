"""Reads that are answered before Starlette get the answer that Starlette's route gives; all other requests go to Starlette."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from ghapp.runners.store import Runners
from ghapp.store import keys
from ghapp.store.tokens import Tokens
from tests.web.conftest import INSTALLATION, NOW, healthy, served

PATH = "/v1/orgs/acme/runners/1/health"


@pytest.fixture
def answered(http, monkeypatch):
    """Whether each GET was answered without Starlette."""
    health, found = http._transport.app._health, []
    document = health.document

    def recorded(scope):
        body = document(scope)
        if scope["method"] == "GET":
            found.append(body is not None)
        return body

    monkeypatch.setattr(health, "document", recorded)
    return found


@pytest.fixture
async def client(http, answered):
    """A client of a real server, with a token for acme."""
    async with (
        served(http._transport.app) as address,
        httpx.AsyncClient(base_url=address, headers=http.headers, timeout=10) as client,
    ):
        yield client


async def test_the_second_read_is_the_same_answer_without_starlette(client, answered):
    first, second = [await client.get(PATH) for _ in range(2)]
    assert answered == [False, True]
    assert (second.status_code, second.content) == (200, first.content)
    names, values = zip(*second.headers.raw, strict=True)
    assert names == (b"date", b"server", b"content-length", b"content-type")
    assert (names, values[1:]) == (
        tuple(name for name, _ in first.headers.raw),
        tuple(value for _, value in first.headers.raw[1:]),
    )


@pytest.mark.parametrize("age", [0.0, 0.04, 0.06, 2.25, 61.0, 301.0], ids=str)
async def test_age_and_state_are_computed_at_the_time_of_the_request(client, times, answered, age):
    await client.get(PATH)
    times[0] = NOW + age
    fast = (await client.get(PATH)).json()
    slow = (await client.get("/v1/orgs/acme/runners/health?name=a")).json()
    assert (answered[1], fast) == (True, slow)
    assert (fast["state"] == "unknown") is (fast["age_seconds"] > 300)


async def test_a_change_is_visible_within_a_second(client, redis, answered):
    await client.get(PATH)
    await Runners(redis).revise(INSTALLATION, {1: lambda _: healthy(1, "a")._replace(busy=True)})
    await asyncio.sleep(1.05)
    assert (await client.get(PATH)).json()["reason"] == "Busy"
    assert answered == [False, False], "it was read from Redis"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/orgs/acme/runners/99/health", 200),
        ("GET", "/v1/orgs/acme/runners/0/health", 400),
        ("GET", "/v1/orgs/acme/runners/one/health", 400),
        ("GET", "/v1/orgs/other/runners/1/health", 403),
        ("GET", "/v1/orgs/acme/runners/1/health/", 307),
        ("GET", "/v2/orgs/acme/runners/1/health", 404),
        ("GET", PATH + "?name=b", 200),
        ("GET", "/v1/orgs/acme/runners/01/health", 200),
        ("GET", "/v1/orgs/acme/runners/1000000000000000000/health", 400),
        ("POST", PATH, 405),
        ("HEAD", PATH, 200),
    ],
)
async def test_all_other_requests_go_to_the_application(client, answered, method, path, status):
    await client.get(PATH)
    assert (await client.request(method, path)).status_code == status
    assert True not in answered


async def test_the_name_of_an_org_is_case_insensitive(client, answered):
    answers = [(await client.get(PATH.replace("acme", "ACME"))).json()["runner_id"] for _ in range(2)]
    assert (answers, answered) == ([1, 1], [False, True])


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ghapp_nonsense", "Basic YTpi", "bearer"])
async def test_a_request_without_a_known_token_is_refused_by_the_application(client, answered, header):
    await client.get(PATH)
    async with httpx.AsyncClient(base_url=client.base_url) as other:
        answer = await other.get(PATH, headers={} if header is None else {"Authorization": header})
    assert (answer.status_code, answered) == (401, [False, False])


async def test_a_revoked_token_works_for_a_second_at_most(client, redis, answered):
    assert (await client.get(PATH)).status_code == 200
    tokens = Tokens(redis)
    for token in await tokens.all():
        await tokens.revoke(token.id)
    await asyncio.sleep(1.05)
    assert (await client.get(PATH)).status_code == 401


async def test_an_expired_token_is_refused_at_once(client, redis, times, answered):
    secret, _ = await Tokens(redis).create("short", ("acme",), ("read",), NOW, 10)
    headers = {"Authorization": f"Bearer {secret}"}
    assert [(await client.get(PATH, headers=headers)).status_code for _ in range(2)] == [200, 200]
    times[0] = NOW + 10
    assert (await client.get(PATH, headers=headers)).status_code == 401


async def test_a_lost_runner_that_an_older_version_recorded_as_back_is_not_taken_away(client, redis, answered):
    """An older version does not announce what it writes, so that the copy still has the loss."""
    lost = "/v1/orgs/acme/runners/3/health"
    assert (await client.get(lost)).json()["state"] == "invalidated"
    known = Runners(redis)
    await known.revise(INSTALLATION, {3: lambda _: healthy(3, "c")})
    await redis.delete(keys.runner_changes(INSTALLATION))
    assert (await client.get(lost)).json()["state"] == "healthy"
    assert (await client.post("/v1/orgs/acme/runners/health", json={"names": ["c"]})).json()["runners"][0][
        "replace"
    ] is False
    assert (await client.get("/v1/orgs/acme/runners/c/alive")).status_code == 200
