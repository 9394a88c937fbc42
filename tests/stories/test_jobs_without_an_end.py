"""A job whose end nobody told: it vouches for its runner for as long as it may run, and is not remembered for ever."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ghapp.health.demand import QUEUED_TOO_LONG_SECONDS, RUNNING_TOO_LONG_SECONDS, Job
from ghapp.health.verdict import State
from jobs.confirm import confirm_installation
from jobs.sweep import sweep_installation
from tests.stories.conftest import POOL
from tests.stories.test_main_job import at_work, state_of, sweep


async def lost_at_work(it):
    """A persistent runner whose registration went while a job of its own ran; nothing but a delivery says so."""
    await sweep(it)
    it.clock.pass_(300)
    await sweep(it)
    runner_id, job_id = await at_work(it)
    it.sandbox.control.lose("acme", ids=[runner_id])
    await sweep(it)
    it.clock.pass_(120)  # until then the delivery of its job's end may be on its way
    await sweep(it)
    it.clock.pass_(30)
    assert await confirm_installation(it.house, it.installation) == 0, "its job runs"
    return runner_id, job_id


async def test_an_end_that_does_not_name_its_runner_is_the_end_of_its_job(story):
    async with story(ephemeral=False) as it:
        runner_id, job_id = await lost_at_work(it)
        job = await it.house.demand.one(it.installation, job_id)
        await it.house.demand.tell(it.installation, [job._replace(status="over", runner_id=None, runner_name=None)])
        assert await confirm_installation(it.house, it.installation) == 1
        assert await state_of(it, runner_id) is State.INVALIDATED


@pytest.mark.parametrize(("more", "gone"), [(0, 0), (1, 1)], ids=["as long as a job may run", "longer"])
async def test_where_github_cannot_be_asked_a_job_vouches_for_as_long_as_one_may_run(story, more, gone):
    async with story(ephemeral=False) as it:
        runner_id, _ = await lost_at_work(it)
        known = await it.house.installations.one(it.installation)
        cannot_ask = {name: level for name, level in known.permissions.items() if name != "actions"}
        await it.house.installations.put(replace(known, permissions=cannot_ask))
        evidence = (await it.house.runners.some(it.installation, [runner_id]))[runner_id]
        it.clock.now = evidence.job_started_at + RUNNING_TOO_LONG_SECONDS + more
        await sweep_installation(it.house, it.installation)
        assert await confirm_installation(it.house, it.installation) == gone


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
    async with story() as it:
        began = it.clock()
        job = Job(7, status, (POOL,), "acme/api", began, started_at=began if status == "running" else None)
        await it.house.demand.tell(it.installation, [job])
        it.clock.pass_(age)
        await sweep_installation(it.house, it.installation)
        assert [each.id for each in await it.house.demand.all(it.installation)] == ([7] if kept else [])
