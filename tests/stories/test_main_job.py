"""The main job, step by step, with the clock in the story's hand."""

from __future__ import annotations

import json
from dataclasses import replace

from rq import Queue
from rq.serializers import JSONSerializer

from ghapp.health.demand import Job
from ghapp.health.seen import job_started, removed
from ghapp.health.verdict import State, judge
from jobs.confirm import confirm_installation
from jobs.deliver_event import EventDelivery
from jobs.remediate import remediate_runner
from jobs.sweep import sweep_installation
from tests.stories.conftest import POOL


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
        await EventDelivery(it.settings, it.house.redis, it.clock).deliver(event_id)
        await EventDelivery(it.settings, it.house.redis, it.clock).deliver(event_id)
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


async def lose_and_confirm(it, count=1):
    await sweep(it)
    it.clock.pass_(300)
    await sweep(it)
    lost = it.sandbox.control.lose("acme", count=count)
    await sweep(it)
    it.clock.pass_(30)
    assert await confirm_installation(it.house, it.installation) == count
    return lost


async def test_in_dry_run_a_loss_is_recorded_and_counted_once_and_nothing_is_done(story):
    async with story(config='[remediation]\nmode = "dry-run"') as it:
        (lost,) = await lose_and_confirm(it)
        await sweep(it)
        await sweep(it)
        counted = await it.house.counters.all()
        evidence = (await it.house.runners.some(it.installation, [lost]))[lost]
        assert await it.house.events.unsent() == []
    assert counted['ghapp_remediations_total{org="acme",outcome="dry-run"}'] == 1
    assert evidence.would_act_at is not None
    assert evidence.granted_at is None


async def test_a_crash_between_the_removal_and_the_event_does_not_lose_the_replacement(story):
    async with story() as it:
        (lost,) = await lose_and_confirm(it)
        await it.house.runners.revise(it.installation, {lost: lambda known: removed(known, it.clock())})
        urgent = Queue("urgent", connection=it.house.desk, serializer=JSONSerializer)
        urgent.empty()
        await sweep(it)
        assert urgent.job_ids == [f"remediate-{it.installation}-{lost}"]
        assert await remediate_runner(it.house, it.installation, lost) == "replaced"
        urgent.empty()
        await sweep(it)
        assert urgent.job_ids == [], "its event is in the outbox, and is sent from there"


async def test_without_the_permission_to_remove_nothing_is_tried(story):
    async with story() as it:
        (lost,) = await lose_and_confirm(it)
        known = await it.house.installations.one(it.installation)
        reading = {**known.permissions, "organization_self_hosted_runners": "read"}
        await it.house.installations.put(replace(known, permissions=reading))
        assert await remediate_runner(it.house, it.installation, lost) == "held"
        assert (await it.house.runners.some(it.installation, [lost]))[lost].removed_at is None


async def at_work(it):
    """A persistent runner takes a job, and a delivery told of it; the delivery of its end will be lost."""
    (job_id,) = it.sandbox.control.queue("acme", labels=[POOL])
    it.sandbox.control.step(seconds=5)
    tenant = await it.house.github.tenant(await it.house.installations.one(it.installation))
    ((repository, job),) = [
        (name, each)
        for name in ("acme/api", "acme/web", "acme/.github")
        if (each := await job_of(tenant, name, job_id)) is not None
    ]
    runner_id, at = job["runner_id"], it.clock()
    told = Job(job_id, "running", (POOL,), repository, at, runner_id, job["runner_name"], at)
    await it.house.demand.tell(it.installation, [told])
    await it.house.runners.revise(it.installation, {runner_id: lambda known: job_started(known, job_id, at)})
    return runner_id, job_id


async def job_of(tenant, repository, job_id):
    answer = await tenant.send("GET", f"/repos/{repository}/actions/jobs/{job_id}")
    return json.loads(answer.body) if answer.status == 200 else None


async def test_a_runner_that_is_absent_while_its_job_runs_is_not_confirmed_as_lost(story):
    async with story(ephemeral=False) as it:
        await sweep(it)
        it.clock.pass_(300)
        await sweep(it)
        runner_id, job_id = await at_work(it)
        it.sandbox.control.lose("acme", ids=[runner_id])
        await sweep(it)
        it.clock.pass_(120)  # until then the delivery of its job's end may be on its way
        await sweep(it)
        it.clock.pass_(30)
        assert await confirm_installation(it.house, it.installation) == 0
        assert await state_of(it, runner_id) is State.SUSPECT

        it.sandbox.control.finish("acme", job_id=job_id)
        assert await confirm_installation(it.house, it.installation) == 1, "GitHub itself says that the job is over"
        assert await state_of(it, runner_id) is State.INVALIDATED
