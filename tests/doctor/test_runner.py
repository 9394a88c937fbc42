"""`ghapp doctor` with a real Redis and the sandbox GitHub."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from itertools import groupby
from threading import Event

import pytest
from rq import Worker

from ghapp.doctor import controllers, finding
from ghapp.doctor.runner import GROUPS, examine
from ghapp.github import installation_client
from ghapp.queue.jobs import QUEUES
from ghapp.runners.verdict import State
from ghapp.settings import Settings
from ghapp.store import keys
from ghapp.store.connect import connect_sync
from jobs.runners.sweep import sweep_installation
from tests.stories.conftest import story  # noqa: F401 - a fixture
from tests.support.keys import private_key

TRIES = 50


async def findings_by_name(app, **changes):
    environ = {**app.environ, **changes}
    return {(each.group, each.name): each for each in await examine(Settings.read(environ), environ)}


async def test_in_a_healthy_installation_only_the_stopped_roles_are_wrong(story):  # noqa: F811
    async with story() as app:
        await sweep_installation(app.context, app.installation)
        found = await findings_by_name(app)
        wrong = {where for where, each in found.items() if each.status == "wrong"}
        assert wrong == {("roles", "workers"), ("roles", "clocks")}
        assert found["github", "app"].text.startswith("ghapp")
        assert found["installations", "sweeps"].text.startswith("12 runners")
        assert found["controllers", "controller of linux-4vcpu"].status == "ok"


async def test_an_unreadable_runner_is_reported_until_the_next_sweep_overwrites_it(story):  # noqa: F811
    async with story() as app:
        await sweep_installation(app.context, app.installation)
        known = await app.context.runners.all(app.installation)
        spoiled = min(known)
        await app.context.redis.hset(keys.runners(app.installation), str(spoiled), b"garbage")
        assert set(await app.context.runners.all(app.installation)) == set(known) - {spoiled}
        records = (await findings_by_name(app))["redis", "records"]
        assert records.status == "warning"
        assert f"runner {spoiled} in {keys.runners(app.installation)}" in records.text
        await app.pass_(60)
        await sweep_installation(app.context, app.installation)
        assert set(await app.context.runners.all(app.installation)) == set(known)
        assert (await app.states()) == {State.HEALTHY: len(known)}
        assert (await findings_by_name(app))["redis", "records"].status == "ok"


async def test_without_redis_the_other_checks_still_run(story):  # noqa: F811
    async with story() as app:
        found = await findings_by_name(app, GHAPP_REDIS_URL="redis://127.0.0.1:1/0")
        assert found["redis", "answers"].status == "wrong"
        assert found["github", "app"].status == "ok"


async def test_a_redis_that_never_answers_does_not_block_other_checks(story):  # noqa: F811
    async with story() as app:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            found = await findings_by_name(app, GHAPP_REDIS_URL=f"redis://127.0.0.1:{silent.getsockname()[1]}/0")
        assert found["redis", "answers"].text == "no answer within 4 s"
        assert found["installations", "permissions"].status == "ok", "the findings from GitHub are reported"


@pytest.fixture
def replica(redis_url):
    """Makes the test's Redis a replica during the test; its data stays."""
    with connect_sync(redis_url) as redis:
        redis.config_set("replica-read-only", "yes")
        redis.replicaof("127.0.0.1", "1")
        yield
        redis.replicaof("NO", "ONE")


async def test_a_redis_replica_is_wrong_and_its_data_is_still_shown(story, request):  # noqa: F811
    async with story() as app:
        await sweep_installation(app.context, app.installation)
        request.getfixturevalue("replica")
        found = await findings_by_name(app)
        assert found["redis", "writing"].text == "it is a replica and rejects writes"
        assert found["installations", "sweeps"].text.startswith("12 runners")
        assert not [name for name in found if name[0] == "roles" and name[1] != "roles"], (
            "heartbeats prove nothing then"
        )
        assert found["roles", "roles"].text.startswith("unknown")


def test_a_name_server_that_never_answers_times_out(monkeypatch, tmp_path):
    ended, ours = Event(), socket.getaddrinfo

    def look_up(host, *args, **kwargs):
        if host in ("unknown.example", b"unknown.example"):
            ended.wait()
        return ours("127.0.0.1", *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(finding, "TIMEOUT_SECONDS", 1.0)
    names = {"GHAPP_GITHUB_WEB_URL": "http://unknown.example"}
    credentials = {"GHAPP_APP_ID": "7", "GHAPP_PRIVATE_KEY": private_key(), "GHAPP_WEBHOOK_SECRET": "hush"}
    environ = {"GHAPP_STATE_DIR": str(tmp_path), **credentials, **names}
    found = asyncio.run(examine(Settings.read(environ), environ))  # returns while the lookup's thread is blocked
    ended.set()
    (app,) = [each for each in found if each.name == "app"]
    assert app.text == "no answer within 1 s"


@pytest.mark.parametrize("wrong", ["GHAPP_PRIVATE_KEY", "GHAPP_APP_ID"])
async def test_an_id_or_a_key_of_another_app_is_reported_with_the_cause(story, wrong):  # noqa: F811
    async with story() as app:
        value = private_key() if wrong == "GHAPP_PRIVATE_KEY" else "999999"
        found = await findings_by_name(app, **{wrong: value})
        assert found["github", "app"].status == "wrong"
        assert "of the same App" in found["github", "app"].fix
        assert found["github", "clock"].status == "ok"
        assert found["installations", "sweeps"].org == "acme", "the stored findings are reported"


@pytest.mark.parametrize(
    ("repository", "status"),
    [("acme/.github", "ok"), ("acme/missing", "wrong"), ("globex/.github", "wrong")],
    ids=["exists", "does not exist", "of another organization"],
)
async def test_a_report_repository_is_verified_before_the_first_report(
    story,  # noqa: F811
    monkeypatch,
    repository,
    status,
):
    monkeypatch.setattr(installation_client, "SETTLING_SECONDS", 0.0)  # a new token is trusted at once
    async with story(config=f'[report]\nrepository = "{repository}"\n') as app:
        await sweep_installation(app.context, app.installation)
        assert (await findings_by_name(app))["installations", "report"].status == status


async def test_a_report_repository_that_is_not_verified_yet_is_not_wrong(story):  # noqa: F811
    async with story(config='[report]\nrepository = "acme/missing"\n') as app:
        found = (await findings_by_name(app))["installations", "report"]
        assert (found.status, "not verified" in found.text) == ("ok", True), "the token is too new to trust a 404"


async def test_an_unavailable_github_is_reported(story):  # noqa: F811
    async with story() as app:
        found = await findings_by_name(app, GHAPP_GITHUB_API_URL="http://127.0.0.1:1/api/v3")
        assert found["github", "app"].status == "wrong"
        assert "GHAPP_GITHUB_API_URL" in found["github", "app"].fix


@pytest.mark.parametrize("ahead", [-90, 90])
async def test_a_wrong_clock_is_reported(story, ahead):  # noqa: F811
    async with story() as app:
        app.sandbox.control.skew_clock(ahead=ahead)
        found = await findings_by_name(app)
        assert found["github", "clock"].status == "wrong"
        assert "of the same App" not in (found["github", "app"].fix or ""), "the key is not the cause"


async def test_a_missing_permission_is_reported_at_once_with_the_page_that_grants_it(story):  # noqa: F811
    async with story() as app:
        app.sandbox.control.withhold_permission("acme")
        missing = (await findings_by_name(app))["installations", "permissions"]
        assert (missing.status, missing.org) == ("wrong", "acme")
        assert f"/organizations/acme/settings/installations/{app.installation}" in missing.fix


async def test_a_suspended_installation_is_reported_at_once(story):  # noqa: F811
    async with story() as app:
        app.sandbox.control.suspend("acme")
        assert (await findings_by_name(app))["installations", "suspended"].status == "wrong"


async def test_a_failure_during_the_examination_hides_no_other_finding(story):  # noqa: F811
    async with story() as app:
        app.sandbox.control.fault(status=502, match="^/app/hook/config")
        app.sandbox.control.fault(cut_short=True, match="^/app/installations")
        found = await findings_by_name(app)
        assert found["deliveries", "webhook"].status == "wrong"
        assert found["github", "installations"].status == "wrong"
        assert found["github", "permissions"].status == "ok"
        assert found["installations", "permissions"].status == "ok", "the last stored state"
        assert ("deliveries", "arrivals") in found


async def test_failed_deliveries_are_reported_with_their_answer(story):  # noqa: F811
    async with story() as app:
        app.hook.status = 503
        app.listen()
        app.sandbox.control.suspend("acme")
        app.hook.wait(1)
        for _ in range(TRIES):  # GitHub's delivery log lags slightly
            arrivals = (await findings_by_name(app))["deliveries", "arrivals"]
            if arrivals.status == "wrong":
                break
        assert "failed: 503" in arrivals.text


async def test_findings_come_in_the_order_in_which_to_fix_them(story):  # noqa: F811
    async with story() as app:
        found = await examine(app.settings, app.environ)
        assert [group for group, _ in groupby(each.group for each in found)] == [
            each for each in GROUPS if each not in ("cluster", "notifications")
        ]
        assert len({(each.group, each.name, each.org) for each in found}) == len(found)


async def test_an_unavailable_controller_is_reported(story):  # noqa: F811
    async with story() as app:
        away = replace(app.settings.pools[0], name="away", url="http://127.0.0.1:1/events")
        found = await controllers.check(replace(app.settings, pools=(*app.settings.pools, away)))
        assert [each.status for each in found] == ["ok", "wrong"]


@pytest.mark.usefixtures("redis")
async def test_without_an_app_the_finding_says_how_to_create_one(redis_url, tmp_path):
    environ = {"GHAPP_REDIS_URL": redis_url, "GHAPP_STATE_DIR": str(tmp_path)}
    found = await examine(Settings.read(environ), environ)
    assert [(each.group, each.name) for each in found if each.status == "wrong"] == [("configuration", "credentials")]
    (credentials,) = [each for each in found if each.name == "credentials"]
    assert "/setup" in credentials.fix
    assert not [each for each in found if each.group == "installations"]
    (roles,) = [each for each in found if each.group == "roles"]
    assert roles.text == "workers and clocks start once there are App credentials"


@pytest.mark.usefixtures("redis")
async def test_before_the_set_up_of_a_running_up_its_address_is_what_is_missing(redis_url, tmp_path):
    environ = {"GHAPP_STATE_DIR": str(tmp_path)}
    found = await examine(replace(Settings.read(environ), redis_url=redis_url), environ)
    (credentials,) = [each for each in found if each.name == "credentials"]
    assert "the running `ghapp up`" in credentials.fix


async def test_a_role_without_credentials_beside_live_workers_misses_nothing(redis_url, tmp_path, redis):
    worker = Worker(QUEUES, connection=connect_sync(redis_url))
    worker.register_birth()
    environ = {"GHAPP_REDIS_URL": redis_url, "GHAPP_STATE_DIR": str(tmp_path)}
    found = {(each.group, each.name): each.status for each in await examine(Settings.read(environ), environ)}
    assert found["configuration", "credentials"] == "ok"
    assert found["roles", "clocks"] == "wrong", "of the roles, everything is reported"


async def test_the_page_shows_the_checks_of_the_web_role_and_makes_no_calls_of_an_installation(story):  # noqa: F811
    async with story(config='[report]\nrepository = "acme/.github"') as app:
        await sweep_installation(app.context, app.installation)
        before = app.account()["calls"]
        found = await examine(app.settings, app.environ, by_web_role=True)
        after = app.account()["calls"]
    groups = {each.group for each in found}
    assert {"configuration", "redis", "roles", "github", "installations"} <= groups
    assert groups.isdisjoint({"controllers", "cluster", "notifications"})
    assert {each.name for each in found if each.status == "wrong"} == {"workers", "clocks"}
    grown = {operation for operation, calls in after.items() if calls != before.get(operation)}
    assert "GET /app" in grown
    assert [each for each in grown if not each.startswith("GET /app")] == []
