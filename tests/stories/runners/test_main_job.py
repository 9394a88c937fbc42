"""The main scenario, step by step, with a clock that the story controls."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from rq import Queue
from rq.serializers import JSONSerializer

from ghapp.installations import pacing
from ghapp.runners import absence
from ghapp.runners.absence import LOOKUP_SECONDS
from ghapp.runners.observations import job_started, removed
from ghapp.runners.verdict import State, judge
from ghapp.workflow_jobs.job import Job
from jobs.remediation.remediate import remediate_runner
from jobs.runners import confirm
from jobs.runners.confirm import confirm_installation
from jobs.runners.sweep import sweep_installation
from tests.stories.conftest import POOL
from tests.support.event_delivery import deliver_event


async def state_of(app, runner_id):
    evidence = (await app.context.runners.some(app.installation, [runner_id])).get(runner_id)
    survey = await app.context.runners.survey(app.installation)
    return judge(evidence, survey, app.clock(), app.settings.of("acme").evidence).state


async def sweep(app):
    account = await sweep_installation(app.context, app.installation)
    assert account is not None
    return account


async def age(app):
    """The runners are known for longer than a new one may be absent."""
    await sweep(app)
    app.clock.pass_(300)
    await sweep(app)


async def lose(app, count=1):
    """Runners that are known lose their registrations, and the next sweep notices it."""
    await age(app)
    lost = app.sandbox.control.lose("acme", count=count)
    await sweep(app)
    return lost


async def test_a_second_sweep_of_a_quiet_fleet_costs_nothing(story):
    async with story(runners=250) as app:
        first = await sweep(app)
        second = await sweep(app)
    assert (first.runners, first.calls, first.billable) == (250, 3, 3)
    assert (second.runners, second.calls, second.billable) == (250, 3, 0)


@pytest.mark.parametrize(("points", "seconds"), [(10, 60.0), (3, 61.0), (1, 183.0)])
async def test_the_points_of_a_list_put_off_the_next_sweep(story, monkeypatch, points, seconds):
    monkeypatch.setattr(pacing, "PACED_POINTS", points)
    async with story(runners=250) as app:
        assert (await sweep(app)).next_in == seconds
        assert await app.context.schedule.next(app.installation) == app.clock() + seconds


async def test_a_lost_registration_is_noticed_confirmed_removed_and_replaced_once(story):
    async with story() as app:
        await age(app)
        (lost,) = app.sandbox.control.lose("acme", count=1)
        account = await sweep(app)
        assert account.suspects == 1
        assert await state_of(app, lost) is State.SUSPECT
        assert await confirm_installation(app.context, app.installation) == 0, "not before confirm_seconds"

        app.clock.pass_(30)
        assert await confirm_installation(app.context, app.installation) == 1
        assert await state_of(app, lost) is State.INVALIDATED
        assert await remediate_runner(app.context, app.installation, lost) == "replaced"
        assert await remediate_runner(app.context, app.installation, lost) == "still-waiting"
        (event_id,) = await app.context.events.unsent()
        await deliver_event(app.context, event_id)
        await deliver_event(app.context, event_id)
        assert await remediate_runner(app.context, app.installation, lost) == "held", "it is replaced already"

        events = app.sandbox.control.controller_events()
        account = app.account()
    assert [event["data"]["runner_id"] for event in events] == [lost]
    assert events[0]["id"] == event_id
    assert events[0]["data"]["replace"] is True
    assert account["wrongful_removals"] == []


@pytest.fixture
def waits(monkeypatch):
    """Confirmations wait by the story's clock: `waits(app)`. Returns the list of their waits, in seconds."""

    def by_the_clock_of(app):
        found = []

        async def sleep(seconds):
            found.append(seconds)
            app.clock.pass_(seconds)

        monkeypatch.setattr(confirm, "sleep", sleep)
        return found

    return by_the_clock_of


@pytest.mark.parametrize("by_sweep", [True, False], ids=["a sweep", "the job"])
@pytest.mark.parametrize(
    ("passed", "confirmed", "waited"),
    [(27.99, 0, []), (28.0, 1, [2.0]), (29.5, 1, [0.5]), (30.0, 1, [])],
    ids=["too early", "two seconds early", "half a second early", "at confirm_seconds"],
)
async def test_a_confirmation_reads_its_control_list_first_and_waits_for_the_first_404_to_be_old_enough(
    story, waits, by_sweep, passed, confirmed, waited
):
    async with story() as app:
        (lost,) = await lose(app)
        first = (await app.context.runners.some(app.installation, [lost]))[lost].first_404_at
        app.clock.now = first + passed
        found = waits(app)
        if by_sweep:
            await sweep(app)
        else:
            await confirm_installation(app.context, app.installation)
        evidence = (await app.context.runners.some(app.installation, [lost]))[lost]
    assert found == pytest.approx([each + confirm.CLOCK_SLACK_SECONDS for each in waited], abs=0.001)
    assert (evidence.confirmed_at is not None) == bool(confirmed)
    if confirmed:
        assert evidence.confirmed_at - first >= 30.0


async def test_after_the_wait_only_what_is_due_by_our_clock_is_confirmed(story, monkeypatch):
    """The clock that waits may be faster than the one that dates the first 404."""

    async def sleep(_seconds):
        """Returns at once."""

    async with story() as app:
        await lose(app)
        app.clock.pass_(29)
        monkeypatch.setattr(confirm, "sleep", sleep)
        app.sandbox.control.reset_account()
        assert await confirm_installation(app.context, app.installation) == 0
        calls = app.account()["calls"]
    assert "GET /orgs/{org}/actions/runners/{runner_id}" not in calls


async def test_a_sweep_confirms_what_is_due_with_its_own_list(story):
    async with story(runners=250) as app:
        lost = await lose(app, 5)
        app.clock.pass_(30)
        app.sandbox.control.reset_account()
        swept = await sweep(app)
        calls = {name: each["total"] for name, each in app.account()["calls"].items()}
        assert (swept.suspects, swept.confirm_at) == (0, ())
        assert {await state_of(app, each) for each in lost} == {State.INVALIDATED}
    assert calls == {
        "GET /orgs/{org}/actions/runners": 3,
        "GET /orgs/{org}/actions/runners/{runner_id}": len(lost),
        "GET /app/installations/{installation_id}": 1,
        "GET /app/hook/deliveries": 1,
    }


async def test_a_sweep_whose_pages_shifted_lists_each_suspect_by_name(story, monkeypatch):
    async with story(runners=250) as app:
        (lost,) = await lose(app)
        app.clock.pass_(30)
        monkeypatch.setattr(absence, "allow_for_churn", lambda look: look._replace(churned=True))
        app.sandbox.control.reset_account()
        await sweep(app)
        assert await state_of(app, lost) is State.INVALIDATED
        assert app.account()["calls"]["GET /orgs/{org}/actions/runners"]["total"] == 3 + 1


async def test_a_loss_that_a_list_with_page_churn_shows_is_a_suspect_at_once(story, monkeypatch):
    async with story(runners=250) as app:
        await age(app)
        (lost,) = app.sandbox.control.lose("acme", count=1)
        monkeypatch.setattr(absence, "allow_for_churn", lambda look: look._replace(churned=True))
        swept = await sweep(app)
        assert (await state_of(app, lost), swept.suspects) == (State.SUSPECT, 1)
        app.clock.pass_(30)
        await sweep(app)
        assert await state_of(app, lost) is State.INVALIDATED


async def test_a_sweep_that_does_not_act_confirms_nothing(story):
    async with story() as app:
        (lost,) = await lose(app)
        app.clock.pass_(30)
        await sweep_installation(app.context, app.installation, act=False)
        assert await state_of(app, lost) is State.SUSPECT


async def test_while_another_process_confirms_a_sweep_does_not(story):
    async with story() as app:
        (lost,) = await lose(app)
        app.clock.pass_(30)
        async with app.context.locks.acquire("confirm", app.installation):
            await sweep(app)
        assert await state_of(app, lost) is State.SUSPECT


async def test_a_registration_that_comes_back_before_its_confirmation_is_left_alone(story):
    async with story() as app:
        (lost,) = await lose(app)
        app.sandbox.control.restore("acme", ids=[lost])
        app.clock.pass_(30)
        assert await confirm_installation(app.context, app.installation) == 0
        assert await state_of(app, lost) is State.HEALTHY
        assert await app.context.events.unsent() == []


async def test_a_registration_that_comes_back_after_the_grant_is_not_removed(story):
    async with story() as app:
        (lost,) = await lose(app)
        app.clock.pass_(30)
        await confirm_installation(app.context, app.installation)
        app.sandbox.control.restore("acme", ids=[lost])
        assert await remediate_runner(app.context, app.installation, lost) == "returned"
        account = app.account()
    assert account["wrongful_removals"] == []


async def test_a_mass_loss_lets_no_more_than_the_first_batch_through(story):
    async with story(runners=40) as app:
        lost = await lose(app, 20)
        app.clock.pass_(30)
        assert await confirm_installation(app.context, app.installation) == 20
        await sweep(app)
        records = await app.context.runners.some(app.installation, lost)
        fuses = await app.context.fuses.all(app.installation)
    assert sum(each.granted_at is not None for each in records.values()) == 3
    assert fuses["linux-4vcpu"].position == "proving"


async def test_without_an_answer_nothing_is_concluded(story):
    async with story() as app:
        await sweep(app)
        app.clock.pass_(290)
        app.sandbox.control.lose("acme", count=12)
        app.sandbox.control.fault(match=".*", status=500)
        account = await sweep(app)
        assert account.flaw == "GitHubUnavailable"
        known = list((await app.context.runners.all(app.installation)).values())
        assert {await state_of(app, each.id) for each in known} == {State.HEALTHY}
        app.clock.pass_(11)
        assert {await state_of(app, each.id) for each in known} == {State.UNKNOWN}
        assert await app.context.events.unsent() == []


async def lose_and_confirm(app):
    lost = await lose(app)
    app.clock.pass_(30)
    assert await confirm_installation(app.context, app.installation) == 1
    return lost


async def test_in_dry_run_a_loss_is_recorded_and_counted_once_and_nothing_is_done(story):
    async with story(config='[remediation]\nmode = "dry-run"') as app:
        (lost,) = await lose_and_confirm(app)
        await sweep(app)
        await sweep(app)
        counted = await app.context.counters.all()
        evidence = (await app.context.runners.some(app.installation, [lost]))[lost]
        assert await app.context.events.unsent() == []
    assert counted['ghapp_remediations_total{org="acme",outcome="dry-run"}'] == 1
    assert evidence.would_remediate_at is not None
    assert evidence.granted_at is None


async def test_a_crash_between_the_removal_and_the_event_does_not_lose_the_replacement(story):
    async with story() as app:
        (lost,) = await lose_and_confirm(app)
        await app.context.runners.revise(app.installation, {lost: lambda known: removed(known, app.clock())})
        urgent = Queue("urgent", connection=app.context.queue_redis, serializer=JSONSerializer)
        urgent.empty()
        await sweep(app)
        assert urgent.job_ids == [f"remediate-{app.installation}-{lost}"]
        assert await remediate_runner(app.context, app.installation, lost) == "replaced"
        urgent.empty()
        await sweep(app)
        assert urgent.job_ids == [], "its event is in the outbox, and is sent from there"


async def test_without_the_permission_to_remove_nothing_is_tried(story):
    async with story() as app:
        (lost,) = await lose_and_confirm(app)
        known = await app.context.installations.one(app.installation)
        reading = {**known.permissions, "organization_self_hosted_runners": "read"}
        await app.context.installations.put(replace(known, permissions=reading))
        assert await remediate_runner(app.context, app.installation, lost) == "held"
        assert (await app.context.runners.some(app.installation, [lost]))[lost].removed_at is None


async def at_work(app):
    """A persistent runner takes a job, and a delivery reported it; the delivery of its end will be lost."""
    (job_id,) = app.sandbox.control.queue("acme", labels=[POOL])
    app.sandbox.control.step(seconds=5)
    installation_client = await app.context.github.installation_client(
        await app.context.installations.one(app.installation)
    )
    ((repository, job),) = [
        (name, each)
        for name in ("acme/api", "acme/web", "acme/.github")
        if (each := await job_of(installation_client, name, job_id)) is not None
    ]
    runner_id, at = job["runner_id"], app.clock()
    reported = Job(job_id, "running", (POOL,), repository, at, runner_id, job["runner_name"], at)
    await app.context.demand.record(app.installation, [reported])
    await app.context.runners.revise(app.installation, {runner_id: lambda known: job_started(known, job_id, at)})
    return runner_id, job_id


async def job_of(installation_client, repository, job_id):
    answer = await installation_client.send("GET", f"/repos/{repository}/actions/jobs/{job_id}")
    return json.loads(answer.body) if answer.status == 200 else None


async def test_a_runner_that_is_absent_while_its_job_runs_is_not_confirmed_as_lost(story):
    async with story(ephemeral=False) as app:
        await age(app)
        runner_id, job_id = await at_work(app)
        app.sandbox.control.lose("acme", ids=[runner_id])
        await sweep(app)
        app.clock.pass_(120)  # until then the delivery of its job's end may be on its way
        await sweep(app)
        app.clock.pass_(30)
        assert await confirm_installation(app.context, app.installation) == 0
        assert await state_of(app, runner_id) is State.SUSPECT

        app.sandbox.control.finish("acme", job_id=job_id)
        app.clock.pass_(LOOKUP_SECONDS[0])
        assert await confirm_installation(app.context, app.installation) == 1, (
            "GitHub itself reports that the job is over"
        )
        assert await state_of(app, runner_id) is State.INVALIDATED


@pytest.mark.parametrize("pool", ["", 'shard_name = "^(?P<shard>linux)-"'], ids=["no shards", "shards"])
async def test_the_time_from_a_loss_to_its_successor_online_is_counted_once(story, pool):
    async with story(pool=pool) as app:
        await app.live_through_an_interval()
        await app.pass_(300)
        (lost,) = app.sandbox.control.lose("acme", count=1)
        await app.live_through_an_interval()
        assert await app.replacements() == [lost]
        for _ in range(3):
            await app.live_through_an_interval()
        counted = await app.context.counters.all()
        labels = 'org="acme",pool="linux-4vcpu"' + (',shard="linux"' if pool else "")
        assert counted[f"ghapp_heal_seconds_count{{{labels}}}"] == 1
        assert 30 <= counted[f"ghapp_heal_seconds_sum{{{labels}}}"] <= 180
        runners = await app.context.runners.all(app.installation)
        assert runners[runners[lost].successor].succeeds == lost
