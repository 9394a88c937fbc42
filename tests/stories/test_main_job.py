"""The main job, step by step, with the clock in the story's hand."""

from __future__ import annotations

from ghapp.health.verdict import State, judge
from jobs.confirm import confirm_installation
from jobs.notify import notify_pool
from jobs.remediate import remediate_runner
from jobs.sweep import sweep_installation


async def state_of(it, runner_id):
    evidence = (await it.house.runners.some(it.installation, [runner_id])).get(runner_id)
    survey = await it.house.runners.survey(it.installation)
    return judge(evidence, survey, it.clock(), it.settings.of("acme").evidence).state


async def sweep(it):
    account = await sweep_installation(it.house, it.installation)
    assert account is not None
    return account


async def test_a_second_sweep_of_a_quiet_fleet_costs_nothing(story):
    async with story(runners=250) as it:
        first = await sweep(it)
        second = await sweep(it)
    assert (first.runners, first.calls, first.billable) == (250, 3, 3)
    assert (second.runners, second.calls, second.billable) == (250, 3, 0)


async def test_a_lost_registration_is_noticed_confirmed_removed_and_replaced_once(story):
    async with story() as it:
        await sweep(it)
        it.clock.pass_(300)
        await sweep(it)
        (lost,) = it.sandbox.control.lose("acme", count=1)
        account = await sweep(it)
        assert account.suspects == 1
        assert await state_of(it, lost) is State.SUSPECT
        assert await confirm_installation(it.house, it.installation) == 0, "not before confirm_seconds"

        it.clock.pass_(30)
        assert await confirm_installation(it.house, it.installation) == 1
        assert await state_of(it, lost) is State.INVALIDATED
        assert await remediate_runner(it.house, it.installation, lost) == "replaced"
        assert await remediate_runner(it.house, it.installation, lost) == "replaced"
        (event_id,) = await it.house.events.unsent()
        await notify_pool(it.house, event_id)
        await notify_pool(it.house, event_id)
        assert await remediate_runner(it.house, it.installation, lost) == "held", "it is replaced already"

        events = it.sandbox.control.controller_events()
        account = it.account()
    assert [event["data"]["runner_id"] for event in events] == [lost]
    assert events[0]["id"] == event_id
    assert events[0]["data"]["replace"] is True
    assert account["wrongful_removals"] == []


async def test_a_registration_that_comes_back_before_its_confirmation_is_left_alone(story):
    async with story() as it:
        await sweep(it)
        it.clock.pass_(300)
        await sweep(it)
        (lost,) = it.sandbox.control.lose("acme", count=1)
        await sweep(it)
        it.sandbox.control.restore("acme", ids=[lost])
        it.clock.pass_(30)
        assert await confirm_installation(it.house, it.installation) == 0
        assert await state_of(it, lost) is State.HEALTHY
        assert await it.house.events.unsent() == []


async def test_a_registration_that_comes_back_after_the_grant_is_not_removed(story):
    async with story() as it:
        await sweep(it)
        it.clock.pass_(300)
        await sweep(it)
        (lost,) = it.sandbox.control.lose("acme", count=1)
        await sweep(it)
        it.clock.pass_(30)
        await confirm_installation(it.house, it.installation)
        it.sandbox.control.restore("acme", ids=[lost])
        assert await remediate_runner(it.house, it.installation, lost) == "returned"
        account = it.account()
    assert account["wrongful_removals"] == []


async def test_a_mass_loss_lets_no_more_than_the_first_batch_through(story):
    async with story(runners=40) as it:
        await sweep(it)
        it.clock.pass_(300)
        await sweep(it)
        lost = it.sandbox.control.lose("acme", count=20)
        await sweep(it)
        it.clock.pass_(30)
        assert await confirm_installation(it.house, it.installation) == 20
        await sweep(it)
        records = await it.house.runners.some(it.installation, lost)
        fuses = await it.house.fuses.all(it.installation)
    assert sum(each.granted_at is not None for each in records.values()) == 3
    assert fuses["linux-4vcpu"].position == "proving"


async def test_without_an_answer_nothing_is_concluded(story):
    async with story() as it:
        await sweep(it)
        it.clock.pass_(290)
        it.sandbox.control.lose("acme", count=12)
        it.sandbox.control.fault(match=".*", status=500)
        account = await sweep(it)
        assert account.flaw == "GitHubUnavailable"
        known = list((await it.house.runners.all(it.installation)).values())
        assert {await state_of(it, each.id) for each in known} == {State.HEALTHY}
        it.clock.pass_(11)
        assert {await state_of(it, each.id) for each in known} == {State.UNKNOWN}
        assert await it.house.events.unsent() == []
