"""A runner dies under its job: what is recorded, reported, and shown on the job's own commit."""

from __future__ import annotations

import pytest
from rq.job import Job
from rq.serializers import JSONSerializer

from ghapp.deaths.cause import Cause, needed_change
from ghapp.deaths.job_outcome import RUN_AGAIN
from ghapp.deaths.post_mortem import DELIVERED_SECONDS, EARLY_LOOK_SECONDS, LOOKS_AFTER_SECONDS
from ghapp.deaths.store import identity
from ghapp.deaths.texts import NOT_THE_CAUSE
from ghapp.wording import sentence
from jobs.checks.publisher import CheckRunOutcome
from jobs.deaths.post_mortem import look_into
from jobs.runners.sweep import sweep_installation
from tests.stories.conftest import POOL
from tests.stories.deaths.death_story import (
    a_job_runs,
    ask_logs_of,
    check_runs,
    its_runner_dies,
    kept,
    lease_is_over,
    look,
)
from tests.support.loki import Loki


async def test_a_developer_learns_on_the_job_s_own_commit_that_the_runner_died(story):
    async with story() as app:
        await sweep_installation(app.context, app.installation)
        job = await a_job_runs(app)
        await its_runner_dies(app, job)
        assert await look(app, job) is CheckRunOutcome.CREATED
        found = await kept(app, job)
        assert (found.job.id, found.job.repository, found.job.name) == (job.id, "acme/api", "test")
        assert (found.job.head_sha, found.job.conclusion, found.pool) == (job.head_sha, "", POOL)
        (reported,) = await app.sent_events("runner.died")
        assert (reported["cause"], reported["job"]["id"], reported["job"]["conclusion"]) == ("host-oom", job.id, None)
        ((check_run, early),) = check_runs(app).items()
        assert early["head_sha"] == job.head_sha
        assert "GitHub has not ended the job yet" in early["output"]["summary"]
        assert early["actions"] == [], "GitHub runs no job again that is not over"

        lease_is_over(app, job)  # the delivery of its end is late
        app.sandbox.control.head("acme", repository="api")
        assert await look(app, job, 2) is CheckRunOutcome.UPDATED
        assert list(check_runs(app)) == [check_run]
        posted = check_runs(app)[check_run]
        assert "ended: failure" in posted["output"]["summary"]
        change = sentence(needed_change(Cause.HOST_OOM, "OOMKilled"))
        assert f"1. {change}\n2. [{sentence(RUN_AGAIN)}](" in posted["output"]["summary"]
        assert "or cancel the run at GitHub" in early["output"]["summary"]
        (about,) = await app.context.demand.of_check_run(app.installation, check_run)
        assert about.id == job.id
        assert (posted["name"], posted["head_sha"]) == ("Runner post-mortem", job.head_sha)
        assert (posted["status"], posted["conclusion"]) == ("completed", "action_required")
        assert posted["output"]["title"] == "The runner was killed because its container reached its memory limit"
        assert "No line of your code failed" in posted["output"]["summary"]
        assert "Running job: test" in posted["output"]["text"]
        assert (await kept(app, job)).job.conclusion == "failure"

        for number in range(len(LOOKS_AFTER_SECONDS) + 1):
            assert await look(app, job, number) is CheckRunOutcome.RECORDED
        assert list(check_runs(app)) == [check_run]
        assert check_runs(app)[check_run] == posted
        assert len(await app.sent_events("runner.died")) == 1


@pytest.mark.parametrize("is_delivered", [True, False])
async def test_a_runner_that_dies_before_its_job_was_delivered_is_looked_at_again_within_15_seconds(
    story, is_delivered
):
    async with story() as app:
        await sweep_installation(app.context, app.installation)
        app.listen()
        (job_id,) = app.sandbox.control.queue("acme", labels=[POOL], repository="api")
        job = app.sandbox.world.orgs["acme"].fleet.jobs[job_id]
        await its_runner_dies(app, job)
        ended_at = app.clock()
        assert await look(app, job) is CheckRunOutcome.WAITS
        assert check_runs(app) == {}
        if is_delivered:
            await app.receive(2)
        (row,) = app.context.queue_redis.zrange("rq:scheduled:report", 0, -1, withscores=True)
        assert row[0].endswith(b"-job")
        again = Job.fetch(row[0].decode(), connection=app.context.queue_redis, serializer=JSONSerializer)
        app.clock.pass_(EARLY_LOOK_SECONDS)
        found = await look_into(app.context, *again.args)
        assert app.clock() - ended_at <= DELIVERED_SECONDS
        assert found is (CheckRunOutcome.CREATED if is_delivered else CheckRunOutcome.WAITS)
        later = [key for key in app.context.queue_redis.zrange("rq:scheduled:report", 0, -1) if key.endswith(b"-1")]
        assert len(later) == 1, "the next look comes as always"


async def test_a_job_whose_end_was_reported_already_is_found_by_its_repository(story):
    async with story() as app:
        job = await a_job_runs(app)
        await its_runner_dies(app, job)
        lease_is_over(app, job)
        await app.receive()
        assert await app.context.demand.all(app.installation) == []
        assert await look(app, job) is CheckRunOutcome.CREATED
        assert len(check_runs(app)) == 1


async def test_a_clean_exit_is_reported_and_queries_github_for_nothing(story):
    async with story() as app:
        job = await a_job_runs(app)
        await its_runner_dies(app, job, cause=Cause.CLEAN_EXIT, exit_code=0, signal=None, reason="Completed")
        lease_is_over(app, job)
        before = app.account()["calls"]
        assert await look(app, job) is CheckRunOutcome.RECORDED
        assert (app.account()["calls"], check_runs(app)) == (before, {})
        assert [reported["cause"] for reported in await app.sent_events("runner.died")] == ["clean-exit"]
        kept_job = (await kept(app, job)).job
        assert (kept_job.repository, kept_job.name) == ("acme/api", "test")


async def test_a_job_that_failed_by_itself_is_its_developer_s_own(story):
    async with story() as app:
        job = await a_job_runs(app)
        await its_runner_dies(app, job)
        app.sandbox.control.finish("acme", job_id=job.id, conclusion="failure")
        assert await look(app, job) is CheckRunOutcome.RECORDED
        assert check_runs(app) == {}


@pytest.mark.parametrize("conclusion", ["success", "failure", "cancelled"])
async def test_a_job_that_came_to_its_own_result_after_all_has_its_early_post_mortem_corrected(story, conclusion):
    async with story() as app:
        job = await a_job_runs(app)
        await its_runner_dies(app, job)
        assert await look(app, job) is CheckRunOutcome.CREATED
        app.sandbox.control.finish("acme", job_id=job.id, conclusion=conclusion)
        await app.receive()
        assert await look(app, job, 1) is CheckRunOutcome.UPDATED
        (posted,) = check_runs(app).values()
        assert posted["output"]["title"] == NOT_THE_CAUSE.removesuffix(".")
        assert (posted["conclusion"], posted["actions"]) == ("neutral", [])
        assert await look(app, job, 2) is CheckRunOutcome.RECORDED


async def test_a_runner_that_logged_its_jobs_result_interrupted_nothing(story):
    async with story() as app:
        job = await a_job_runs(app)
        line = "2026-11-20 12:00:00Z: Job test completed with result: Succeeded"
        await its_runner_dies(app, job, runner_log=(line,))
        assert await look(app, job) is CheckRunOutcome.WAITS
        assert check_runs(app) == {}


async def test_a_post_mortem_is_completed_as_soon_as_the_end_of_the_job_is_delivered(story):
    async with story() as app:
        job = await a_job_runs(app)
        death = await its_runner_dies(app, job)
        assert await look(app, job) is CheckRunOutcome.CREATED
        lease_is_over(app, job)
        await app.receive_all()
        queued = [key.decode() for key in app.context.queue_redis.lrange("rq:queue:report", 0, -1)]
        (key,) = [each for each in queued if each.endswith(f"-ended-{job.id}")]
        asked = Job.fetch(key, connection=app.context.queue_redis, serializer=JSONSerializer)
        assert list(asked.args) == [app.installation, identity(death)]
        assert await look_into(app.context, *asked.args) is CheckRunOutcome.UPDATED
        (posted,) = check_runs(app).values()
        assert "ended: failure" in posted["output"]["summary"]
        assert "GitHub has not ended the job yet" not in posted["output"]["summary"]


async def test_a_post_mortem_is_neutral_once_a_person_ran_the_job_again_at_github(story):
    async with story() as app:
        job = await a_job_runs(app)
        await its_runner_dies(app, job)
        lease_is_over(app, job)
        await app.receive_all()
        assert await look(app, job) is CheckRunOutcome.CREATED
        (posted,) = check_runs(app).values()
        assert posted["conclusion"] == "action_required"
        again = app.sandbox.fleet.rerun(job, app.clock())
        await app.receive_all()
        assert is_enqueued(app, b"-attempt-2-queued")
        assert await look(app, job) is CheckRunOutcome.UPDATED
        (posted,) = check_runs(app).values()
        assert (posted["conclusion"], posted["actions"]) == ("neutral", [])
        assert f"job {again.id}, started at GitHub" in posted["output"]["summary"].replace("`", "")
        assert posted["output"]["title"].endswith("; run again as attempt 2")
        await app.pass_(1200)
        await app.receive_all()
        assert is_enqueued(app, b"-attempt-2-over")
        assert await look(app, job) is CheckRunOutcome.UPDATED
        (posted,) = check_runs(app).values()
        assert f"job {again.id}, started at GitHub, it is not known by whom: ended on " in posted["output"][
            "summary"
        ].replace("`", "")
        assert posted["output"]["title"].endswith("; attempt 2 succeeded")
        assert posted["output"]["summary"].startswith("The job was run again. Attempt 2 of the run: ended on ")


def is_enqueued(app, ending):
    return any(key.endswith(ending) for key in app.context.queue_redis.lrange("rq:queue:report", 0, -1))


async def test_a_job_that_is_never_over_is_left_after_the_last_look(story):
    async with story() as app:
        job = await a_job_runs(app)
        await its_runner_dies(app, job)
        looks = [await look(app, job, number) for number in range(len(LOOKS_AFTER_SECONDS) + 1)]
        waits = [CheckRunOutcome.WAITS] * (len(LOOKS_AFTER_SECONDS) - 1)
        assert looks == [CheckRunOutcome.CREATED, *waits, CheckRunOutcome.RECORDED]
        assert len(await app.sent_events("runner.died")) == 1


async def test_what_its_host_logged_is_kept_and_shown_to_the_developer(story):
    with Loki() as loki:
        async with story() as app:
            ask_logs_of(app, loki.url)
            job = await a_job_runs(app)
            await its_runner_dies(app, job)
            lease_is_over(app, job)
            loki.holds(({}, [loki.line(app.clock() - 1, "Out of memory: Killed process 4242 (Runner.Worker)")]))
            assert await look(app, job) is CheckRunOutcome.CREATED
            ((check_run, posted),) = check_runs(app).items()
            assert "Killed process 4242" in posted["output"]["text"]

            app.clock.pass_(90)
            loki.holds(
                ({}, [loki.line(app.clock() - 91, "Out of memory: Killed process 4242 (Runner.Worker)")]),
                ({"unit": "kubelet.service"}, [loki.line(app.clock() - 60, "Container runner is gone")]),
            )
            assert await look(app, job, 1) is CheckRunOutcome.UPDATED
            assert "kubelet.service: Container runner is gone" in check_runs(app)[check_run]["output"]["text"]
            assert len(check_runs(app)) == 1
            assert [line.split("Z ")[1] for line in (await kept(app, job)).host_log] == [
                "Out of memory: Killed process 4242 (Runner.Worker)",
                "kubelet.service: Container runner is gone",
            ]
