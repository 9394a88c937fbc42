"""A sweep that finds the list and the records as they were reads no record; whatever changes, the next one does."""

from __future__ import annotations

from functools import partial

import pytest

from ghapp.incidents.history import STEP_SECONDS, step_of
from ghapp.runners.observations import retired_by_controller
from ghapp.runners.store import Runners
from ghapp.runners.verdict import State
from jobs.deliveries.inbox import drain_inbox
from jobs.runners.sweep import sweep_installation
from tests.stories.conftest import POOL
from tests.stories.deliveries.test_deliveries import deliver
from tests.stories.incidents.test_history import killed, total, until

INTERVAL = 30


@pytest.fixture
def reads(monkeypatch):
    """Each read of all records."""
    found, read = [], Runners.all

    async def counted(self, installation):
        found.append(installation)
        return await read(self, installation)

    monkeypatch.setattr(Runners, "all", counted)
    return found


async def a_sweep(app, seconds=INTERVAL):
    await app.pass_(seconds)
    return await sweep_installation(app.context, app.installation)


async def until_settled(app):
    """A fleet that has started is quiet since the begin of a step, and was swept twice in it."""
    await a_sweep(app)
    await app.pass_(2 * STEP_SECONDS - app.clock() % STEP_SECONDS)
    for _ in range(2):
        await a_sweep(app)


async def test_a_quiet_fleet_is_read_once_in_a_step_and_is_observed_by_each_sweep(story, reads):
    async with story() as app:
        await until_settled(app)
        reads.clear()
        for _ in range(7):
            swept = await a_sweep(app)
            assert (swept.runners, swept.suspects, swept.billable, swept.flaw) == (12, 0, 0, "")
        assert reads == []
        assert (await app.context.runners.survey(app.installation)).swept_at == app.clock()
        assert await app.states() == {State.HEALTHY: 12}
        reads.clear()
        for _ in range(10):
            await a_sweep(app)
        assert len(reads) == 1, "of the next step"


async def test_a_fleet_with_offline_and_retired_runners_is_read_once_in_a_step(story, reads):
    async with story() as app:
        await until_settled(app)
        app.sandbox.control.take_offline("acme", count=2)
        (removed,) = app.sandbox.control.lose("acme", count=1)
        await app.context.runners.revise(app.installation, {removed: partial(retired_by_controller, at=app.clock())})
        await until_settled(app)
        await a_sweep(app)
        assert await app.states() == {State.HEALTHY: 9, State.OFFLINE: 2, State.RETIRED: 1}
        reads.clear()
        for _ in range(5):
            assert (await a_sweep(app)).repeats
        assert reads == []


async def test_a_loss_is_found_by_the_first_sweep_after_it(story):
    async with story() as app:
        await until_settled(app)
        assert (await a_sweep(app)).repeats > 0
        app.sandbox.control.lose("acme", count=1)
        swept = await a_sweep(app)
        assert (swept.runners, swept.suspects, swept.repeats) == (11, 1, 0)
        assert (await a_sweep(app)).repeats == 0, "a suspect is never at rest"


async def test_a_runner_that_is_known_from_a_delivery_alone_is_read(story):
    async with story() as app:
        await until_settled(app)
        runner = max((await app.context.runners.all(app.installation)).values())
        await a_sweep(app)
        await deliver(app, "1", "in_progress", runner)
        await drain_inbox(app.context)
        assert (await a_sweep(app)).repeats == 0
        assert (await a_sweep(app)).repeats == 1, "a running job changes nothing more"


@pytest.mark.parametrize(
    ("method", "when"),
    [
        ("SettledSweeps.begin", "before"),
        ("Runners.all", "before"),
        ("Runners.all", "after"),
        ("Runners.save_survey", "before"),
    ],
)
async def test_a_list_that_was_read_by_a_killed_sweep_is_judged_by_the_next(story, method, when):
    async with story() as app:
        await until_settled(app)
        app.sandbox.control.lose("acme", count=1)
        await app.pass_(INTERVAL)
        await killed(app, method, when, "sweep")
        swept = await until(lambda: sweep_installation(app.context, app.installation))
        assert (swept.suspects, swept.repeats) == (1, 0)


async def test_sweeps_that_read_nothing_count_in_the_mean_of_the_history(story):
    async with story() as app:
        await until_settled(app)
        begin = step_of(app.clock())
        for _ in range(3):
            assert (await a_sweep(app)).repeats
        app.sandbox.control.lose("acme", count=6)
        await a_sweep(app)
        step = (await app.context.history.steps(app.installation, POOL, begin, begin + STEP_SECONDS, STEP_SECONDS))[
            begin
        ]
        assert (step.samples, step.total[0]) == (6, 5 * 12 + 6)
        assert (await total(app)).highest("healthy") == 12
