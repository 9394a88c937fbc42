"""`POST /webhook`, over real HTTP shapes and a real Redis."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from urllib.parse import urlencode

import httpx
import pytest

from ghapp.credentials import AppCredentials
from ghapp.deliveries import api as webhook
from ghapp.deliveries import store as inbox
from ghapp.deliveries.api import LARGEST_BYTES, MOST_AT_ONCE
from ghapp.deliveries.store import Inbox
from ghapp.github.deliveries import decode, parse
from ghapp.settings import Settings
from ghapp.web.app import build
from tests.support.keys import private_key
from tests.web.conftest import NOW, served

OLD, NEW = "old-secret", "new-secret"
JOB = {
    "action": "in_progress",
    "installation": {"id": 7},
    "workflow_job": {"id": 1, "status": "in_progress", "runner_id": 42, "runner_name": "linux-1"},
}


def sign(body, secret=NEW):
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


@pytest.fixture
def asked():
    return []


@pytest.fixture(params=["asgi", "server"])
async def http(request, redis, asked):
    """A client of the application, and of a server that answers most deliveries before the application."""

    async def ask_for(what):
        asked.append(what)

    environ = {"GHAPP_APP_ID": "1", "GHAPP_PRIVATE_KEY": private_key(), "GHAPP_WEBHOOK_SECRET": f"{NEW},{OLD}"}
    settings = Settings.read(environ)
    assert isinstance(settings.credentials, AppCredentials)
    application = build(settings, redis, ask_for)
    if request.param == "asgi":
        async with httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://ghapp") as client:
            yield client
    else:
        async with served(application) as address, httpx.AsyncClient(base_url=address, timeout=30) as client:
            yield client


async def post(http, body, **headers):
    defaults = {
        "x-github-event": "workflow_job",
        "x-github-delivery": "guid-1",
        "x-hub-signature-256": sign(body),
        "content-type": "application/json",
    }
    sent = {name: value for name, value in {**defaults, **headers}.items() if value is not None}
    return await http.post("/webhook", content=body, headers=sent)


def body_of(payload):
    return json.dumps(payload).encode()


async def test_202_means_that_the_delivery_is_stored_and_a_drain_is_enqueued(http, redis, asked):
    answer = await post(http, body_of(JOB))
    assert answer.status_code == 202
    (entry,) = await Inbox(redis).take(10)
    assert (entry.guid, entry.event) == ("guid-1", "workflow_job")
    assert asked == ["jobs.inbox.drain"]


async def test_both_secrets_are_accepted_during_a_rotation(http):
    body = body_of(JOB)
    assert (await post(http, body, **{"x-hub-signature-256": sign(body, OLD)})).status_code == 202


async def test_a_form_is_accepted_like_json(http, redis):
    body = urlencode({"payload": json.dumps(JOB)}).encode()
    answer = await post(http, body, **{"content-type": "application/x-www-form-urlencoded"})
    assert answer.status_code == 202
    assert await Inbox(redis).lag() == 1


async def test_an_unknown_event_is_accepted(http):
    body = body_of({"zen": "Anything added dilutes everything else."})
    assert (await post(http, body, **{"x-github-event": "star"})).status_code == 202


@pytest.mark.parametrize("signature", [None, "", "sha256=", "sha256=" + "0" * 64, "sha1=abc", "sha256=ÿ"])
async def test_a_bad_signature_is_401_and_stores_nothing(http, redis, signature):
    headers = {"x-hub-signature-256": signature.encode("latin-1") if signature is not None else None}
    answer = await post(http, body_of(JOB), **headers)
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert await Inbox(redis).lag() == 0


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b"\xff"],
)
async def test_a_malformed_body_is_400_and_stores_nothing(http, redis, body):
    answer = await post(http, body)
    assert answer.status_code == 400
    assert answer.json()["detail"]
    assert await Inbox(redis).lag() == 0


@pytest.mark.parametrize(
    ("payload", "field"), [({"workflow_job": {"id": "x", "status": "queued"}}, "workflow_job.id"), ({}, "")]
)
async def test_an_odd_payload_is_accepted_with_what_was_left_out_because_github_would_only_repeat_it(
    http, redis, payload, field
):
    assert (await post(http, body_of(payload))).status_code == 202
    (entry,) = await Inbox(redis).take(10)
    assert [each.field for each in decode(entry.facts).odd] == [field]


@pytest.mark.parametrize("header", ["x-github-event", "x-github-delivery"])
async def test_a_missing_header_is_400(http, header):
    assert (await post(http, body_of(JOB), **{header: None})).status_code == 400


async def test_one_byte_over_25_mib_is_413(http, redis):
    assert (await post(http, b"0" * (LARGEST_BYTES + 1))).status_code == 413
    assert (await post(http, b"0" * LARGEST_BYTES)).status_code == 400
    assert await Inbox(redis).lag() == 0


async def test_a_delivery_that_cannot_be_stored_is_503_with_retry_after(http, redis):
    await redis.config_set("maxmemory", "1")
    try:
        answer = await post(http, body_of(JOB))
    finally:
        await redis.config_set("maxmemory", "0")
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) > 0
    assert (await post(http, body_of(JOB))).status_code == 202


async def test_while_no_worker_drains_a_full_inbox_is_503_until_there_is_room(http, redis, monkeypatch):
    monkeypatch.setattr(inbox, "MOST_WAITING", 2)
    statuses = [
        (await post(http, body_of(JOB), **{"x-github-delivery": f"guid-{each}"})).status_code for each in range(4)
    ]
    assert statuses == [202, 202, 503, 503]
    waiting = await Inbox(redis).take(10)
    assert [each.guid for each in waiting] == ["guid-0", "guid-1"]
    await Inbox(redis).done(waiting[:1], NOW)
    assert (await post(http, body_of(JOB), **{"x-github-delivery": "guid-2"})).status_code == 202


async def test_deliveries_that_arrive_at_once_are_all_stored_and_answered(http, redis):
    number = 3 * MOST_AT_ONCE + 1
    sent = [post(http, body_of(JOB), **{"x-github-delivery": f"guid-{each}"}) for each in range(number)]
    assert {answer.status_code for answer in await asyncio.gather(*sent)} == {202}
    assert {entry.guid for entry in await Inbox(redis).take(number + 1)} == {f"guid-{each}" for each in range(number)}


async def test_a_bug_is_500_and_does_not_concern_other_deliveries(http, redis, monkeypatch):
    def parse_with_a_bug(event, body, content_type):
        if event == "star":
            raise RuntimeError("a bug")
        return parse(event, body, content_type)

    monkeypatch.setattr(webhook, "parse", parse_with_a_bug)
    sent = [post(http, body_of(JOB), **{"x-github-event": each}) for each in ("star", "workflow_job")]
    assert [answer.status_code for answer in await asyncio.gather(*sent)] == [500, 202]
    assert await Inbox(redis).lag() == 1
