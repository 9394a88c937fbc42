"""Somebody asks for a look at one runner."""

from __future__ import annotations

from ghapp.health.verdict import State
from ghapp.store import keys
from jobs.check import check_runner
from jobs.confirm import confirm_installation
from jobs.sweep import sweep_installation
from tests.stories.test_main_job import state_of


async def known_fleet(it):
    await sweep_installation(it.house, it.installation)
    it.clock.pass_(200)
    await sweep_installation(it.house, it.installation)


async def test_a_look_at_a_lost_runner_starts_the_clock_of_its_confirmation(story):
    async with story() as it:
        await known_fleet(it)
        (lost,) = it.sandbox.control.lose("acme", count=1)
        await check_runner(it.house, it.installation, lost)
        assert await state_of(it, lost) is State.SUSPECT
        it.clock.pass_(30)
        assert await confirm_installation(it.house, it.installation) == 1


async def test_a_look_costs_one_call_and_none_when_reports_have_spent_their_share(story):
    async with story() as it:
        await known_fleet(it)
        runner_id = next(iter(await it.house.runners.all(it.installation)))
        before = await it.house.budget.left(it.installation, it.clock())
        await check_runner(it.house, it.installation, runner_id)
        after = await it.house.budget.left(it.installation, it.clock())
        assert after.used - before.used == 1
        reset = (await it.house.redis.hget(keys.budget(it.installation), "reset")).decode()
        spent = {"x-ratelimit-limit": "5000", "x-ratelimit-used": "2250", "x-ratelimit-reset": reset}
        await it.house.budget.leave(it.installation, "", spent)
        await check_runner(it.house, it.installation, runner_id)
        assert (await it.house.budget.left(it.installation, it.clock())).used == 2250, "nothing was sent"


async def test_a_look_at_a_runner_that_nobody_knew_makes_it_known(story):
    async with story() as it:
        (newcomer,) = it.sandbox.control.register("acme", pool="linux-4vcpu", count=1)
        it.clock.pass_(20)
        await check_runner(it.house, it.installation, newcomer)
        assert newcomer in await it.house.runners.all(it.installation)


async def test_a_look_at_nobody_leaves_nothing_behind(story):
    async with story() as it:
        await known_fleet(it)
        await check_runner(it.house, it.installation, 424242)
        assert 424242 not in await it.house.runners.all(it.installation)
