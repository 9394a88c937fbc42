"""A job without a delivery of its end: it vouches for its runner for as long as it may run, and expires after that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ghapp.runners.absence import LOOKUP_SECONDS
from ghapp.runners.verdict import State
from ghapp.sandbox.config import Pace
from ghapp.workflow_jobs.job import QUEUED_TOO_LONG_SECONDS, RUNNING_TOO_LONG_SECONDS, Job
from jobs.runners.confirm import confirm_installation
from jobs.runners.sweep import sweep_installation
from tests.stories.conftest import POOL
from tests.stories.runners.test_main_job import at_work, state_of, sweep


async def lost_at_work(app):
    """A persistent runner that lost its registration during a job that only a delivery reported."""
    await sweep(app)
    app.clock.pass_(300)
    await sweep(app)
    runner_id, job_id = await at_work(app)
    app.sandbox.control.lose("acme", ids=[runner_id])
    await sweep(app)
    app.clock.pass_(120)  # until then the delivery of its job's end may be on its way
    await sweep(app)
    app.clock.pass_(30)
    assert await confirm_installation(app.context, app.installation) == 0, "its job runs"
    return runner_id, job_id


async def test_an_end_that_does_not_name_its_runner_is_the_end_of_its_job(story):
    async with story(ephemeral=False) as app:
        runner_id, job_id = await lost_at_work(app)
        job = await app.context.demand.one(app.installation, job_id)
        await app.context.demand.record(
            app.installation, [job._replace(status="over", runner_id=None, runner_name=None)]
        )
        app.clock.pass_(LOOKUP_SECONDS[0])
        assert await confirm_installation(app.context, app.installation) == 1
        assert await state_of(app, runner_id) is State.INVALIDATED


@pytest.mark.parametrize(("more", "lost"), [(0, 0), (1, 1)], ids=["as long as a job may run", "longer"])
async def test_where_github_cannot_be_asked_a_job_vouches_for_as_long_as_one_may_run(story, more, lost):
    async with story(ephemeral=False) as app:
        runner_id, _ = await lost_at_work(app)
        known = await app.context.installations.one(app.installation)
        cannot_ask = {name: level for name, level in known.permissions.items() if name != "actions"}
        await app.context.installations.put(replace(known, permissions=cannot_ask))
        evidence = (await app.context.runners.some(app.installation, [runner_id]))[runner_id]
        app.clock.now = evidence.job_started_at + RUNNING_TOO_LONG_SECONDS + more
        await sweep_installation(app.context, app.installation)
        await confirm_installation(app.context, app.installation)
        assert (await state_of(app, runner_id) is State.INVALIDATED) is bool(lost)


@pytest.mark.parametrize(
    ("status", "age", "kept"),
    [
        ("queued", QUEUED_TOO_LONG_SECONDS, True),
        ("queued", QUEUED_TOO_LONG_SECONDS + 1, False),
        ("running", RUNNING_TOO_LONG_SECONDS, True),
        ("running", RUNNING_TOO_LONG_SECONDS + 1, False),
    ],
)
async def test_a_job_is_forgotten_when_it_must_have_ended(story, status, age, kept):
    async with story() as app:
        began = app.clock()
        job = Job(7, status, (POOL,), "acme/api", began, started_at=began if status == "running" else None)
        await app.context.demand.record(app.installation, [job])
        app.clock.pass_(age)
        await sweep_installation(app.context, app.installation)
        assert [each.id for each in await app.context.demand.all(app.installation)] == ([7] if kept else [])


A_RUNNER = "GET /orgs/{org}/actions/runners/{runner_id}"


def calls(app):
    """How many GETs of single runners there were so far, and how many other calls."""
    totals = {path: each["total"] for path, each in app.account()["calls"].items()}
    gets = totals.pop(A_RUNNER, 0)
    return gets, sum(totals.values())


async def test_300_lost_at_work_cost_one_get_each_and_less_than_60_calls_a_minute_and_an_idle_one_is_replaced(story):
    async with story(400, pace=Pace(job=(7200.0, 7200.0))) as app:
        app.listen()
        await sweep_installation(app.context, app.installation)
        await app.pass_(300)
        await sweep_installation(app.context, app.installation)
        app.sandbox.control.queue("acme", labels=[POOL], count=300)
        await app.pass_(30)
        await app.receive_all()
        registered = app.sandbox.world.orgs["acme"].fleet.roster.registered.values()
        busy = [each.id for each in registered if each.busy]
        idle = next(each.id for each in registered if not each.busy)
        assert len(busy) == 300
        app.sandbox.control.lose("acme", ids=[*busy, idle])
        begun, _ = calls(app)
        for _ in range(35):
            _, before = calls(app)
            await app.live_through_an_interval()
            gets, others = calls(app)
            assert others - before < 60
        assert gets - begun <= len(busy) + 3, "the idle one is asked for again before it is replaced"
        assert await app.replacements() == [idle]
