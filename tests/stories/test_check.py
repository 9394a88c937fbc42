"""A controller requests a check of one runner."""

from __future__ import annotations

from ghapp.health.runner.verdict import State
from ghapp.store import keys
from jobs.runners.check_runner import check_runner
from jobs.runners.confirm import confirm_installation
from jobs.runners.sweep import sweep_installation
from tests.stories.test_main_job import state_of


async def known_fleet(app):
    await sweep_installation(app.context, app.installation)
    app.clock.pass_(200)
    await sweep_installation(app.context, app.installation)


async def test_a_check_of_a_lost_runner_starts_the_time_of_its_confirmation(story):
    async with story() as app:
        await known_fleet(app)
        (lost,) = app.sandbox.control.lose("acme", count=1)
        await check_runner(app.context, app.installation, lost)
        assert await state_of(app, lost) is State.SUSPECT
        app.clock.pass_(30)
        assert await confirm_installation(app.context, app.installation) == 1


async def test_a_check_costs_one_call_and_none_when_reports_have_spent_their_share(story):
    async with story() as app:
        await known_fleet(app)
        runner_id = next(iter(await app.context.runners.all(app.installation)))
        before = await app.context.budget.left(app.installation, app.clock())
        await check_runner(app.context, app.installation, runner_id)
        after = await app.context.budget.left(app.installation, app.clock())
        assert after.used - before.used == 1
        reset = (await app.context.redis.hget(keys.budget(app.installation), "reset")).decode()
        spent = {"x-ratelimit-limit": "5000", "x-ratelimit-used": "2250", "x-ratelimit-reset": reset}
        await app.context.budget.leave(app.installation, "", spent)
        await check_runner(app.context, app.installation, runner_id)
        assert (await app.context.budget.left(app.installation, app.clock())).used == 2250, "nothing was sent"


async def test_a_check_of_an_unknown_runner_makes_it_known(story):
    async with story() as app:
        (newcomer,) = app.sandbox.control.register("acme", pool="linux-4vcpu", count=1)
        app.clock.pass_(20)
        await check_runner(app.context, app.installation, newcomer)
        assert newcomer in await app.context.runners.all(app.installation)


async def test_a_check_of_a_runner_that_does_not_exist_leaves_no_record(story):
    async with story() as app:
        await known_fleet(app)
        await check_runner(app.context, app.installation, 424242)
        assert 424242 not in await app.context.runners.all(app.installation)
