"""Pause and resume over HTTP."""

from __future__ import annotations

import pytest

from ghapp.health.remediation.fuse import Fuse, FuseReason, Position
from ghapp.queue.jobs import JobName
from ghapp.store.fuses import Fuses, Pause
from ghapp.store.tokens import Tokens
from tests.web.conftest import INSTALLATION, NOW

POOL = "linux-4vcpu"


@pytest.fixture
async def admin(http, redis):
    secret, token = await Tokens(redis).create("night shift", ("acme",), ("admin",), NOW)
    http.headers["authorization"] = f"Bearer {secret}"
    http.token_id = token.id
    return http


def named(client):
    return f"token night shift ({client.token_id})"


async def paused(http):
    return (await http.get("/v1/orgs/acme/runners/1/health")).json()["paused"]


@pytest.mark.parametrize(("body", "pool"), [({"why": "a move"}, "*"), ({"why": "a move", "pool": POOL}, POOL)])
async def test_a_pause_holds_at_once_and_says_who_and_why(admin, redis, body, pool):
    assert (await admin.post("/v1/orgs/acme/pause", json=body)).status_code == 204
    assert await paused(admin) is True
    pause = (await Fuses(redis).pauses(INSTALLATION))[pool]
    assert (pause.who, pause.why, pause.at) == (named(admin), "a move", NOW)


async def test_a_resumption_ends_pauses_and_lets_stopped_fuses_prove_and_a_sweep_looks_first(admin, redis, asked):
    await admin.post("/v1/orgs/acme/pause", json={"why": "a move"})
    await Fuses(redis).save(INSTALLATION, POOL, None, Fuse(Position.STOPPED, since=NOW - 60))
    answer = await admin.post("/v1/orgs/acme/resume")
    assert answer.json() == {"ended": ["*"], "proving": [POOL]}
    assert await paused(admin) is False
    fuse = (await Fuses(redis).all(INSTALLATION))[POOL]
    assert (fuse.position, fuse.reason, fuse.by) == (Position.PROVING, FuseReason.RESUMED, named(admin))
    assert [work for work, _, _ in asked] == [JobName.SWEEP]


async def test_a_pool_that_is_none_is_not_paused_and_the_pools_are_named(admin, redis):
    answer = await admin.post("/v1/orgs/acme/pause", json={"why": "a move", "pool": "linux-4vpcu"})
    assert answer.status_code == 404
    assert answer.json()["detail"] == "acme has no pool linux-4vpcu; it has linux-4vcpu"
    assert await Fuses(redis).pauses(INSTALLATION) == {}


async def test_a_resumption_of_one_pool_leaves_the_others(admin, redis):
    await Fuses(redis).save(INSTALLATION, "gpu", None, Fuse(since=NOW))
    for pool in (POOL, "gpu"):
        await admin.post("/v1/orgs/acme/pause", json={"why": "a move", "pool": pool})
    assert (await admin.post("/v1/orgs/acme/resume", json={"pool": "gpu"})).json()["ended"] == ["gpu"]
    assert await paused(admin) is True


async def test_a_second_pause_is_a_409_that_names_the_first_which_holds(admin, redis):
    await admin.post("/v1/orgs/acme/pause", json={"why": "a move"})
    answer = await admin.post("/v1/orgs/acme/pause", json={"why": "another"})
    assert answer.status_code == 409
    assert all(each in answer.json()["detail"] for each in (named(admin), "a move", "2027-01-15T08:00:00Z"))
    assert (await Fuses(redis).pauses(INSTALLATION))["*"].why == "a move"


async def test_a_pause_that_is_sent_again_is_as_good_as_once(admin, redis, times):
    for _ in range(2):
        assert (await admin.post("/v1/orgs/acme/pause", json={"why": "a move"})).status_code == 204
        times[0] += 5
    assert (await Fuses(redis).pauses(INSTALLATION))["*"].at == NOW


async def test_a_pool_that_is_none_is_not_resumed_and_nothing_is_looked_at(admin, asked):
    answer = await admin.post("/v1/orgs/acme/resume", json={"pool": "linux-4vpcu"})
    assert answer.status_code == 404
    assert answer.json()["detail"] == "acme has no pool linux-4vpcu; it has linux-4vcpu"
    assert asked == []


async def test_a_pool_whose_last_runner_left_can_be_resumed_while_it_is_paused(admin, redis):
    await Fuses(redis).pause(INSTALLATION, "gone", Pause("mona", "a move", NOW))
    answer = await admin.post("/v1/orgs/acme/resume", json={"pool": "gone"})
    assert (answer.status_code, answer.json()["ended"]) == (200, ["gone"])


async def test_the_whole_installation_is_no_pool_of_that_name(admin, redis):
    await Fuses(redis).save(INSTALLATION, "*", None, Fuse(Position.STOPPED, since=NOW - 60))
    answer = await admin.post("/v1/orgs/acme/pause", json={"why": "x", "pool": "nope"})
    assert answer.json()["detail"] == "acme has no pool nope; it has linux-4vcpu"
    document = (await admin.get("/v1/orgs/acme/runners/1/health")).json()
    assert document["fuse"] == "stopped", "it decides for every pool"
    assert (await admin.post("/v1/orgs/acme/resume", json={"pool": "*"})).json()["proving"] == ["*"]


@pytest.mark.parametrize(
    ("call", "body"),
    [
        ("pause", b""),
        ("pause", b'{"why": ""}'),
        ("pause", b'{"why": 1}'),
        ("pause", b'{"why": "x", "pools": []}'),
        ("pause", b'{"why": "\xff"}'),
        ("resume", b"["),
        ("resume", b'{"pool": 1}'),
    ],
)
async def test_what_is_no_such_request_changes_nothing(admin, redis, asked, call, body):
    answer = await admin.post(f"/v1/orgs/acme/{call}", content=body)
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
    assert await Fuses(redis).pauses(INSTALLATION) == {}
    assert asked == []


@pytest.mark.parametrize("call", ["pause", "resume"])
async def test_a_body_that_is_too_large_is_a_413_problem(admin, call):
    answer = await admin.post(f"/v1/orgs/acme/{call}", content=b" " * (64 * 1024 + 1))
    assert (answer.status_code, answer.headers["content-type"]) == (413, "application/problem+json")
    answer = await admin.post(f"/v1/orgs/acme/{call}", content=b" " * 64 * 1024)
    assert answer.status_code == 400


@pytest.mark.parametrize("call", ["pause", "resume"])
async def test_it_takes_the_scope_admin(http, call):
    assert (await http.post(f"/v1/orgs/acme/{call}", json={"why": "x"})).status_code == 403
