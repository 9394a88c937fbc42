"""The scheduler enqueues the gate's check runs only while a deployed commit waits for one."""

from __future__ import annotations

import time

import pytest
from rq.job import Job

from ghapp.gate.active_shard import Deploy, Role
from ghapp.gate.gate_checks import GateCheck
from ghapp.gate.store import GateChecks, Shards
from ghapp.installations.installation import Installation
from ghapp.installations.store import Installations
from ghapp.settings import Settings
from ghapp.store.connect import connect_sync
from jobs.reports.gate_report import report_gates_of
from jobs.scheduler import Scheduler
from tests.stories.gate.test_gate import shards  # noqa: F401 - a fixture

SHA = "0123456789abcdef0123456789abcdef01234567"
POOL = '[[pools]]\norg = "acme"\nname = "linux"\nlabels = ["linux"]\nshard_label = "shard"\n'
HERE = 'deploy_repository = "acme/infra"'


@pytest.mark.parametrize(
    ("rows", "org", "ref", "over", "asked"),
    [
        (HERE, "ACME", SHA, None, True),
        (HERE, "acme", SHA, False, True),
        (HERE, "acme", SHA, True, False),
        (HERE, "acme", "v42", None, False),
        ("", "acme", SHA, None, False),
        (HERE, "globex", SHA, None, False),
    ],
    ids=["just reported", "in progress", "completed", "a tag", "no repository", "another org"],
)
async def test_the_gate_report_is_enqueued_while_a_commit_waits(
    redis, redis_url, tmp_path, rows, org, ref, over, asked
):
    (tmp_path / "ghapp.toml").write_text(POOL + rows)
    now = time.time()
    await Installations(redis).put(Installation(7, org, 70))
    await Shards(redis).record(7, "linux", lambda _: Deploy("pink", Role.INACTIVE, now, now, ref))
    if over is not None:
        await GateChecks(redis).keep(7, "linux/pink", GateCheck(SHA, now, "acme/infra", now, over=over))
    clock = Scheduler(Settings.read({"GHAPP_CONFIG": str(tmp_path / "ghapp.toml"), "GHAPP_REDIS_URL": redis_url}))
    await clock.tick()
    with connect_sync(redis_url) as queue_redis:
        assert Job.exists("gate-7", connection=queue_redis) is asked
    await clock.close()


async def test_the_gate_report_is_not_enqueued_for_a_suspended_installation(redis, redis_url, tmp_path):
    (tmp_path / "ghapp.toml").write_text(POOL + HERE)
    now = time.time()
    await Installations(redis).put(Installation(7, "acme", 70, suspended=True))
    await Shards(redis).record(7, "linux", lambda _: Deploy("pink", Role.INACTIVE, now, now, SHA))
    clock = Scheduler(Settings.read({"GHAPP_CONFIG": str(tmp_path / "ghapp.toml"), "GHAPP_REDIS_URL": redis_url}))
    await clock.tick()
    with connect_sync(redis_url) as queue_redis:
        assert not Job.exists("gate-7", connection=queue_redis)
    await clock.close()


async def test_no_check_run_is_posted_for_a_suspended_or_unknown_installation(shards):  # noqa: F811
    async with shards(rows=HERE) as app:
        await app.report_deploy("pink", "inactive", SHA)
        assert await report_gates_of(app.context, app.installation + 1) == {}
        app.sandbox.control.suspend("acme")
        await app.receive()
        assert await report_gates_of(app.context, app.installation) == {}


async def test_pools_of_one_repository_are_distinguished_by_name(shards):  # noqa: F811
    another = '[[pools]]\norg = "acme"\nname = "mac"\nlabels = ["mac"]\nshard_label = "shard"\n'
    async with shards(rows=f"{HERE}\n{another}{HERE}") as app:
        sha = app.sandbox.control.head("acme", repository="infra")
        await app.report_deploy("pink", "inactive", sha)
        found = Deploy("blue", Role.INACTIVE, app.clock(), app.clock(), sha)
        await Shards(app.context.redis).record(app.installation, "mac", lambda _: found)
        assert len(await report_gates_of(app.context, app.installation)) == 2
        posted = app.sandbox.world.orgs["acme"].repositories["infra"].check_runs.values()
    assert {each["name"] for each in posted} == {"Runner gate: linux-4vcpu", "Runner gate: mac"}
