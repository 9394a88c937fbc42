"""Why jobs wait, from GitHub's deliveries to the check run on their commit."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from structlog.testing import capture_logs

from ghapp.deaths.job_outcome import NOTHING_KNOWN, job_summary
from ghapp.github.deliveries import parse
from ghapp.loading.views import load_job_queue
from ghapp.remediation.pause import Pause
from ghapp.sandbox.config import PoolConfig
from ghapp.wording import clock_time
from ghapp.workflow_jobs.explanation import explain
from ghapp.workflow_jobs.job import JobSearch, PullReference
from ghapp.workflow_jobs.store import QueueChecks
from jobs.checks import publisher
from jobs.checks.publisher import CheckRunOutcome
from jobs.deliveries.check_run_events import handle_check_event
from jobs.reports import queue_report
from jobs.reports.queue_report import report_queue_of
from jobs.runners.confirm import confirm_installation
from jobs.runners.sweep import sweep_installation
from tests.manifests.rendered import ROOT
from tests.stories.conftest import POOL
from tests.stories.workflow_jobs import killed_queue_report


async def queued(app, labels=(POOL,), repository="api", count=1):
    """Jobs are queued, and their deliveries take effect; their ids."""
    if not app.sandbox.app.hook.url:
        app.listen()
    ids = app.sandbox.control.queue("acme", labels=list(labels), repository=repository, count=count)
    await app.receive_all()
    return ids


async def later(app, seconds):
    """Time passes, and the fleet is swept."""
    await app.pass_(seconds)
    await app.receive_all()
    await sweep_installation(app.context, app.installation)


async def why(app, job_id):
    """Why a job waits."""
    installation = await app.context.installations.one(app.installation)
    queue = await load_job_queue(app.context, installation, app.settings, app.clock())
    return explain(queue, await app.context.demand.one(app.installation, job_id))


async def reported(app):
    return [*(await report_queue_of(app.context, app.installation)).values()]


def check_runs(app, repository="api"):
    found = app.sandbox.world.orgs["acme"].repositories[repository].check_runs.values()
    return [each for each in found if each["name"] == "Runner queue"]


async def test_a_job_whose_label_no_runner_has_is_explained_on_its_commit(story):
    async with story() as app:
        await later(app, 0)
        (job,) = await queued(app, ["linux-4vpcu"])
        await later(app, 290)
        assert await reported(app) == []
        await later(app, 10)
        assert await reported(app) == [CheckRunOutcome.CREATED]
        assert (await why(app, job)).reason == "NoRunnerWithLabels"
        (check,) = check_runs(app)
        assert (check["status"], check["conclusion"]) == ("in_progress", None)
        assert "Change linux-4vpcu to linux-4vcpu in runs-on." in check["output"]["summary"]
        await later(app, 60)
        assert await reported(app) == [], "nothing has changed"


async def test_jobs_for_offline_runners_share_one_check_run_that_completes_when_they_start(story):
    async with story(runners=2) as app:
        await later(app, 0)
        app.sandbox.control.take_offline("acme", count=2)
        jobs = await queued(app, count=2)
        await later(app, 300)
        assert [(await why(app, each)).reason for each in jobs] == ["RunnersOffline"] * 2
        assert await reported(app) == [CheckRunOutcome.CREATED]
        assert check_runs(app)[0]["output"]["title"] == "All runners of 2 jobs are offline"
        app.sandbox.control.bring_online("acme")
        await later(app, 5)
        assert await reported(app) == [CheckRunOutcome.UPDATED]
        (check,) = check_runs(app)
        assert (check["status"], check["conclusion"]) == ("completed", "neutral")
        assert check["output"]["title"] == "2 jobs waited: 2 started; the longest wait was 5 min"
        assert await reported(app) == []
        taken = [await app.context.demand.one(app.installation, each) for each in jobs]
        assert [each.waited_for for each in taken] == ["RunnersOffline"] * 2


async def test_a_job_that_is_cancelled_in_the_queue_keeps_what_it_waited_for(story):
    async with story(runners=1) as app:
        await later(app, 0)
        (job,) = await queued(app, ["gpu-xl"])
        await later(app, 300)
        assert await reported(app) == [CheckRunOutcome.CREATED]
        fleet = app.sandbox.world.orgs["acme"].fleet
        fleet.cancel(fleet.unserved()[0], app.sandbox.world.now())
        await later(app, 1740)
        assert await reported(app) == [CheckRunOutcome.UPDATED]
        ended = await app.context.demand.one(app.installation, job)
        assert str(job_summary(ended, NOTHING_KNOWN, app.clock())) == (
            "waited 5 min: no runner had the label gpu-xl; cancelled"
        )
        (check,) = check_runs(app)
        assert check["output"]["title"] == "The job ended without a runner after 5 min"
        assert "| 5 min | No runner had the label gpu-xl. |" in check["output"]["text"]


async def test_a_check_run_is_opened_again_for_another_job_of_its_commit(story):
    async with story(runners=1, ephemeral=False) as app:
        await later(app, 0)
        app.sandbox.control.take_offline("acme", count=1)
        await queued(app)
        await later(app, 300)
        await reported(app)
        app.sandbox.control.bring_online("acme")
        await later(app, 1)
        assert await reported(app) == [CheckRunOutcome.UPDATED]
        await queued(app, ["gpu"])
        await later(app, 300)
        assert await reported(app) == [CheckRunOutcome.UPDATED]
        (check,) = check_runs(app)
        assert (check["status"], check["output"]["title"]) == ("in_progress", "No runner has the labels of this job")


async def test_busy_runners_are_a_reason_at_once_and_reported_after_busy_after_seconds(story):
    async with story(runners=1, ephemeral=False) as app:
        await later(app, 0)
        app.sandbox.control.busy("acme", count=1)
        older, job = await queued(app, count=2)
        await later(app, 0)
        found = await why(app, job)
        assert (found.reason, found.ahead) == ("AllBusy", 1)
        await later(app, 1790)
        assert await reported(app) == []
        await later(app, 10)
        assert await reported(app) == [CheckRunOutcome.CREATED]
        assert check_runs(app)[0]["output"]["title"] == "Waiting for busy runners"
        assert (await why(app, older)).ahead == 0


async def test_the_reason_of_a_job_that_is_taken_after_a_minute_stays_in_its_story(story):
    async with story(runners=1, ephemeral=False) as app:
        await later(app, 0)
        first, job = await queued(app, count=2)
        await later(app, 30)
        await reported(app)
        await later(app, 30)
        app.sandbox.control.finish("acme", job_id=first)
        await later(app, 1)
        taken = await app.context.demand.one(app.installation, job)
        assert (taken.status, taken.waited_for) == ("running", "AllBusy")


async def test_while_the_runners_cannot_be_listed_a_reason_has_the_time_of_the_last_list(story):
    async with story(runners=1, ephemeral=False) as app:
        await later(app, 0)
        app.sandbox.control.busy("acme", count=1)
        (job,) = await queued(app)
        await later(app, 10)
        assert (await why(app, job)).text == f"the only online runner of {POOL} is busy"
        listed_at = clock_time(app.clock())
        app.sandbox.control.fault(match=".*actions/runners.*", status=502, times=100)
        await later(app, 20)
        assert (
            (await why(app, job)).text
            == f"the only online runner of {POOL} is busy, as of the last list, {listed_at}; no later list could be read"
        )


async def test_a_runner_group_that_excludes_the_repository_is_the_reason(story):
    async with story() as app:
        await later(app, 0)
        app.sandbox.control.restrict_group("acme", repositories=["web"])
        (job,) = await queued(app)
        await later(app, 300)
        assert (await why(app, job)).reason == "NotAssigned", "the groups were not read yet"
        before = app.account()["calls"]
        assert await reported(app) == [CheckRunOutcome.CREATED]
        await reported(app)
        calls = app.account()["calls"]
        groups = {name: calls[name]["total"] for name in calls.keys() - before.keys() if "runner-groups" in name}
        assert sorted(groups.values()) == [1, 1], "they are read once an hour"
        assert (await why(app, job)).reason == "GroupExcludesRepository"
        assert check_runs(app)[0]["output"]["title"] == "The runner group excludes this repository"


async def test_groups_that_cannot_be_read_are_no_reason(story):
    async with story() as app:
        await later(app, 0)
        app.sandbox.control.restrict_group("acme", repositories=["web"])
        (job,) = await queued(app)
        await later(app, 300)
        app.sandbox.control.fault(match=".*runner-groups.*", status=403)
        assert await reported(app) == []
        assert (await why(app, job)).reason == "NotAssigned"


@pytest.mark.parametrize(("is_refused", "reason"), [(False, "HostedByGitHub"), (True, "NoRunnerWithLabels")])
async def test_a_job_for_a_larger_runner_that_github_hosts_is_none_of_ours(story, is_refused, reason):
    async with story() as app:
        app.sandbox.world.orgs["acme"].hosted_runners = ("Linux-Large",)
        await later(app, 0)
        (job,) = await queued(app, ["linux-large"])
        await later(app, 300)
        assert (await why(app, job)).reason == "NoRunnerWithLabels", "these runners were not read yet"
        if is_refused:
            app.sandbox.control.fault(match=".*hosted-runners.*", status=403)
        assert await reported(app) == ([CheckRunOutcome.CREATED] if is_refused else [])
        assert (await why(app, job)).reason == reason
        before = sum(each["total"] for name, each in app.account()["calls"].items() if "hosted-runners" in name)
        await reported(app)
        after = sum(each["total"] for name, each in app.account()["calls"].items() if "hosted-runners" in name)
        assert (before, after) == (1, 1), "they are read once an hour"


@pytest.mark.parametrize(
    ("mode", "paused", "reason"),
    [("act", False, "RunnersLost"), ("act", True, "PoolPaused"), ("dry-run", False, "RunnersLost")],
)
async def test_lost_runners_are_the_reason_and_what_prevents_their_replacement(story, mode, paused, reason):
    async with story(runners=1, config=f'[remediation]\nmode = "{mode}"') as app:
        await later(app, 0)
        await later(app, 300)
        if paused:
            await app.context.fuses.pause(app.installation, POOL, Pause("mona", "maintenance", app.clock()))
        app.sandbox.control.lose("acme", count=1)
        (job,) = await queued(app)
        await later(app, 120)
        found = await why(app, job)
        assert (found.reason, found.text) == (
            "RunnersLost",
            f"1 runner of {POOL} is missing from GitHub's list, and being checked",
        )
        await confirm_installation(app.context, app.installation)
        await app.pass_(30)
        await confirm_installation(app.context, app.installation)
        found = await why(app, job)
        assert found.reason == reason
        assert any("remediation is in dry-run" in step.why for step in found.next) is (mode == "dry-run")


async def test_a_stopped_fuse_is_the_reason(story):
    async with story(runners=12) as app:
        await later(app, 0)
        await later(app, 300)
        app.sandbox.control.barren_controller(barren=True)
        app.sandbox.control.lose("acme", count=12)
        (job,) = await queued(app)
        for _ in range(8):
            await app.live_through_an_interval()
        assert (await why(app, job)).reason == "FuseStopped"


async def test_an_idle_runner_that_gets_no_job_is_the_reason_and_is_not_reported(story):
    other = PoolConfig(name="gpu", size=1, load=0.0)
    async with story(others=[other]) as app:
        await later(app, 0)
        app.sandbox.control.restrict_group("acme", repositories=[])  # GitHub does not say why it assigns nothing
        app.sandbox.control.fault(match=".*runner-groups.*", status=404)
        (job,) = await queued(app)
        await later(app, 50)
        assert await why(app, job) is None
        await later(app, 10)
        assert (await why(app, job)).reason == "NotAssigned"
        await later(app, 3600)
        assert await reported(app) == []


async def test_a_job_for_a_hosted_runner_is_not_reported(story):
    async with story() as app:
        await later(app, 0)
        (job,) = await queued(app, ["ubuntu-latest"])
        await later(app, 3600)
        assert (await why(app, job)).reason == "HostedByGitHub"
        assert await reported(app) == []


async def test_a_repository_opts_out_by_a_topic(story):
    async with story() as app:
        await later(app, 0)
        app.sandbox.control.topics("acme", repository="api", topics=["ghapp-quiet"])
        await queued(app, ["gpu"])
        await later(app, 300)
        assert [await reported(app), await reported(app)] == [[], []]
        asked = app.account()["calls"]["GET /repos/{owner}/{repo}"]["total"]
        assert asked == 1, "it is asked once an hour"
        assert check_runs(app) == []


async def test_beyond_the_maximum_of_commits_no_other_one_gets_a_check_run(story, monkeypatch):
    monkeypatch.setattr(queue_report, "MOST_CHECKS", 1)
    async with story() as app:
        await later(app, 0)
        for repository in ("api", "web"):
            await queued(app, ["gpu"], repository)
        await later(app, 300)
        assert await reported(app) == [CheckRunOutcome.CREATED]
        assert len(await app.context.queue_checks.all(app.installation)) == 1
        assert await reported(app) == []


async def test_a_policy_opts_out(story):
    async with story(config="[queue]\nreport = false") as app:
        await later(app, 0)
        await queued(app, ["gpu"])
        await later(app, 300)
        assert await reported(app) == []


async def test_a_kill_between_the_creation_and_its_record_leaves_one_check_run(story):
    async with story() as app:
        await later(app, 0)
        await queued(app, ["gpu"])
        await later(app, 300)
        words = [sys.executable, killed_queue_report.__file__, str(app.installation), str(app.clock() - time.time())]
        path = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}
        killed = await asyncio.to_thread(subprocess.run, words, env={**path, **app.environ}, capture_output=True)
        assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
        assert len(check_runs(app)) == 1
        for _ in range(50):
            if outcomes := await reported(app):
                break
            await asyncio.sleep(0.1)  # until the lock of the killed process has expired
        assert outcomes == [CheckRunOutcome.UPDATED]
        assert len(check_runs(app)) == 1


async def test_a_check_run_that_was_created_before_a_crash_is_completed_when_the_job_has_started(story, monkeypatch):
    async with story(runners=1) as app:
        await later(app, 0)
        app.sandbox.control.take_offline("acme", count=1)
        await queued(app)
        await later(app, 300)

        async def crash(self, sha, report):
            await create(self, sha, report)
            raise KeyboardInterrupt

        create = publisher.Checks.create
        with monkeypatch.context() as patch:
            patch.setattr(publisher.Checks, "create", crash)
            with pytest.raises(KeyboardInterrupt):
                await report_queue_of(app.context, app.installation)
        app.sandbox.control.bring_online("acme")
        await later(app, 1)
        assert await reported(app) == [CheckRunOutcome.UPDATED]
        assert [each["conclusion"] for each in check_runs(app)] == ["neutral"]


async def test_without_the_permission_a_check_is_put_off_and_posted_when_it_is_granted(story):
    async with story() as app:
        await later(app, 0)
        await queued(app, ["gpu"])
        await later(app, 300)
        app.sandbox.control.fault(match=".*check-runs.*", status=403, seconds=60)
        assert await reported(app) == [CheckRunOutcome.PERMISSION_MISSING]
        (check,) = (await QueueChecks(app.context.redis).all(app.installation)).values()
        assert (check.check_run, check.setback, check.again_at) == (None, "permission-missing", app.clock() + 300)
        await later(app, 299)
        assert await reported(app) == []
        await later(app, 1)
        assert await reported(app) == [CheckRunOutcome.CREATED]


async def test_an_error_of_ghapp_itself_puts_a_check_off_and_is_logged_once(story, monkeypatch):
    async with story() as app:
        await later(app, 0)
        await queued(app, ["gpu"])
        await later(app, 300)
        error = ValueError("unexpected")

        async def fail(*_args):
            raise error

        with monkeypatch.context() as broken, capture_logs() as lines:
            broken.setattr(queue_report, "publish", fail)
            assert await reported(app) == [CheckRunOutcome.FAILED]
            await later(app, 299)
            assert await reported(app) == []
            await later(app, 1)
            assert await reported(app) == [CheckRunOutcome.FAILED]
        assert [line["exc_info"] for line in lines if line.get("exc_info")] == [error]
        await later(app, 300)
        assert await reported(app) == [CheckRunOutcome.CREATED]


@pytest.mark.parametrize(
    ("pool", "shard"),
    [("", ""), (f'shard_name = "^{POOL}-(?P<shard>[a-z0-9])"', "shard"), ('shard_label = "shard"', "")],
    ids=["no shards", "shards by name", "a runner without a shard"],
)
async def test_waits_and_durations_are_counted_once_by_pool_and_shard(story, pool, shard):
    async with story(runners=1, ephemeral=False, pool=pool) as app:
        await later(app, 0)
        app.sandbox.control.busy("acme", count=1)
        (job,) = await queued(app)
        await later(app, 100)
        app.sandbox.control.busy("acme", count=1, busy=False)
        await later(app, 0)
        app.sandbox.control.step(seconds=10)
        app.sandbox.control.finish("acme", job_id=job)
        await app.receive_all()
        counted = await app.context.counters.all()
        (runner,) = (await app.context.runners.all(app.installation)).values()
        labels = f'org="acme",pool="{POOL}"' + (f',shard="{runner.name[len(POOL) + 1]}"' if shard else "")
        assert counted[f"ghapp_job_queue_seconds_count{{{labels}}}"] == 1
        assert counted[f'ghapp_job_queue_seconds_bucket{{le="60",{labels}}}'] == 0
        assert counted[f'ghapp_job_queue_seconds_bucket{{le="120",{labels}}}'] == 1
        assert counted[f"ghapp_job_run_seconds_count{{{labels}}}"] == 1
        assert counted[f'ghapp_job_run_seconds_bucket{{le="30",{labels}}}'] == 1


@pytest.mark.parametrize("event", ["check_suite", "check_run"])
async def test_a_commits_pull_requests_are_known_from_its_check_suite_and_check_runs(story, event):
    async with story() as app:
        (job_id,) = await queued(app)
        sha = (await app.context.demand.one(app.installation, job_id)).head_sha
        about = {"id": 5, "name": "another", "head_sha": sha, "pull_requests": [{"number": 7, "head": {}}]}
        payload = {
            "action": "requested",
            "installation": {"id": app.installation},
            "repository": {"full_name": "acme/api"},
            event: about,
        }
        await handle_check_event(app.context, event, parse(event, json.dumps(payload).encode(), "application/json"))
        search = await app.context.demand.of_pull(app.installation, PullReference("acme/api", 7), JobSearch())
        assert search.commits == {sha}
