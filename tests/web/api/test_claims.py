"""Pod claims: while a controller claims that a pod is busy, the pod's runner is not replaced."""

from __future__ import annotations

import asyncio

import pytest

from ghapp.errors import StoreUnavailableError
from ghapp.pods import claim_store as module
from ghapp.pods.claim_store import PodClaims
from ghapp.pods.pod_claim import PodClaim
from ghapp.runners.observations import granted
from ghapp.runners.store import Runners
from ghapp.store.audit import AuditLog, Trail
from ghapp.store.tokens import Tokens
from tests.web.conftest import INSTALLATION, NOW

POD = "/v1/orgs/acme/claims/pod-1"


@pytest.fixture
async def controller(http, redis):
    """A client that may read and claim; runner 3, named c, is lost, and its replacement is granted."""
    secret, _ = await Tokens(redis).create("controller", ("acme",), ("read", "claim"), NOW)
    http.headers["authorization"] = f"Bearer {secret}"
    await Runners(redis).revise(INSTALLATION, {3: lambda known: granted(known, NOW - 50, "event")})
    return http


async def claims(redis):
    return await PodClaims(redis).all(INSTALLATION, NOW)


async def lost(controller):
    return (await controller.get("/v1/orgs/acme/runners/3/health")).json()


@pytest.mark.parametrize(
    ("body", "claim"),
    [
        ({"runner_name": "c", "job_id": 42, "ttl_seconds": 60}, PodClaim("pod-1", "c", 42, NOW + 60, NOW)),
        ({"ttl_seconds": 1}, PodClaim("pod-1", "pod-1", None, NOW + 1, NOW)),
        ({"runner_name": None, "job_id": None, "ttl_seconds": 1.5}, PodClaim("pod-1", "pod-1", None, NOW + 1.5, NOW)),
        ({"ttl_seconds": 86_400}, PodClaim("pod-1", "pod-1", None, NOW + 86_400, NOW)),
        ({"ttl_seconds": 1, "job_id": 10**18 - 1}, PodClaim("pod-1", "pod-1", 10**18 - 1, NOW + 1, NOW)),
    ],
    ids=["all fields", "required fields alone", "nulls and a fraction", "a day", "a large job"],
)
async def test_a_claim_is_recorded_as_sent(controller, redis, body, claim):
    for _ in range(2):
        answer = await controller.put(POD, json=body)
        assert (answer.status_code, answer.content) == (204, b"")
        assert await claims(redis) == [claim]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"ttl_seconds": 0.999}',
        b'{"ttl_seconds": 86400.001}',
        b'{"ttl_seconds": -1}',
        b'{"ttl_seconds": 1e999}',
        b'{"ttl_seconds": true}',
        b'{"ttl_seconds": "60"}',
        b'{"ttl_seconds": 60, "ttl": 60}',
        b'{"ttl_seconds": 60, "job_id": "42"}',
        b'{"ttl_seconds": 60, "job_id": 0}',
        b'{"ttl_seconds": 60, "job_id": 1000000000000000000}',
        b'{"ttl_seconds": 60, "job_id": 99999999999999999999999999}',
        b'{"ttl_seconds": 60, "runner_name": ""}',
        b'{"ttl_seconds": 60, "runner_name": "a\\u0000b"}',
        b'{"ttl_seconds": 60, "runner_name": "\\ud800"}',
        b'{"ttl_seconds": 60, "runner_name": "' + b"x" * 254 + b'"}',
        b'{"ttl_seconds": 60, "runner_name": "\xff"}',
    ],
)
async def test_an_invalid_claim_is_a_400_problem_and_changes_nothing(controller, redis, body):
    answer = await controller.put(POD, content=body)
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
    assert '"ttl_seconds": 1 to 86400' in answer.json()["detail"]
    assert await claims(redis) == []


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
@pytest.mark.parametrize(
    ("pod", "good"),
    [
        ("a", True),
        ("a-1.b", True),
        ("a" * 253, True),
        ("a" * 254, False),
        ("A", False),
        ("-a", False),
        ("a-", False),
        ("a_b", False),
        ("%00", False),
        ("%C3%A4", False),
        ("a%0A", False),
    ],
)
async def test_the_name_of_a_pod_is_validated(controller, redis, method, pod, good):
    answer = await controller.request(method, f"/v1/orgs/acme/claims/{pod}", json={"ttl_seconds": 60})
    assert answer.status_code == (204 if good else 400)
    assert len(await claims(redis)) == (good and method == "PUT")


async def test_a_body_that_is_too_large_is_a_413_problem(controller):
    assert (await controller.put(POD, content=b" " * (64 * 1024 + 1))).status_code == 413


@pytest.mark.parametrize(
    ("pod", "runner_name"),
    [("pod-1", "c"), ("c", None), ("c", "another")],
    ids=["by runner", "by pod", "by pod though another runner is named"],
)
async def test_a_claimed_runner_is_not_replaced_and_its_evidence_has_the_claim(controller, pod, runner_name):
    assert (await lost(controller))["replace"] is True
    body = {"ttl_seconds": 60, "runner_name": runner_name, "job_id": 42}
    await controller.put(f"/v1/orgs/acme/claims/{pod}", json=body)
    document = await lost(controller)
    assert (document["replace"], document["state"]) == (False, "invalidated")
    assert document["evidence"][-1] == {
        "at": "2027-01-15T08:00:00Z",
        "source": "claim",
        "text": f"its controller claims that pod {pod} is busy with job 42 until 2027-01-15 08:01:00 UTC",
    }


async def test_a_claim_does_not_protect_other_runners(controller):
    await controller.put(POD, json={"ttl_seconds": 60, "runner_name": "a"})
    assert (await lost(controller))["replace"] is True


async def test_a_runner_is_replaced_once_its_claim_is_released_and_a_release_is_idempotent(controller, redis):
    await controller.put(POD, json={"ttl_seconds": 60, "runner_name": "c"})
    assert (await lost(controller))["replace"] is False
    for _ in range(2):
        answer = await controller.delete(POD)
        assert (answer.status_code, answer.content) == (204, b"")
        assert await claims(redis) == []
        document = await lost(controller)
        assert document["replace"] is True
        assert not [each for each in document["evidence"] if "busy" in each["text"]]


@pytest.mark.parametrize(("after", "replace"), [(59.9, False), (60.0, True)])
async def test_an_expired_claim_protects_no_runner(controller, times, after, replace):
    await controller.put(POD, json={"ttl_seconds": 60, "runner_name": "c"})
    times[0] += after
    assert (await lost(controller))["replace"] is replace


async def test_the_liveness_probe_of_a_claimed_pod_succeeds(controller, times, redis):
    await Runners(redis).revise(INSTALLATION, {3: lambda known: granted(known, NOW, "event")})
    assert (await controller.get("/v1/orgs/acme/runners/c/alive")).status_code == 410
    await controller.put(POD, json={"ttl_seconds": 60, "runner_name": "c"})
    assert (await controller.get("/v1/orgs/acme/runners/c/alive")).status_code == 200
    times[0] += 60
    assert (await controller.get("/v1/orgs/acme/runners/c/alive")).status_code == 410


async def test_a_claim_above_the_maximum_number_is_refused(controller, redis, monkeypatch):
    monkeypatch.setattr(module, "MOST", 1)
    await controller.put(POD, json={"ttl_seconds": 60})
    answer = await controller.put("/v1/orgs/acme/claims/other", json={"ttl_seconds": 60})
    assert (answer.status_code, answer.headers["content-type"]) == (507, "application/problem+json")
    assert [each.pod for each in await claims(redis)] == ["pod-1"]


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_a_claim_requires_the_scope_claim_and_an_org_of_the_token(http, redis, controller, method):
    body = {"ttl_seconds": 60}
    assert (await http.request(method, "/v1/orgs/globex/claims/a", json=body)).status_code == 403
    for org in ("acme", "globex"):
        secret, _ = await Tokens(redis).create("reader", (org,), ("read",), NOW)
        http.headers["authorization"] = f"Bearer {secret}"
        assert (await http.request(method, f"/v1/orgs/{org}/claims/a", json=body)).status_code == 403
    secret, _ = await Tokens(redis).create("elsewhere", ("globex",), ("claim",), NOW)
    http.headers["authorization"] = f"Bearer {secret}"
    assert (await http.request(method, "/v1/orgs/globex/claims/a", json=body)).status_code == 404
    assert await claims(redis) == []


async def test_while_redis_is_away_new_claims_are_refused_and_stored_claims_hold(controller, away, monkeypatch):
    async def unanswered(*_):
        raise StoreUnavailableError("away")

    monkeypatch.setattr(PodClaims, "claim", unanswered)  # a script keeps the client that it was registered with
    assert (await controller.put(POD, json={"ttl_seconds": 60})).status_code == 503
    monkeypatch.undo()
    await controller.put(POD, json={"ttl_seconds": 60, "runner_name": "c"})
    assert (await lost(controller))["replace"] is False
    await asyncio.sleep(1.1)  # cached values expire after one second
    away.away = True
    assert (await lost(controller))["replace"] is False
    answer = await controller.delete(POD)
    assert (answer.status_code, answer.headers["content-type"]) == (503, "application/problem+json")


async def test_what_a_controller_declares_is_in_its_part_of_the_audit_log_once(controller, redis):
    for _ in range(2):
        await controller.put(POD, json={"ttl_seconds": 60})
    for _ in range(2):
        await controller.delete(POD)
    await controller.delete("/v1/orgs/acme/runners/3")
    entries = await AuditLog(redis).latest(INSTALLATION, 10, Trail.CONTROLLERS)
    assert [(each.channel, each.action, each.subject) for each in reversed(entries)] == [
        ("API", "claim", "pod-1"),
        ("API", "release", "pod-1"),
        ("API", "removed", "runner 3"),
    ]
    assert all(each.who.startswith("token controller (") and each.address for each in entries)
