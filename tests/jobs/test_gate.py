"""The clock asks for the gate's check runs while a commit waits for one, and at no other time."""

from __future__ import annotations

import time

import pytest
from rq.job import Job

from ghapp.health.installation import Installation
from ghapp.health.rollout.active import Deploy, Role
from ghapp.health.rollout.rounds import Round
from ghapp.settings import Settings
from ghapp.store.connect import connect_sync
from ghapp.store.gates import Gates
from ghapp.store.installations import Installations
from ghapp.store.shards import Shards
from jobs.gate import report_gates_of
from jobs.schedule import Clock
from tests.stories.test_gate import shards  # noqa: F401 - a fixture

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
    ids=["just told", "begun", "over", "a tag", "nowhere to post", "another org"],
)
async def test_it_is_asked_for_while_a_commit_waits(redis, redis_url, tmp_path, rows, org, ref, over, asked):
    (tmp_path / "ghapp.toml").write_text(POOL + rows)
    now = time.time()
    await Installations(redis).put(Installation(7, org, 70))
    await Shards(redis).tell(7, "linux", lambda _: Deploy("pink", Role.INACTIVE, now, now, ref))
    if over is not None:
        await Gates(redis).keep(7, "linux/pink", Round(SHA, now, "acme/infra", now, over=over))
    clock = Clock(Settings.read({"GHAPP_CONFIG": str(tmp_path / "ghapp.toml"), "GHAPP_REDIS_URL": redis_url}))
    await clock.tick()
    with connect_sync(redis_url) as desk:
        assert Job.exists("gate-7", connection=desk) is asked
    await clock.close()


async def test_it_is_not_asked_for_where_the_app_is_suspended(redis, redis_url, tmp_path):
    (tmp_path / "ghapp.toml").write_text(POOL + HERE)
    now = time.time()
    await Installations(redis).put(Installation(7, "acme", 70, suspended=True))
    await Shards(redis).tell(7, "linux", lambda _: Deploy("pink", Role.INACTIVE, now, now, SHA))
    clock = Clock(Settings.read({"GHAPP_CONFIG": str(tmp_path / "ghapp.toml"), "GHAPP_REDIS_URL": redis_url}))
    await clock.tick()
    with connect_sync(redis_url) as desk:
        assert not Job.exists("gate-7", connection=desk)
    await clock.close()


async def test_for_a_suspended_or_unknown_installation_nothing_is_said(shards):  # noqa: F811
    async with shards(rows=HERE) as it:
        await it.tell("pink", "inactive", SHA)
        assert await report_gates_of(it.house, it.installation + 1) == {}
        it.sandbox.control.suspend("acme")
        await it.receive()
        assert await report_gates_of(it.house, it.installation) == {}


async def test_pools_of_one_repository_are_told_apart_by_name(shards):  # noqa: F811
    another = '[[pools]]\norg = "acme"\nname = "mac"\nlabels = ["mac"]\nshard_label = "shard"\n'
    async with shards(rows=f"{HERE}\n{another}{HERE}") as it:
        sha = it.sandbox.control.head("acme", repository="infra")
        await it.tell("pink", "inactive", sha)
        told = Deploy("blue", Role.INACTIVE, it.clock(), it.clock(), sha)
        await Shards(it.house.redis).tell(it.installation, "mac", lambda _: told)
        assert len(await report_gates_of(it.house, it.installation)) == 2
        posted = it.sandbox.world.orgs["acme"].repositories["infra"].check_runs.values()
    assert {each["name"] for each in posted} == {"Runner gate: linux-4vcpu", "Runner gate: mac"}
