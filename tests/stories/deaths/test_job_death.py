"""A machine's runner dies during its job, and no cluster is watched: jobs, sweeps and GitHub's words show the cause."""

from __future__ import annotations

import pytest

from ghapp.deaths.cause import Cause
from ghapp.deaths.job_death import runner_after
from ghapp.deaths.store import identity
from ghapp.errors import GitHubUnavailableError
from ghapp.runners.evidence import Survey
from ghapp.runners.observations import retired_by_controller
from ghapp.sandbox.config import PoolConfig
from ghapp.sandbox.fleet.jobs import SHUTDOWN_SIGNAL
from jobs.checks.publisher import CheckRunOutcome
from jobs.deaths.job_deaths import examine_job_of
from jobs.deaths.post_mortem import look_into
from jobs.runners.sweep import sweep_installation
from tests.stories.conftest import POOL
from tests.stories.deaths.death_story import a_job_runs, check_runs, kept

SIGTERM = SHUTDOWN_SIGNAL
AT = "2026-11-20T12:00:00.0000000Z "
CANCELED = "The operation was canceled."
KILLED_STEP = "Process completed with exit code 143."


async def job_runs(app):
    """A job runs, and its runner will not end it."""
    await sweep_installation(app.context, app.installation)
    job = await a_job_runs(app)
    app.sandbox.control.die("acme", job_id=job.id)
    return job


async def lease_passes(app):
    """Ten minutes, with a sweep each, until GitHub gives the job up."""
    for _ in range(10):
        await app.pass_(60)
        await sweep_installation(app.context, app.installation)


async def abandoned(app, job, **changes):
    """GitHub ends the job, its delivery takes effect, and the job is looked up; the death, or None."""
    await app.receive_all()
    app.sandbox.control.abandon("acme", job_id=job.id, **changes)
    await app.receive_all()
    return await examine_job_of(app.context, app.installation, job.id)


def calls(app):
    return app.account()["calls"]


async def test_a_registration_that_vanished_during_the_job_is_the_cause_and_github_is_not_asked(story):
    async with story() as app:
        job = await job_runs(app)
        app.sandbox.control.lose("acme", ids=[job.runner_id])
        await lease_passes(app)
        before = calls(app)
        found = await abandoned(app, job, note=CANCELED)
        assert (found.cause, found.reason, found.pool) == (Cause.DELETED_REGISTRATION, "RegistrationLost", POOL)
        assert calls(app) == before
        assert [each.what for each in found.last_minutes] == ["job-started", "registration-missing", "job-ended"]


async def test_a_controller_that_removed_the_runner_during_its_job_is_the_cause(story):
    async with story() as app:
        job = await job_runs(app)
        await app.receive_all()
        removed_at = app.clock() + 30
        await app.pass_(30)
        await app.context.runners.revise(
            app.installation, {job.runner_id: lambda known: retired_by_controller(known, removed_at)}
        )
        await app.pass_(600)
        found = await abandoned(app, job, note=CANCELED, step="cancelled")
        assert (found.cause, found.reason, found.at) == (Cause.TERMINATED, "RemovedDuringJob", removed_at)


async def test_a_runner_that_went_offline_during_the_job_lost_communication(story):
    async with story() as app:
        job = await job_runs(app)
        app.sandbox.control.take_offline("acme", ids=[job.runner_id], alive=False)
        await lease_passes(app)
        found = await abandoned(app, job, note=CANCELED)
        assert (found.cause, found.reason) == (Cause.LOST_COMMUNICATION, "OfflineDuringJob")


@pytest.mark.parametrize(
    ("ended", "cause", "reason"),
    [
        ({}, Cause.LOST_COMMUNICATION, "LostCommunication"),
        ({"note": "", "step": "open"}, Cause.LOST_COMMUNICATION, "StepLeftOpen"),
        ({"note": SIGTERM, "step": "cancelled"}, Cause.TERMINATED, "ShutdownSignal"),
        (
            {"note": CANCELED, "step": "cancelled", "log": f"{AT}##[error]{SIGTERM}\n{AT}##[error]{CANCELED}\n"},
            Cause.TERMINATED,
            "ShutdownSignal",
        ),
        (
            {"note": CANCELED, "step": "cancelled", "conclusion": "cancelled", "log": f"{AT}##[error]{SIGTERM}\n"},
            Cause.TERMINATED,
            "ShutdownSignal",
        ),
    ],
    ids=["annotation-lost", "no-words-open-step", "annotation-sigterm", "log-sigterm", "cancelled-by-sigterm"],
)
async def test_githubs_words_and_open_steps_are_the_cause(story, ended, cause, reason):
    async with story() as app:
        job = await job_runs(app)
        found = await abandoned(app, job, **ended)
        assert (found.cause, found.reason) == (cause, reason)


@pytest.mark.parametrize(
    ("ended", "reason"),
    [({"note": "", "step": "open"}, "StepLeftOpen"), ({"note": CANCELED, "step": "cancelled"}, None)],
    ids=["the-steps-decide", "nothing-decides"],
)
async def test_where_githubs_storage_cannot_be_reached_the_rest_decides_or_the_look_is_repeated(story, ended, reason):
    async with story() as app:
        job = await job_runs(app)
        app.sandbox.control.fault(match="/logs", status=503)
        if reason is None:
            with pytest.raises(GitHubUnavailableError):
                await abandoned(app, job, **ended)
            app.sandbox.control.no_faults()
            assert await examine_job_of(app.context, app.installation, job.id) is None
        else:
            assert (await abandoned(app, job, **ended)).reason == reason


@pytest.mark.parametrize(
    "ended",
    [
        {"note": KILLED_STEP, "step": "failure"},
        {"note": CANCELED, "step": "cancelled", "conclusion": "cancelled"},
        {"note": CANCELED, "step": "cancelled", "log": f"{AT}{SIGTERM}\n"},
    ],
    ids=["exit-code-143", "a-person-cancelled", "output-of-a-step"],
)
async def test_without_evidence_against_the_runner_there_is_no_death(story, ended):
    async with story() as app:
        job = await job_runs(app)
        assert await abandoned(app, job, **ended) is None
        assert await kept(app, job) is None


async def test_a_job_is_looked_up_by_the_time_that_its_story_names(story):
    async with story() as app:
        job = await job_runs(app)
        app.sandbox.control.abandon("acme", job_id=job.id)
        await app.receive_all()
        queue = app.context.queue_redis
        ((key, due),) = queue.zrange("rq:scheduled:report", 0, -1, withscores=True)
        assert key.decode() == f"job-death-{app.installation}-{job.id}"
        known = await app.context.demand.one(app.installation, job.id)
        after = runner_after(known, None, Survey(), app.context.settings.pools_of("acme"), exited=False)
        assert due - queue.time()[0] < after.examined_until - known.ended_at


async def test_a_job_of_a_pool_that_is_not_configured_is_not_looked_up(story):
    async with story(others=[PoolConfig(name="free", size=2)]) as app:
        await sweep_installation(app.context, app.installation)
        app.listen()
        (job_id,) = app.sandbox.control.queue("acme", labels=["free"], repository="api")
        await app.receive(2)
        app.sandbox.control.die("acme", job_id=job_id)
        app.sandbox.control.abandon("acme", job_id=job_id)
        await app.receive_all()
        assert (await app.context.demand.one(app.installation, job_id)).conclusion == "failure"
        assert app.context.queue_redis.zcard("rq:scheduled:report") == 0


async def test_the_post_mortem_is_posted_once_on_the_jobs_commit(story):
    async with story() as app:
        job = await job_runs(app)
        found = await abandoned(app, job)
        assert await look_into(app.context, app.installation, identity(found)) is CheckRunOutcome.CREATED
        ((_, posted),) = check_runs(app).items()
        assert (posted["name"], posted["head_sha"]) == ("Runner post-mortem", job.head_sha)
        assert await examine_job_of(app.context, app.installation, job.id) is None
        assert await look_into(app.context, app.installation, identity(found)) is CheckRunOutcome.RECORDED
        assert len(await app.sent_events("runner.died")) == len(check_runs(app)) == 1
