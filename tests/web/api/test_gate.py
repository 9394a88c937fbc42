"""The gate over HTTP, and what deploys report of their shards."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from ghapp.deaths.cause import Cause
from ghapp.deaths.death import Death
from ghapp.deaths.store import Deaths
from ghapp.gate.active_shard import ActiveShardAnswer, Deploy, Role
from ghapp.gate.api import MOST_DEATHS
from ghapp.gate.gate_checks import GateCheck
from ghapp.gate.store import GateChecks, Shards
from ghapp.pods.pod import Container, Pod
from ghapp.pods.store import Pods
from ghapp.queue.jobs import JobName
from ghapp.runners.evidence import Registration, Survey
from ghapp.runners.observations import SeenBy, job_started, registration_seen
from ghapp.runners.store import Runners
from ghapp.settings import Settings
from ghapp.store.audit import AuditLog, Trail
from ghapp.store.tokens import Tokens
from ghapp.web.app import build
from ghapp.web.openapi import description
from tests.support.keys import private_key
from tests.web.conftest import INSTALLATION, NOW, validated_against_the_description

GATE = "/v1/orgs/acme/pools/linux/shards/pink/gate"
PINK = "/v1/orgs/acme/pools/linux/shards/pink"
POLICY = """
[[pools]]
org = "acme"
name = "linux"
labels = ["linux-4vcpu"]
shard_label = "shard"
min_online = 2
active_command = ["false"]
namespace = "runners"

[[pools]]
org = "acme"
name = "mac"
labels = ["mac"]

[[pools]]
org = "acme"
name = "win"
labels = ["win"]
shard_label = "shard"
deploy_repository = "acme/infra"
"""


def on(shard, number, **changes):
    labels = ("linux-4vcpu", f"shard:{shard}")
    seen = Registration(number, f"{shard}-{number}", "linux", True, False, labels, labels, ephemeral=False)
    return registration_seen(None, seen._replace(**changes), NOW - 600, by=SeenBy.LIST)


@pytest.fixture
async def fleet(away, redis):
    """Purple is active and took a job; two runners of pink are online."""
    known = [on("pink", 11), on("pink", 12), job_started(on("purple", 21), 500, NOW - 60)]
    await Runners(redis).revise(INSTALLATION, {each.id: lambda _, each=each: each for each in known})
    await Runners(redis).save_survey(INSTALLATION, Survey(NOW - 3, 3))
    await Shards(redis).answered(INSTALLATION, "linux", ActiveShardAnswer("purple", "", NOW - 20))


@pytest.fixture
async def http(away, times, redis, fleet, asked, tmp_path):
    (tmp_path / "ghapp.toml").write_text(POLICY)
    environ = {"GHAPP_APP_ID": "1", "GHAPP_PRIVATE_KEY": private_key(), "GHAPP_WEBHOOK_SECRET": "secret"}
    settings = Settings.read({**environ, "GHAPP_CONFIG": str(tmp_path / "ghapp.toml")})
    secret, token = await Tokens(redis).create("ci", ("acme",), ("read", "claim"), NOW)

    async def ask_for(work, *args, key=None, retry=True):
        asked.append((work, args, key, retry))

    application = build(settings, away, ask_for, lambda: times[0])
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(application),
        base_url="http://ghapp",
        headers={"authorization": f"Bearer {secret}"},
        event_hooks={"response": [validated_against_the_description]},
    ) as client:
        client.token_id = token.id
        yield client


async def test_a_shard_that_may_take_over_passes(http):
    answer = await http.get("/v1/orgs/ACME/pools/linux/shards/Pink/gate")
    assert answer.status_code == 200
    body = answer.json()
    assert list(body) == ["pool", "shard", "passed", "role", "checks", "next", "check_url", "observed_at"]
    assert (body["pool"], body["shard"], body["passed"], body["role"]) == ("linux", "Pink", True, "inactive")
    assert body["checks"][0] == {
        "name": "users",
        "passed": True,
        "text": "the active shard purple has taken 1 job in the last 10 minutes; no outage",
        "decides": False,
    }
    assert body["next"] == []


async def test_the_overview_has_the_shards_of_a_pool_and_the_check_by_which_a_gate_fails(http, redis):
    sha = "0" * 39 + "1"
    await Shards(redis).record(INSTALLATION, "win", lambda _: Deploy("pink", Role.INACTIVE, NOW - 600, NOW - 600, sha))
    await GateChecks(redis).keep(INSTALLATION, "win/pink", GateCheck(sha, NOW - 600, "acme/infra", NOW - 600))
    await Runners(redis).revise(INSTALLATION, {41: lambda _: on("purple", 41, labels=("win", "shard:purple"))})
    overview = (await http.get("/v1/orgs/acme/overview")).json()
    shards = {each["pool"]: each["shards"] for each in overview["pools"]}
    assert [
        (each["shard"], each["role"], each["online"], each["idle"], each["runners"]) for each in shards["linux"]
    ] == [
        ("purple", "active", 1, 0, 1),
        ("pink", "inactive", 2, 2, 2),
    ]
    (failing,) = [each["text"] for each in overview["headlines"] if each["kind"] == "gate"]
    assert "since the deploy of 0000000: 0 runners of pink online, 1 needed" in failing


@pytest.mark.parametrize(
    ("of", "check_url"),
    [(NOW, "https://github.com/acme/infra/runs/88"), (NOW - 9, None)],
    ids=["of the last deploy", "of an earlier one"],
)
async def test_the_check_run_of_the_last_deploy_is_named(http, redis, of, check_url):
    sha = "0" * 39 + "1"
    await Runners(redis).revise(INSTALLATION, {41: lambda _: on("pink", 41, labels=("win", "shard:pink"))})
    await Shards(redis).record(INSTALLATION, "win", lambda _: Deploy("pink", Role.INACTIVE, NOW, NOW, sha))
    await GateChecks(redis).keep(INSTALLATION, "win/pink", GateCheck(sha, of, "acme/infra", of, check_run=88))
    assert (await http.get(GATE.replace("linux", "win"))).json()["check_url"] == check_url


@pytest.mark.parametrize(
    ("query", "passed"),
    [
        ("", True),
        ("?min_online=2", True),
        ("?min_online=3", False),
        ("?version=2.336.0", False),
        ("?canary=true", False),
        ("?canary=false", True),
        ("?expect_new=true&failures=3", True),
    ],
)
async def test_the_query_sets_the_gates_parameters(http, query, passed):
    answer = await http.get(GATE + query)
    assert answer.json()["passed"] is passed


async def test_the_pool_sets_min_online_unless_the_query_does(http):
    gate = "/v1/orgs/acme/pools/linux/shards/purple/gate"
    assert (await http.get(gate)).json()["passed"] is False, "one runner is online, and the pool requires two"
    assert (await http.get(f"{gate}?min_online=1")).json()["passed"] is True


async def test_a_reported_deploy_is_used_by_the_next_gate(http, redis, times):
    found = {"role": "inactive", "deployed_at": "2027-01-15T07:50:00Z", "ref": "v42"}
    assert (await http.put(PINK, json=found)).status_code == 204
    assert "the last deploy says that pink is inactive" in (await http.get(GATE)).text
    times[0] += 5
    assert (await http.put("/v1/orgs/acme/pools/linux/shards/PINK", json={"role": "active"})).status_code == 204
    answer = (await http.get(GATE)).json()
    assert (answer["passed"], answer["role"], [each["step"] for each in answer["next"]]) == (False, "unknown", ["stop"])
    assert "the last deploy says that pink is active" in answer["next"][0]["why"]
    assert "the configuration says that purple is active (active_command)" in answer["next"][0]["why"]
    (deploy,) = await Shards(redis).deploys(INSTALLATION, "linux")
    assert (deploy.role, deploy.deployed_at, deploy.ref, deploy.reported_at) == (Role.ACTIVE, NOW - 600, "v42", NOW + 5)
    assert deploy.by == f"token ci ({http.token_id})"


async def lose(redis, *numbers, at=NOW - 400):
    """GitHub has listed these runners of pink as offline for long."""
    for number in numbers:
        gone = on("pink", number)._replace(online=False, offline_since=at)
        await Runners(redis).revise(INSTALLATION, {number: lambda _, gone=gone: gone})


async def test_two_reported_deploys_in_a_row_that_failed_are_counted_by_ghapp(http, redis, times):
    await lose(redis, 11, 12)

    async def steps_after(ref):
        assert (await http.put(PINK, json={"role": "inactive", "ref": ref})).status_code == 204
        times[0] += 200
        await Runners(redis).save_survey(INSTALLATION, Survey(times[0] - 1, 3))
        await Shards(redis).answered(INSTALLATION, "linux", ActiveShardAnswer("purple", "", times[0] - 20))
        return [each["step"] for each in (await http.get(f"{GATE}?min_online=1")).json()["next"]]

    assert "shut down pink and start it again" in await steps_after("v1")
    again = await steps_after("v2")
    assert "clean up pink and provision it again" in again
    assert "shut down pink and start it again" not in again
    await Runners(redis).revise(INSTALLATION, {number: lambda _, n=number: on("pink", n) for number in (11, 12)})
    assert (await http.get(GATE)).json()["passed"], "v2 passes after all"
    await lose(redis, 11, 12)
    assert "shut down pink and start it again" in await steps_after("v3")


async def test_a_demanding_request_fails_no_deploy(http, redis, times):
    await http.put(PINK, json={"role": "inactive", "ref": "v1"})
    times[0] += 200
    await Runners(redis).save_survey(INSTALLATION, Survey(times[0] - 1, 3))
    assert not (await http.get(f"{GATE}?min_online=9")).json()["passed"]
    (deploy,) = await Shards(redis).deploys(INSTALLATION, "linux")
    assert (deploy.passed_at, deploy.failed_at) == (times[0], None)


async def test_what_a_deploy_provisioned_is_compared_with_what_an_earlier_one_destroyed(http):
    def provision(answer):
        return [each["text"] for each in answer.json()["checks"] if each["name"] == "provision"]

    assert provision(await http.get(GATE)) == []
    await http.put(PINK, json={"role": "inactive", "ref": "v1", "provision": "0,0,4"})
    await http.put(PINK, json={"role": "inactive", "ref": "v2", "provision": "1,2,0", "provision_error": ""})
    (found,) = provision(await http.get(GATE))
    assert found == (
        "the last run added 1, changed 2 and destroyed 0 resources; before it 4 resources had been destroyed, 1 of them added again; "
        "3 resources more destroyed than added"
    )
    (asked,) = provision(await http.get(f"{GATE}?provision=4,0,0,1"))
    assert asked.endswith("before it 4 resources had been destroyed, 4 of them added again")


async def test_what_the_cluster_shows_of_an_unhealthy_agent_is_named_while_the_view_is_fresh(http, redis, times):
    await lose(redis, 11, 12)
    waits = Container("runner", waiting="ImagePullBackOff", waiting_message="no such tag")
    pod = Pod("runners", "pink-11", "u", "1", NOW - 900, container="runner", runner=waits)
    await Pods(redis).replace_pods("runners", [pod], NOW)
    await Pods(redis).replace_objects("runners", [], NOW)
    assert "its agent has not started: ImageNotPulled (no such tag)" in (await http.get(GATE)).text
    times[0] += 200
    assert "its agent has not started" not in (await http.get(GATE)).text


async def test_a_change_since_the_failure_makes_provisioning_worth_while_again(http, redis):
    await lose(redis, 11, 12)
    futile = (await http.get(f"{GATE}?provision=0,0,0")).json()["next"]
    assert "provision pink again" not in [each["step"] for each in futile]
    changed = (await http.get(f"{GATE}?provision=0,0,0&changed=raised the quota")).json()["next"]
    (again,) = [each["why"] for each in changed if each["step"] == "provision pink again"]
    assert again.startswith("changed since the failure: raised the quota")


SHA = "0123456789ABCDEF0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("pool", "found", "enqueued"),
    [
        ("win", {"ref": SHA}, True),
        ("win", {"ref": SHA[:39]}, False),
        ("win", {}, False),
        ("linux", {"ref": SHA}, False),
    ],
    ids=["a commit", "no commit", "no ref", "no repository for the check run"],
)
async def test_the_check_run_of_a_deployed_commit_is_enqueued(http, asked, pool, found, enqueued):
    answer = await http.put(f"/v1/orgs/acme/pools/{pool}/shards/pink", json={"role": "inactive", **found})
    assert answer.status_code == 204
    assert asked == ([(JobName.GATE, (INSTALLATION,), f"gate-{INSTALLATION}", False)] if enqueued else [])


async def test_a_new_role_of_a_reported_commit_enqueues_the_check_run_again(http, asked):
    for found in ({"role": "inactive", "ref": SHA}, {"role": "active"}):
        await http.put("/v1/orgs/acme/pools/win/shards/pink", json=found)
    assert len(asked) == 2


async def test_a_gate_query_enqueues_no_job(http, asked):
    await http.get(GATE)
    assert asked == []


async def test_a_first_report_without_a_time_is_dated_now(http, redis):
    await http.put(PINK, json={"role": "inactive"})
    (deploy,) = await Shards(redis).deploys(INSTALLATION, "linux")
    assert (deploy.deployed_at, deploy.ref) == (NOW, "")


async def report_deploy(http, redis, **found):
    assert (await http.put(PINK, json={"role": "inactive", **found})).status_code == 204
    (deploy,) = await Shards(redis).deploys(INSTALLATION, "linux")
    return deploy


async def test_another_ref_is_a_new_deploy_dated_now_unless_the_report_has_a_time(http, redis, times):
    """Otherwise a canary of the previous deploy would count for the new deploy."""
    await report_deploy(http, redis, ref="v41", deployed_at="2027-01-15T07:50:00Z")
    times[0] += 60
    assert (await report_deploy(http, redis)).deployed_at == NOW - 600, "the same deploy, reported again"
    assert (await report_deploy(http, redis, ref="v41")).deployed_at == NOW - 600
    assert (await report_deploy(http, redis, ref="v42")).deployed_at == NOW + 60
    assert (await report_deploy(http, redis, ref="v43", deployed_at="2027-01-15T07:59:00Z")).deployed_at == NOW - 60


async def test_a_repeated_report_keeps_the_time_of_the_first_report(http, redis, times):
    assert (await report_deploy(http, redis, ref="v41")).first_reported_at == NOW
    times[0] += 60
    again = await report_deploy(http, redis, role="active")
    assert (again.reported_at, again.first_reported_at) == (NOW + 60, NOW)
    times[0] -= 120
    assert (await report_deploy(http, redis)).first_reported_at == NOW - 60, "the clock had jumped"
    times[0] += 180
    assert (await report_deploy(http, redis, ref="v42")).first_reported_at == NOW + 120


async def test_a_changed_deploy_is_in_the_audit_log_once(http, redis, times):
    """Which shard is active decides what the gate lets pass."""
    for role in ("inactive", "inactive", "active"):
        await report_deploy(http, redis, role=role, ref="v41")
    entries = await AuditLog(redis).latest(INSTALLATION, 9, Trail.CONTROLLERS)
    assert [(each.action, each.subject) for each in reversed(entries)] == [
        ("deploy", "linux/pink as inactive"),
        ("deploy", "linux/pink as active"),
    ]


async def test_a_runner_list_from_before_the_deploy_is_not_used(http, redis, times):
    await report_deploy(http, redis, ref="v42")
    answer = (await http.get(GATE)).json()
    assert (answer["passed"], [each["step"] for each in answer["next"]]) == (
        False,
        ["wait for the next list of runners, then run the gate again"],
    )
    await Runners(redis).save_survey(INSTALLATION, Survey(NOW, 3))
    assert (await http.get(GATE)).json()["passed"] is True


async def test_concurrent_reports_of_several_shards_are_all_recorded(http, redis):
    paths = [f"/v1/orgs/acme/pools/linux/shards/{shard}" for shard in ("pink", "purple", "green")]
    found = await asyncio.gather(*(http.put(path, json={"role": "inactive"}) for path in paths * 3))
    assert {each.status_code for each in found} == {204}
    known = await Shards(redis).deploys(INSTALLATION, "linux")
    assert sorted(each.shard for each in known) == ["green", "pink", "purple"]


def test_the_description_mentions_the_check_run():
    put = description()["paths"]["/v1/orgs/{org}/pools/{pool}/shards/{shard}"]["put"]
    assert 'the check run "Runner gate" is updated on that commit' in put["summary"]


async def test_the_gate_reads_redis_and_uses_no_cached_value(http, redis):
    """Other routes may return a cached value while Redis is slow."""
    assert (await http.get(GATE)).json()["passed"] is True
    offline = on("pink", 11)._replace(online=False, offline_since=NOW - 400)
    await Runners(redis).revise(INSTALLATION, {11: lambda _: offline})
    assert (await http.get(GATE)).json()["passed"] is False
    await Runners(redis).revise(INSTALLATION, {11: lambda _: on("pink", 11)})
    await Runners(redis).save_survey(INSTALLATION, Survey(NOW - 3, 3, NOW - 1, "GitHubUnavailable"))
    assert (await http.get(GATE)).json()["passed"] is False


async def test_clean_exits_of_a_busy_fleet_do_not_hide_a_crash_loop(http, redis, times):
    """An ephemeral runner exits after each job."""
    deaths = Deaths(redis, lambda: NOW)
    for number in range(3):
        dead = Death("pink-11", f"pod-{number}", "node", NOW - 300 - number, 137, None, "", Cause.HOST_OOM, "")
        await deaths.record(INSTALLATION, dead)
    for number in range(MOST_DEATHS):
        done = Death("other", f"done-{number}", "node", NOW - number / 10, 0, None, "", Cause.CLEAN_EXIT, "")
        await deaths.record(INSTALLATION, done)
    assert (await http.get(GATE)).json()["passed"] is False


async def test_deaths_in_a_crash_loop_are_counted_in_a_watched_cluster(http, redis, times):
    for number in range(3):
        dead = Death("pink-11", f"pod-{number}", "node", NOW - number - 1, 137, None, "OOMKilled", Cause.HOST_OOM, "")
        await Deaths(redis, lambda: NOW).record(INSTALLATION, dead)
    answer = (await http.get(GATE)).json()
    assert answer["passed"] is False
    (deaths,) = [each for each in answer["checks"] if each["name"] == "deaths"]
    assert deaths["text"] == "3 died in the last 10 minutes: 3 host-oom: a loop"


async def test_while_redis_is_away_the_gate_is_503_and_uses_no_cached_value(http, away):
    away.away = True
    answer = await http.get(GATE)
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "5"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "expected"),
    [
        ("GET", f"{GATE}?min_online=0", None, 400, "min_online takes a whole number of 1 or more"),
        ("GET", f"{GATE}?min_online=many", None, 400, "min_online takes"),
        ("GET", f"{GATE}?min_online=99999999", None, 400, "min_online takes"),
        ("GET", f"{GATE}?canary=perhaps", None, 400, "canary takes true or false"),
        (
            "GET",
            f"{GATE}?min-online=9",
            None,
            400,
            "the gate takes canary, changed, expect_new, failures, min_online, provision, provision_error, version",
        ),
        ("GET", f"{GATE}?min_online=9&min_online=1", None, 400, "each once"),
        ("GET", f"{GATE}?changed=%20", None, 400, "changed takes what was changed, in 200 characters at most"),
        ("GET", f"{GATE}?changed={'x' * 201}", None, 400, "changed takes what was changed"),
        ("PUT", PINK, {"role": "inactive", "provision": "many"}, 400, "provision"),
        ("PUT", PINK, {"role": "inactive", "provision": "1,0,0,0,0"}, 400, "provision"),
        ("GET", f"{GATE}?expect_new=perhaps", None, 400, "expect_new takes true or false"),
        ("GET", f"{GATE}?failures=0", None, 400, "failures takes a whole number of 1 or more"),
        ("GET", "/v1/orgs/acme/pools/linux/shards/pinc/gate", None, 404, "did you mean pink? known are pink, purple"),
        ("GET", f"{GATE}?version=", None, 400, "version takes a version"),
        ("GET", f"{GATE}?min_online=%D9%A3", None, 400, "min_online takes"),
        ("GET", "/v1/orgs/acme/pools/linux/shards/-/gate", None, 400, "the name of a shard has letters"),
        ("GET", "/v1/orgs/acme/pools/gpu/shards/pink/gate", None, 404, "unknown pool gpu of acme; "),
        (
            "GET",
            "/v1/orgs/acme/pools/mac/shards/pink/gate",
            None,
            404,
            "pool mac of acme has no shards: set shard_label, ",
        ),
        ("GET", "/v1/orgs/globex/pools/linux/shards/pink/gate", None, 403, "for globex"),
        ("PUT", PINK, {}, 400, "role"),
        ("PUT", PINK, {"role": "new"}, 400, "it takes"),
        ("PUT", PINK, {"role": "active", "colour": "pink"}, 400, "it takes"),
        ("PUT", PINK, {"role": "active", "deployed_at": "2027-01-15T07:50:00"}, 400, "it takes"),
        ("PUT", PINK, {"role": "active", "deployed_at": "2027-01-15T08:05:01Z"}, 400, "in the future"),
        ("PUT", PINK, {"role": "active", "deployed_at": "1969-12-31T23:59:59Z"}, 400, "deployed_at is before 1970"),
        ("PUT", PINK, {"role": "active", "deployed_at": "0001-01-01T00:00:00Z"}, 400, "deployed_at is before 1970"),
        ("PUT", PINK, {"role": "active", "deployed_at": "9999-12-31T23:59:59-12:00"}, 400, "in the future"),
        ("PUT", PINK, {"role": "active", "deployed_at": NOW}, 400, "it takes"),
        ("PUT", PINK, [], 400, "it takes"),
        ("PUT", PINK, None, 400, "it takes"),
        ("PUT", PINK, {"role": "active", "ref": "x" * 201}, 400, "it takes"),
        ("PUT", "/v1/orgs/acme/pools/linux/shards/a%20b", {"role": "active"}, 400, "the name of a shard has letters"),
        ("PUT", "/v1/orgs/acme/pools/gpu/shards/pink", {"role": "active"}, 404, "unknown pool gpu of acme; "),
        ("PUT", "/v1/orgs/globex/pools/linux/shards/pink", {"role": "active"}, 403, "for globex"),
        ("PUT", PINK, {"role": "active", "ref": "x" * 20_000}, 413, "at most 16384 bytes"),
    ],
)
async def test_an_invalid_request_is_a_problem_and_nothing_is_recorded(
    http, redis, method, path, body, status, expected
):
    answer = await http.request(method, path, json=body)
    assert answer.status_code == status
    assert expected in answer.json()["detail"]
    assert await Shards(redis).deploys(INSTALLATION, "linux") == ()


async def test_a_deploy_report_requires_another_scope_than_a_gate_query(http, redis):
    secret, _ = await Tokens(redis).create("reader", ("acme",), ("read",), NOW)
    headers = {"authorization": f"Bearer {secret}"}
    assert (await http.get(GATE, headers=headers)).status_code == 200
    assert (await http.put(PINK, json={"role": "active"}, headers=headers)).status_code == 403


async def test_the_health_document_names_the_shard(http):
    assert (await http.get("/v1/orgs/acme/runners/11/health")).json()["shard"] == "pink"
