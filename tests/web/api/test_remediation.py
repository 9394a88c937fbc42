"""Pause, resume and sweep over HTTP."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from unittest.mock import AsyncMock

import httpx
import pytest

from ghapp.cli.api_client import ApiClient
from ghapp.remediation import store as fuses
from ghapp.remediation.fuse import Fuse, FuseReason, Position
from ghapp.remediation.pause import Pause
from ghapp.remediation.store import Fuses
from ghapp.report.documents import pause_in_words, timestamp
from ghapp.report.remaining_losses import RemainingLoss, RemainingLosses
from ghapp.store.audit import AuditEntry, AuditLog, Channel, Trail
from ghapp.store.presses import SWEEP_TOPIC, Press, Presses, check_topic
from ghapp.store.schedule import Schedule
from ghapp.store.tokens import Tokens
from ghapp.web.api import overview
from ghapp.wording import time_of
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
async def test_a_pause_takes_effect_at_once_and_has_its_author_and_reason(admin, redis, body, pool):
    answer = await admin.post("/v1/orgs/acme/pause", json=body)
    assert (answer.status_code, answer.json()["result"], answer.json()["pause"]["pool"]) == (200, "paused", pool)
    assert await paused(admin) is True
    pause = (await Fuses(redis).pauses(INSTALLATION))[pool]
    assert (pause.who, pause.why, pause.at) == (named(admin), "a move", NOW)


async def test_a_resume_clears_pauses_restarts_stopped_fuses_and_makes_a_sweep_due(admin, redis):
    await Schedule(redis).add(INSTALLATION, NOW + 60)
    await admin.post("/v1/orgs/acme/pause", json={"why": "a move"})
    await Fuses(redis).save(INSTALLATION, POOL, None, Fuse(Position.STOPPED, since=NOW - 60))
    answer = await admin.post("/v1/orgs/acme/resume")
    (pause,) = answer.json().pop("pauses")
    assert answer.json() == {"ended": ["*"], "pauses": [pause], "proving": [POOL], "reaping": []}
    assert (pause["pool"], pause["who"], pause["why"], pause["until"]) == ("*", named(admin), "a move", None)
    assert await paused(admin) is False
    fuse = (await Fuses(redis).all(INSTALLATION))[POOL]
    assert (fuse.position, fuse.reason, fuse.by) == (Position.PROVING, FuseReason.RESUMED, named(admin))
    assert await Schedule(redis).next(INSTALLATION) == NOW


class Alternating(httpx.AsyncBaseTransport):
    """Sends the reads to one web application, and the changes to another: a load balancer of requests."""

    def __init__(self, reads, changes):
        self._to = {"GET": httpx.ASGITransport(reads), "POST": httpx.ASGITransport(changes)}

    async def handle_async_request(self, request):
        return await self._to[request.method].handle_async_request(request)


async def test_commands_over_two_replicas_print_what_was_done_and_not_a_copy_of_before(admin, redis, replica):
    reads, changes = replica(), replica()
    await Fuses(redis).save(INSTALLATION, "*", None, Fuse(Position.STOPPED, since=NOW - 60))
    async with httpx.AsyncClient(
        transport=Alternating(reads, changes), base_url="http://ghapp", headers=admin.headers
    ) as client:
        commands, end = ApiClient(client, None), "`ghapp resume acme` ends it"
        held = (await client.get("/v1/orgs/acme/overview")).json()["held"]
        assert [each["kind"] for each in held] == ["fuse stopped"], "the copy of the reads is warm, without a pause"
        done = await commands.pause("acme", None, "maintenance", None)
        words = pause_in_words((await Fuses(redis).pauses(INSTALLATION))["*"])
        assert done == [f"paused: acme, {words}", end]
        again = await commands.pause("acme", None, "maintenance", None)
        assert again == [f"already paused: acme, {words}", end]
    async with httpx.AsyncClient(
        transport=Alternating(replica(), changes), base_url="http://ghapp", headers=admin.headers
    ) as client:
        held = (await client.get("/v1/orgs/acme/overview")).json()["held"]
        assert [each["kind"] for each in held] == ["pause", "fuse stopped"], "the copy of before, with both"
        assert await ApiClient(client, None).resume("acme", None) == [
            f"resumed: acme, paused {words}",
            "fuse restarted, now proving: acme, all pools",
        ]
        held = (await client.get("/v1/orgs/acme/overview")).json()["held"]
        assert [each["kind"] for each in held] == ["pause", "fuse stopped"], "it is still the copy of before"


async def test_a_pause_may_have_an_end(admin, redis, monkeypatch):
    monkeypatch.setattr(fuses, "redis_time", AsyncMock(return_value=NOW))
    assert (await admin.post("/v1/orgs/acme/pause", json={"why": "a move", "for_seconds": 60})).status_code == 200
    assert (await Fuses(redis).pauses(INSTALLATION))["*"].until == NOW + 60


@pytest.mark.parametrize(
    ("seconds", "status"), [(59.9, 400), (60, 200), (2_592_000, 200), (2_592_001, 400), ("2h", 400)]
)
async def test_an_end_is_a_minute_to_thirty_days_away(admin, seconds, status):
    answer = await admin.post("/v1/orgs/acme/pause", json={"why": "a move", "for_seconds": seconds})
    assert answer.status_code == status


async def test_what_a_token_changes_is_in_the_audit_log_under_its_name(admin, redis):
    await admin.post("/v1/orgs/acme/pause", json={"why": "a move", "pool": POOL})
    await admin.post("/v1/orgs/acme/resume")
    await admin.post("/v1/orgs/acme/resume")
    await Presses(redis).conclude(INSTALLATION, SWEEP_TOPIC, lambda _: "found nothing")
    entries = await AuditLog(redis).latest(INSTALLATION, 10)
    attempts = await AuditLog(redis).latest(INSTALLATION, 10, Trail.ATTEMPTS)
    assert {(each.who, each.channel) for each in (*entries, *attempts)} == {(named(admin), "API")}
    assert [(each.action, each.subject, each.why, each.result) for each in reversed(entries)] == [
        ("pause", POOL, "a move", "paused"),
        ("resume", "*", "", "resumed"),
    ]
    assert entries[0].detail.endswith("; sweep: found nothing")
    assert [(each.action, each.result) for each in attempts] == [("resume", "nothing-to-resume")]


async def test_an_unknown_pool_is_not_paused_and_the_known_pools_are_named(admin, redis):
    answer = await admin.post("/v1/orgs/acme/pause", json={"why": "a move", "pool": "linux-4vpcu"})
    assert answer.status_code == 404
    assert answer.json()["detail"] == "acme has no pool linux-4vpcu; did you mean linux-4vcpu? it has linux-4vcpu"
    assert await Fuses(redis).pauses(INSTALLATION) == {}


async def test_a_resume_of_one_pool_keeps_the_pauses_of_others(admin, redis):
    await Fuses(redis).save(INSTALLATION, "gpu", None, Fuse(since=NOW))
    for pool in (POOL, "gpu"):
        await admin.post("/v1/orgs/acme/pause", json={"why": "a move", "pool": pool})
    assert (await admin.post("/v1/orgs/acme/resume", json={"pool": "gpu"})).json()["ended"] == ["gpu"]
    assert await paused(admin) is True


@pytest.mark.parametrize("body", [{"why": "another"}, {"for_seconds": 3600}], ids=["as long", "shorter"])
async def test_a_pause_of_another_token_is_a_409_that_names_the_first_and_the_first_is_kept(admin, redis, body):
    first = Pause("lisa", "a move", NOW)
    await Fuses(redis).pause(INSTALLATION, "*", first)
    answer = await admin.post("/v1/orgs/acme/pause", json=body)
    assert answer.status_code == 409
    assert all(each in answer.json()["detail"] for each in ("lisa", "a move", "2027-01-15 08:00:00 UTC"))
    assert await Fuses(redis).pauses(INSTALLATION) == {"*": first}


async def test_a_pause_that_is_running_is_extended_with_an_entry_of_its_own(admin, redis, monkeypatch):
    monkeypatch.setattr(fuses, "redis_time", AsyncMock(return_value=NOW))
    first = Pause("lisa", "a move", NOW - 60, NOW + 120)
    await Fuses(redis).pause(INSTALLATION, "*", first)
    answer = await admin.post("/v1/orgs/acme/pause", json={"for_seconds": 14_400})
    assert (answer.status_code, answer.json()["before"]["until"]) == (200, timestamp(NOW + 120))
    assert await Fuses(redis).pauses(INSTALLATION) == {"*": replace(first, until=NOW + 14_400)}
    (entry,) = await AuditLog(redis).latest(INSTALLATION, 10)
    assert (entry.who, entry.action, entry.result) == (named(admin), "pause", "extended")
    assert entry.until == NOW + 14_400, "the time line of an incident has the end of the pause"
    assert entry.detail == f"before until {time_of(NOW + 120)}, for: a move"


async def test_a_pause_that_its_author_shortens_is_recorded_with_its_old_end_and_its_reason(admin, redis, monkeypatch):
    monkeypatch.setattr(fuses, "redis_time", AsyncMock(return_value=NOW))
    await admin.post("/v1/orgs/acme/pause", json={"why": "a move"})
    await admin.post("/v1/orgs/acme/pause", json={"for_seconds": 3600, "why": "a short move"})
    await admin.post("/v1/orgs/acme/pause", json={"for_seconds": 600})
    last, before, first = await AuditLog(redis).latest(INSTALLATION, 10)
    assert (first.result, first.detail) == ("paused", "")
    assert (before.result, before.detail) == ("changed", "before without an end, for: a move")
    assert (last.result, last.detail) == ("changed", f"before until {time_of(NOW + 3600)}, for: a short move")


async def test_a_new_pause_needs_a_reason(admin, redis):
    answer = await admin.post("/v1/orgs/acme/pause", json={"for_seconds": 3600})
    assert (answer.status_code, answer.json()["detail"][:22]) == (404, "no pause is running th")
    assert await Fuses(redis).pauses(INSTALLATION) == {}
    assert await AuditLog(redis).latest(INSTALLATION, 10) == []


async def test_a_repeated_pause_is_idempotent(admin, redis, times):
    for _ in range(2):
        assert (await admin.post("/v1/orgs/acme/pause", json={"why": "a move"})).status_code == 200
        times[0] += 5
    assert (await Fuses(redis).pauses(INSTALLATION))["*"].at == NOW


async def test_an_unknown_pool_is_not_resumed_and_no_sweep_is_due(admin, redis):
    await Schedule(redis).add(INSTALLATION, NOW + 60)
    answer = await admin.post("/v1/orgs/acme/resume", json={"pool": "linux-4vpcu"})
    assert answer.status_code == 404
    assert answer.json()["detail"] == "acme has no pool linux-4vpcu; did you mean linux-4vcpu? it has linux-4vcpu"
    assert await Schedule(redis).next(INSTALLATION) == NOW + 60


async def test_a_paused_pool_without_runners_can_be_resumed(admin, redis):
    await Fuses(redis).pause(INSTALLATION, "gone", Pause("mona", "a move", NOW))
    answer = await admin.post("/v1/orgs/acme/resume", json={"pool": "gone"})
    assert (answer.status_code, answer.json()["ended"]) == (200, ["gone"])


async def test_the_fuse_of_the_installation_is_not_listed_as_a_pool(admin, redis):
    await Fuses(redis).save(INSTALLATION, "*", None, Fuse(Position.STOPPED, since=NOW - 60))
    answer = await admin.post("/v1/orgs/acme/pause", json={"why": "x", "pool": "nope"})
    assert answer.json()["detail"] == "acme has no pool nope; it has linux-4vcpu"
    document = (await admin.get("/v1/orgs/acme/runners/1/health")).json()
    assert document["fuse"] == "stopped", "the installation's fuse applies to every pool"
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
async def test_an_invalid_request_changes_nothing(admin, redis, call, body):
    await Schedule(redis).add(INSTALLATION, NOW + 60)
    answer = await admin.post(f"/v1/orgs/acme/{call}", content=body)
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
    assert await Fuses(redis).pauses(INSTALLATION) == {}
    assert await Schedule(redis).next(INSTALLATION) == NOW + 60


@pytest.mark.parametrize("call", ["pause", "resume"])
async def test_a_body_that_is_too_large_is_a_413_problem(admin, call):
    answer = await admin.post(f"/v1/orgs/acme/{call}", content=b" " * (64 * 1024 + 1))
    assert (answer.status_code, answer.headers["content-type"]) == (413, "application/problem+json")
    answer = await admin.post(f"/v1/orgs/acme/{call}", content=b" " * 64 * 1024)
    assert answer.status_code == 400


@pytest.mark.parametrize("call", ["pause", "resume"])
async def test_pause_and_resume_require_the_scope_admin(http, call):
    assert (await http.post(f"/v1/orgs/acme/{call}", json={"why": "x"})).status_code == 403


async def test_a_sweep_is_due_at_once_and_recorded_and_its_outcome_follows(admin, redis):
    await Schedule(redis).add(INSTALLATION, NOW + 60)
    answer = await admin.post("/v1/orgs/ACME/sweep")
    asked = answer.json()
    assert (answer.status_code, asked["org"], asked["requested_at"]) == (202, "acme", "2027-01-15T08:00:00Z")
    assert await Schedule(redis).next(INSTALLATION) == NOW
    address, swept = f"/v1/orgs/acme/sweeps/{asked['sweep_id']}", {"org": "acme", "sweep_id": asked["sweep_id"]}
    assert (await admin.get(address)).json() == {**swept, "outcome": None, "failed": False, "lost": None, "losses": []}
    losses = RemainingLosses(3, (RemainingLoss("linux", 2, "waiting", "pause", "paused by mona"),))
    await Presses(redis).conclude(INSTALLATION, SWEEP_TOPIC, lambda _: "found 2 suspects, 4 calls", losses)
    assert (await admin.get(address)).json() == {
        **swept,
        "outcome": "found 2 suspects, 4 calls",
        "failed": False,
        "lost": 3,
        "losses": [
            {"pool": "linux", "runners": 2, "status": "waiting", "blocked_by": "pause", "text": "paused by mona"}
        ],
    }
    (entry,) = await AuditLog(redis).latest(INSTALLATION, 9)
    assert (entry.who, entry.channel, entry.action) == (named(admin), Channel.API, "sweep")
    assert entry.result == "found 2 suspects, 4 calls"


@pytest.mark.parametrize(
    ("outcome", "failed"),
    [
        ("already running: failed: ListIncomplete, 2 calls", True),
        ("failed: ListIncomplete, 2 calls; 1 runner remains lost: 1 of x requested", True),
        ("found 1 suspect, 2 calls; 1 runner remains lost: 1 of x waiting (paused by mona: failed: rent)", False),
    ],
)
async def test_a_sweep_that_failed_says_so(admin, redis, outcome, failed):
    sweep_id = (await admin.post("/v1/orgs/acme/sweep")).json()["sweep_id"]
    await Presses(redis).conclude(INSTALLATION, SWEEP_TOPIC, lambda _: outcome)
    assert (await admin.get(f"/v1/orgs/acme/sweeps/{sweep_id}")).json()["failed"] is failed


@pytest.mark.parametrize("sweep_id", ["0123456789abcdef", "0123456789abcdef:done", "x"])
async def test_an_unknown_sweep_is_a_404_problem_and_so_is_another_press(admin, redis, sweep_id):
    entry = AuditEntry(NOW, "mona", Channel.PAGE, "check", "1", "", "")
    await Presses(redis).put(INSTALLATION, "fedcba9876543210", Press(check_topic(1), entry))
    for each in (sweep_id, "fedcba9876543210"):
        answer = await admin.get(f"/v1/orgs/acme/sweeps/{each}")
        assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")


async def test_a_sweep_needs_the_scope_admin(http, redis):
    await Schedule(redis).add(INSTALLATION, NOW + 60)
    assert (await http.post("/v1/orgs/acme/sweep")).status_code == 403
    assert await Schedule(redis).next(INSTALLATION) == NOW + 60


async def test_an_overview_is_prepared_once_for_all_who_ask_and_again_when_something_changes(admin, redis, monkeypatch):
    judged, judge = [], overview.fleet_view

    def counted(*inputs):
        judged.append(inputs)
        return judge(*inputs)

    monkeypatch.setattr(overview, "fleet_view", counted)
    answers = await asyncio.gather(*(admin.get("/v1/orgs/acme/overview") for _ in range(5)))
    assert (len(judged), len({each.content for each in answers})) == (1, 1)
    assert answers[0].json()["held"] == []
    assert (await admin.post("/v1/orgs/acme/pause", json={"why": "a move"})).status_code == 200
    (held,) = (await admin.get("/v1/orgs/acme/overview")).json()["held"]
    assert (held["kind"], len(judged)) == ("pause", 2), "what the same process changed is shown at once"
