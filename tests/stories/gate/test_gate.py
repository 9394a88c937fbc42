"""Two shards of one pool in the sandbox: the gate's results for them, from real sweeps and deliveries."""

from __future__ import annotations

from contextlib import asynccontextmanager

import httpx
import pytest
from rq import Queue
from rq.serializers import JSONSerializer

from ghapp.cli.api_client import ApiClient
from ghapp.cli.api_connection import ActiveShards
from ghapp.gate.active_shard import Role
from ghapp.gate.commands import GateTimeouts, watch
from ghapp.gate.deploy_results import DeployReport, reported
from ghapp.gate.judgement import GateRequest
from ghapp.gate.store import Shards
from ghapp.queue.jobs import QUEUE_OF, JobName
from ghapp.sandbox.config import OrgConfig, Pace, PoolConfig, SandboxConfig
from ghapp.sandbox.server import SandboxServer
from ghapp.settings import Settings
from ghapp.web.command_api import command_api
from jobs.active_shard import refresh_active_shards_of
from jobs.context import open_context
from jobs.installations.discover import discover_installations
from jobs.runners.sweep import sweep_installation
from tests.sandbox.receivers import Receiver
from tests.stories.conftest import POOL, Clock, Story
from tests.stories.processes import environment

LONG_JOBS = Pace(job=(36_000.0, 36_000.0))
"""A job ends only when the story ends it."""


class Shop(Story):
    """A story with the shards purple, which is active, and pink, which is not."""

    async def live(self, seconds=60.0):
        await self.pass_(seconds)
        await sweep_installation(self.context, self.installation)

    async def report_deploy(self, shard, role, ref=""):
        report, now = DeployReport(shard, Role(role), self.clock(), ref), self.clock()
        await self.context.shards.record(self.installation, POOL, lambda last: reported(last, report, now))
        await self.pass_(2)  # GitHub's times are in whole seconds

    async def work_on(self, shard, count=1, *, finish=False):
        """Queues jobs that only this shard may take; deliveries report them."""
        jobs = self.sandbox.control.queue("acme", labels=[POOL, f"shard:{shard}"], count=count)
        await self.pass_(1)
        await self.receive(2 * count)
        if finish:
            for job in jobs:
                self.sandbox.control.finish("acme", job_id=job)
            await self.receive(count)
        return jobs

    def runners(self, shard):
        registered = self.sandbox.world.orgs["acme"].fleet.roster.registered.values()
        return [each.id for each in registered if each.pool == shard]

    def look(self, **asked):
        transport = httpx.ASGITransport(command_api(self.settings, self.context, self.clock, "mona"))
        query = ActiveShards(self.settings, self.context, self.clock).query
        client = ApiClient(httpx.AsyncClient(transport=transport, base_url="http://ghapp"), None, query)
        request = GateRequest(asked.pop("shard", "pink"), **asked)

        async def judge():
            return await (await client.gate("acme", POOL)).judge(request)

        return judge

    async def gate(self, **asked):
        return await self.look(**asked)()


@pytest.fixture
def shards(redis_url, redis, tmp_path):
    @asynccontextmanager
    async def open_shards(pink=3, purple=3, rows="", *, ephemeral=False):
        org = OrgConfig(
            pools=tuple(
                PoolConfig(name=name, size=size, labels=(POOL, f"shard:{name}"), ephemeral=ephemeral)
                for name, size in (("pink", pink), ("purple", purple))
            )
        )
        with (
            SandboxServer(SandboxConfig(orgs=(org,), quiet=True, ticking=False, pace=LONG_JOBS)) as sandbox,
            Receiver() as hook,
        ):
            policy = tmp_path / "ghapp.toml"
            policy.write_text(
                f'[[pools]]\norg = "acme"\nname = "{POOL}"\nlabels = ["{POOL}"]\nshard_label = "shard"\n{rows}'
            )
            environ = environment(sandbox, redis_url, policy)
            settings, clock = Settings.read(environ), Clock()
            async with open_context(settings, clock) as context:
                await discover_installations(context)
                shop = Shop(sandbox, settings, context, clock, hook, environ, sandbox.installation_id())
                shop.listen()
                await shop.live()
                await shop.live()
                await shop.report_deploy("purple", "active")
                yield shop

    return open_shards


def check(answer, name):
    (found,) = [each for each in answer.checks if each.name == name]
    return found


def steps(answer):
    return [each.step for each in answer.next]


async def test_a_clean_rollout_passes_takes_over_and_says_what_to_tidy(shards):
    async with shards(pink=0) as app:
        await app.work_on("purple", 2)
        await app.report_deploy("pink", "inactive", "v42")
        assert not (await app.gate(canary=True)).passed, "there is no runner yet"
        app.sandbox.control.register("acme", pool="pink", count=3)
        await app.live()
        assert not (await app.gate(min_online=3, canary=True)).passed, "no canary yet"
        await app.work_on("pink", finish=True)
        await app.live()
        ready = await app.gate(min_online=3, canary=True)
        assert ready.passed
        assert steps(ready) == ["make pink active in place of purple"]

        await app.report_deploy("pink", "active", "v42")
        await app.report_deploy("purple", "inactive")
        await app.live()
        await app.work_on("pink", 2)
        after = await app.gate()
    assert (after.passed, after.role) == (True, Role.ACTIVE)
    assert steps(after) == ["drain purple, then stop it"]
    assert "would interrupt 2 running jobs" in after.next[0].why
    assert not check(after, "one-shard").passed, "both took jobs within minutes"


async def test_the_inactive_shard_is_down_and_no_user_is_hurt(shards):
    async with shards() as app:
        await app.work_on("purple", 3)
        await app.report_deploy("pink", "inactive")
        app.sandbox.control.take_offline("acme", ids=app.runners("pink"), alive=False)
        for _ in range(7):  # the seventh list shows them offline for more than five minutes
            await app.live()
        await app.work_on("purple", 0)
        answer = await app.gate()
    assert not answer.passed
    assert check(answer, "users").text == "the active shard purple has taken 3 jobs in the last 10 minutes; no outage"
    assert [step.partition(":")[0] for step in steps(answer)] == [
        "check the agents of pink",
        "provision pink again",
        "shut down pink and start it again",
        "delete unhealthy runners",
        "taint the resources of pink and provision it again",
        "break glass",
    ]


async def test_the_second_deploy_in_a_row_that_fails_is_cleaned_up(shards):
    """No pipeline counts: the deploys were reported, and the gate was asked after each."""
    async with shards() as app:
        app.sandbox.control.take_offline("acme", ids=app.runners("pink"), alive=False)
        found = []
        for ref in ("v1", "v2"):
            await app.report_deploy("pink", "inactive", ref)
            for _ in range(6):
                await app.live()
            await app.work_on("purple")
            found.append(await app.gate())
    assert "shut down pink and start it again" in steps(found[0])
    assert "clean up pink and provision it again" in steps(found[1])


async def test_both_are_down_and_that_is_an_outage(shards):
    async with shards() as app:
        await app.report_deploy("pink", "inactive")
        app.sandbox.control.take_offline("acme", ids=app.runners("pink") + app.runners("purple"), alive=False)
        for _ in range(7):
            await app.live()
        answer = await app.gate()
        active = await app.gate(shard="purple")
    assert check(answer, "users").text == "the active shard purple has no runner online: an outage"
    assert [step.partition(":")[0] for step in steps(answer)][:3] == [
        "raise the alarm",
        "check the agents of pink",
        "provision pink again",
    ]
    assert [step.partition(":")[0] for step in steps(active)] == [
        "raise the alarm",
        "check the agents of purple",
        "break glass",
    ], "nothing is done to the active one below that"


async def test_the_sources_disagree_and_there_is_one_step_stop(shards, tmp_path):
    (tmp_path / "active").write_text("pink\n")
    async with shards(rows=f'active_command = ["cat", "{tmp_path}/active"]') as app:
        await app.work_on("purple", 2)
        disputed = await app.gate()
        (tmp_path / "active").write_text("purple\n")
        agreed = await app.gate()
        (tmp_path / "active").unlink()
        silent = await app.gate()
    assert (disputed.passed, disputed.role, steps(disputed)) == (False, Role.UNKNOWN, ["stop"])
    assert "the configuration says that pink is active (active_command)" in disputed.next[0].why
    assert "GitHub assigned 2 jobs to purple lately" in disputed.next[0].why
    assert (agreed.passed, silent.passed) == (True, True)
    assert "the configuration has no answer: active_command failed, exit code 1" in check(silent, "role").text


@pytest.mark.parametrize(("rows", "is_asked"), [('active_command = ["cat", "active"]', True), ("", False)])
async def test_a_new_installation_is_asked_for_its_active_shards_at_once(shards, rows, is_asked):
    async with shards(rows=rows) as app:
        queue = Queue(QUEUE_OF[JobName.ACTIVE], connection=app.context.queue_redis, serializer=JSONSerializer)
        queued = f"active-{app.installation}" in queue.get_job_ids()
        queue.empty()
        await discover_installations(app.context)
        assert (queued, queue.get_job_ids()) == (is_asked, []), "and it is new once"


async def test_the_command_is_called_again_after_a_while_and_when_the_clock_goes_back(shards, tmp_path):
    (tmp_path / "active").write_text("purple\n")
    async with shards(rows=f'active_command = ["cat", "{tmp_path}/active"]') as app:
        look = app.look()
        await look()
        (tmp_path / "active").write_text("pink\n")
        text = []
        for seconds in (14.9, 0.1, -60.0):
            app.clock.pass_(seconds)
            text.append(check(await look(), "role").text)
            if seconds == 0.1:
                (tmp_path / "active").write_text("green\n")
    reported = [
        next(shard for shard in ("purple", "pink", "green") if f"says that {shard} is active (" in each)
        for each in text
    ]
    assert reported == ["purple", "pink", "green"]


async def test_the_worker_asks_the_command_and_keeps_its_answer_for_the_web_role(shards, tmp_path):
    (tmp_path / "active").write_text("purple\n")
    async with shards(rows=f'active_command = ["cat", "{tmp_path}/active"]') as app:
        assert await refresh_active_shards_of(app.context, app.installation) == 1
        kept = await Shards(app.context.redis).answer(app.installation, POOL)
        (tmp_path / "active").unlink()
        assert await refresh_active_shards_of(app.context, app.installation) == 0
        failed = await Shards(app.context.redis).answer(app.installation, POOL)
        assert await refresh_active_shards_of(app.context, app.installation + 1) == 0, "unknown installation"
    assert (kept.shard, kept.failure) == ("purple", "")
    assert (failed.shard, failed.failure) == ("", "exit code 1")


async def test_a_shard_that_is_online_and_takes_no_jobs_does_not_pass_with_a_canary(shards):
    async with shards() as app:
        await app.report_deploy("pink", "inactive", "v42")
        await app.work_on("purple", 2)
        await app.live()
        answer = await app.gate(canary=True)
        assert (await app.gate()).passed
    assert not answer.passed
    assert check(answer, "online").passed
    assert check(answer, "canary").text == (
        "no job was taken on pink since the deploy of v42 and completed with success within the last hour"
    )
    assert steps(answer)[0] == "send a canary job to pink"


async def test_while_github_is_away_nothing_passes_and_nothing_is_changed(shards):
    async with shards() as app:
        await app.work_on("purple", 2)
        assert (await app.gate()).passed
        app.sandbox.control.fault(match=".*", status=500)
        await app.live()
        answer = await app.gate()
    assert not answer.passed
    assert check(answer, "github").text.startswith("GitHubUnavailable: ")
    assert steps(answer) == ["wait until GitHub answers, then run the gate again"]
    assert [each.changes for each in answer.next] == [""]


class Waiting:
    """A gate that is waited for: each pause is an interval of the fleet's life."""

    def __init__(self, app, happen=lambda: None):
        self.app, self.happen, self.began, self.results = app, happen, app.clock(), []

    def clock(self):
        return self.app.clock() - self.began

    async def pause(self, _seconds):
        self.happen()
        await self.app.live(30)

    def say(self, answer, _waited):
        self.results.append(answer.passed)

    async def watch(self, patience, **asked):
        return await watch(self.app.look(**asked), patience, self.clock, self.pause, self.say)


async def test_a_shard_that_flaps_does_not_settle_and_one_that_holds_does(shards):
    async with shards(pink=1) as app:
        (pink,) = app.runners("pink")
        up = [True]

        def flap():
            up[0] = not up[0]
            (app.sandbox.control.bring_online if up[0] else app.sandbox.control.take_offline)("acme", ids=[pink])

        flapping = await Waiting(app, flap).watch(GateTimeouts(300, 300, 60))
        if not up[0]:
            flap()
        held = Waiting(app)
        settled = await held.watch(GateTimeouts(300, 300, 60))
    assert not flapping.passed
    assert not check(flapping, "settled").passed
    assert settled.passed
    assert check(settled, "settled").text == "it has passed without a gap for 60 of 60 s"
    assert len(held.results) <= 4, "it ends as soon as it passes"


async def test_a_shard_that_starts_is_waited_for(shards):
    async with shards(pink=0) as app:
        registered = []

        def provision():
            registered.append(registered or app.sandbox.control.register("acme", pool="pink", count=2))

        waiting = Waiting(app, provision)
        answer = await waiting.watch(GateTimeouts(300, 300), min_online=2, expect_new=True)
    assert answer.passed
    assert waiting.results[0] is False
