"""While deliveries are missing or late, no absence is confirmed; and no lost runner is missed."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from unittest import mock

import msgspec
import pytest

from ghapp.github.deliveries import encode, parse
from ghapp.installations import doctor as installations
from ghapp.remediation.fuse import Fuse, FuseLimits
from ghapp.remediation.fuse_counts import fuse_counts
from ghapp.runners.delivery_lag import GapCause, completeness, was_confirmed_without_deliveries
from ghapp.runners.evidence import Evidence
from ghapp.runners.verdict import Reason, State, judge
from ghapp.sandbox.config import Pace
from ghapp.store import keys
from jobs.deliveries.inbox import drain_inbox
from jobs.deliveries.redeliver import redeliver_failed
from jobs.remediation.plan_inputs import load_inputs
from jobs.runners.confirm import confirm_installation
from jobs.runners.sweep import sweep_installation
from tests.stories.conftest import POOL

CHURN = Pace(job=(15.0, 60.0))
"""Jobs that often begin and end between two lists."""

CHURNING = 60
"""Runners; each ends its only job within a minute."""

SPAN_SECONDS = 1200.0
"""For so long deliveries are late."""

STEP, LONG_STEP = 6.0, 15.0
"""Seconds; the scheduler requests a batch of redeliveries as often as the first. Without any, the second is enough."""


async def live(app, seconds, *, step=STEP, redeliver=False):
    """The fleet works in small steps; a sweep each minute, and confirmations when they are due, as with roles.

    With `redeliver` failed deliveries are requested again, as often as the scheduler has it.
    """
    confirm_at: list[float] = []
    swept_at = 0.0
    for _ in range(int(seconds / step)):
        await app.pass_(step)
        if redeliver:
            await redeliver_failed(app.context)
        await app.receive_sent()
        if app.clock() - swept_at >= 60:
            swept = await sweep_installation(app.context, app.installation)
            swept_at, confirm_at = app.clock(), [*swept.confirm_at]
            await app.work_off()
        if any(at <= app.clock() for at in confirm_at):
            confirm_at = [at for at in confirm_at if at > app.clock()]
            await confirm_installation(app.context, app.installation)
            await app.work_off()


@pytest.mark.parametrize("minutes", [0, 10])
async def test_a_fleet_that_churns_is_not_replaced_because_its_deliveries_are_late(story, minutes):
    async with story(CHURNING, quiet=False, pace=CHURN) as app:
        app.listen()
        await live(app, 300, step=LONG_STEP)
        if minutes:
            app.sandbox.control.delay_deliveries("acme", by=60.0 * minutes, seconds=SPAN_SECONDS)
        await live(app, SPAN_SECONDS + 60.0 * minutes, step=LONG_STEP)
        assert len(await app.replacements()) <= 3


async def reason(app, runner_id):
    """The present state of a runner and its reason."""
    evidence = (await app.context.runners.some(app.installation, [runner_id]))[runner_id]
    survey = await app.context.runners.survey(app.installation)
    return judge(evidence, survey, app.clock(), app.settings.of("acme").evidence)[:2]


async def test_of_560_runners_that_finished_while_web_was_down_none_is_replaced(story):
    async with story(570, pace=Pace(job=(20.0, 30.0))) as app:
        app.listen()
        await sweep_installation(app.context, app.installation)
        await app.pass_(200)
        await sweep_installation(app.context, app.installation)
        app.sandbox.control.fail_deliveries("acme", seconds=50)
        app.sandbox.control.queue("acme", labels=[POOL], count=560)
        await live(app, 60)
        assert not app.hook.received, "all three deliveries of each job have failed"
        await live(app, 270, redeliver=True)
        assert (await app.states())[State.RETIRED] == 560, "ends of jobs are requested first, 160 a minute"
        await live(app, 600, redeliver=True)
        assert await app.replacements() == []
        log = await app.context.delivery_status.log()
        assert (log.missing, log.failing_since) == ((), None)


async def doctors_text(app):
    """What doctor says of how complete the org's deliveries are, by the story's clock."""
    installation = await app.context.installations.one(app.installation)
    with mock.patch.object(installations.time, "time", app.clock):
        findings = await installations._of_records(app.settings, app.context, installation)
    (found,) = [each for each in findings if each.name == "complete"]
    return found.text


async def lose_one(app):
    """An idle ephemeral runner is lost; its id."""
    await sweep_installation(app.context, app.installation)
    await app.pass_(200)
    (lost,) = app.sandbox.control.lose("acme", count=1)
    return lost


async def test_a_lost_ephemeral_runner_is_replaced_in_time_while_deliveries_are_complete(story):
    async with story() as app:
        app.listen()
        lost = await lose_one(app)
        await app.live_through_an_interval()
        await app.live_through_an_interval()
        assert await app.replacements() == [lost]


async def stay_behind(app):
    """Deliveries about jobs fail, also when they are requested again."""
    app.listen()
    app.sandbox.control.fail_deliveries("acme")
    app.sandbox.control.queue("acme", labels=["no-such-runner"], count=1)
    app.hook.status = 503


@pytest.mark.parametrize("ephemeral", [True, False])
async def test_while_deliveries_stay_behind_a_lost_runner_waits_for_an_hour(story, ephemeral):
    async with story(ephemeral=ephemeral) as app:
        lost = await lose_one(app)
        await stay_behind(app)
        for _ in range(30):
            await app.live_through_an_interval()
        assert await app.replacements() == []
        assert await reason(app, lost) == (State.SUSPECT, Reason.DELIVERIES_BEHIND)
        assert "absent runners that wait for them: 1" in await doctors_text(app)
        for _ in range(16):  # its token expires, and the time until the next list does not count
            await app.live_through_an_interval()
        assert await app.replacements() == [lost]
        (evidence,) = (await app.context.runners.some(app.installation, [lost])).values()
        assert was_confirmed_without_deliveries(evidence)
        assert "confirmed as lost after 1 h without them: 1" in await doctors_text(app)


async def test_a_time_without_lists_does_not_count_to_that_hour(story):
    async with story() as app:
        await lose_one(app)
        await stay_behind(app)
        await app.live_through_an_interval()
        app.sandbox.control.fault("acme", status=502, seconds=7200)
        for _ in range(40):
            await app.pass_(180)
            await sweep_installation(app.context, app.installation)
        for _ in range(2):
            await app.live_through_an_interval()
        assert await app.replacements() == []


async def test_a_log_that_cannot_be_read_holds_up_a_loss_until_it_can(story):
    async with story() as app:
        app.listen()
        lost = await lose_one(app)
        app.sandbox.control.fault(status=502, match="/app/hook/deliveries", seconds=600)
        for _ in range(4):
            await app.live_through_an_interval()
        assert await app.replacements() == []
        assert await reason(app, lost) == (State.SUSPECT, Reason.DELIVERIES_BEHIND)
        for _ in range(5):
            await app.live_through_an_interval()
        assert await app.replacements() == [lost]


@pytest.mark.parametrize("late", [2 * 3600, 2 * 86_400], ids=["two hours", "two days"])
@pytest.mark.parametrize("status", ["queued", "in_progress"])
async def test_a_redelivery_revives_no_job_that_has_ended(story, status, late):
    async with story() as app:
        await sweep_installation(app.context, app.installation)
        runner = next(iter((await app.context.runners.all(app.installation)).values()))
        began = app.clock()
        await deliver(app, "end", "completed", runner, began)
        await app.pass_(late)
        await deliver(app, "again", status, runner, began)
        assert await app.context.demand.all(app.installation) == []
        (record,) = (await app.context.runners.some(app.installation, [runner.id])).values()
        assert record.running_job is None


async def test_a_redelivered_start_of_a_job_that_still_runs_has_its_effect(story):
    async with story() as app:
        await sweep_installation(app.context, app.installation)
        runner = next(iter((await app.context.runners.all(app.installation)).values()))
        await deliver(app, "another", "completed", runner, app.clock(), job=8)
        began = app.clock()
        await app.pass_(2 * 3600)
        await deliver(app, "start", "in_progress", runner, began)
        assert [(job.id, job.status) for job in await app.context.demand.all(app.installation)] == [(9, "running")]


async def deliver(app, guid, status, runner, began, job=9):
    """A delivery of a job that began then arrives, and takes effect."""
    at = datetime.fromtimestamp(began, UTC).isoformat()
    body = {
        "action": status,
        "installation": {"id": app.installation},
        "repository": {"full_name": "acme/api"},
        "workflow_job": {
            "id": job,
            "status": status,
            "labels": [POOL],
            "created_at": at,
            "started_at": at,
            "completed_at": at if status == "completed" else None,
            "runner_id": None if status == "queued" else runner.id,
            "runner_name": None if status == "queued" else runner.name,
        },
    }
    facts = encode(parse("workflow_job", msgspec.json.encode(body), "application/json"))
    await app.context.inbox.keep(guid, "workflow_job", facts)
    await drain_inbox(app.context)


async def arrivals_of(app):
    """What is known of the org's deliveries."""
    return (await app.context.delivery_status.arrivals([app.installation]))[app.installation]


@pytest.mark.parametrize(
    ("age", "seconds"), [(40, 40.0), (5, None), (2 * 3600, None), (-300, None)], ids=["late", "fresh", "old", "future"]
)
async def test_the_age_of_a_delivery_is_noted_when_it_takes_effect(story, age, seconds):
    async with story() as app:
        await sweep_installation(app.context, app.installation)
        runner = next(iter((await app.context.runners.all(app.installation)).values()))
        await deliver(app, "1", "in_progress", runner, app.clock() - age)
        arrivals = await arrivals_of(app)
        assert arrivals.last_at == pytest.approx(app.clock(), abs=1)
        assert [each.seconds for each in arrivals.late] == (
            [] if seconds is None else [pytest.approx(seconds, abs=1.5)]
        )


@pytest.mark.parametrize("quiet_hours", [0, 2, 30])
async def test_after_a_quiet_night_late_deliveries_cost_no_runner(story, quiet_hours):
    async with story(20, pace=Pace(job=(20.0, 30.0))) as app:
        app.listen()
        await sweep_installation(app.context, app.installation)
        await app.pass_(200)
        app.sandbox.control.queue("acme", labels=[POOL], count=1)
        await live(app, 120)
        for _ in range(quiet_hours):
            await app.pass_(3600)
            await sweep_installation(app.context, app.installation)
        await live(app, 120)
        app.sandbox.control.delay_deliveries("acme", by=900.0, seconds=1800)
        for _ in range(8):
            app.sandbox.control.queue("acme", labels=[POOL], count=1)
            await live(app, 42)
            app.sandbox.control.queue("acme", labels=[POOL], count=1)  # it runs when the next list is read
            await live(app, 18)
        assert "began to work since" in await doctors_text(app)
        await live(app, 1200)
        assert await app.replacements() == []


async def test_silence_is_reported_for_as_long_as_github_lists_new_work(story):
    async with story() as app:
        await sweep_installation(app.context, app.installation)
        runner, *others = (await app.context.runners.all(app.installation)).values()
        await deliver(app, "1", "in_progress", runner, app.clock())
        await app.pass_(60)
        app.sandbox.control.busy("acme", ids=[others[0].id])
        await sweep_installation(app.context, app.installation)
        named = [keys.delivery_arrivals(app.installation), keys.delivery_expected(app.installation)]
        for key in named:
            assert await app.context.redis.ttl(key) > 29 * 86_400
            await app.context.redis.expire(key, 60)
        await app.pass_(3 * 3600)
        for _ in range(2):  # its token has expired
            await sweep_installation(app.context, app.installation)
            await app.pass_(60)
        assert "no delivery has come for 3 h" in await doctors_text(app)
        assert [await app.context.redis.ttl(key) > 29 * 86_400 for key in named] == [True, True]


async def test_deliveries_that_are_all_hours_late_are_reported(story):
    async with story() as app:
        await sweep_installation(app.context, app.installation)
        runner = next(iter((await app.context.runners.all(app.installation)).values()))
        for number in range(1, 4):
            await app.pass_(60)
            await deliver(app, str(number), "in_progress", runner, app.clock() - 9000, job=number)
        assert "deliveries arrive 2 h 29 min late" in await doctors_text(app)
        facts = await app.context.delivery_status.facts([app.installation])
        assert [each.cause for each in completeness(facts[app.installation], app.clock())] == [GapCause.LATE]


async def test_a_redelivery_is_no_sign_that_deliveries_are_late(story):
    async with story() as app:
        await sweep_installation(app.context, app.installation)
        runner = next(iter((await app.context.runners.all(app.installation)).values()))
        await app.context.delivery_status.mark_missing(["1"], app.clock())
        await deliver(app, "1", "in_progress", runner, app.clock() - 300)
        assert (await arrivals_of(app)).last_at is None


async def test_a_replayed_dead_letter_is_no_sign_that_deliveries_are_late(story):
    async with story() as app:
        await app.context.redis.xadd(keys.DEAD_LETTERS, {"g": "1", "e": "ping", "f": "{}", "w": "?", "t": "1"})
        (letter,) = await app.context.inbox.dead()
        assert await app.context.inbox.replay(letter)
        assert await app.context.delivery_status.were_missing(["1", "2"]) == {"1"}


async def test_what_waits_in_the_inbox_is_a_backlog_by_redis_clock(story):
    async with story() as app:
        await app.context.redis.xadd(
            keys.INBOX, {"g": "1", "e": "ping", "f": "{}"}, id=f"{int((time.time() - 60) * 1000)}-0"
        )
        facts = (await app.context.delivery_status.facts([app.installation]))[app.installation]
        assert facts.backlog_seconds == pytest.approx(60, abs=5)


@pytest.mark.parametrize(("granted", "are_known"), [(True, False), (False, True)], ids=["a grant", "no grant"])
async def test_jobs_are_not_known_while_deliveries_are_missing_and_a_batch_may_be_proven(story, granted, are_known):
    """Without a grant, jobs neither prove a batch nor write losses off."""
    async with story(4) as app:
        app.listen()
        await sweep_installation(app.context, app.installation)
        app.sandbox.control.fail_deliveries("acme", seconds=50)
        app.sandbox.control.queue("acme", labels=[POOL], count=2)
        await live(app, 60)
        now, org = app.clock(), await app.context.installations.one(app.installation)
        one = Evidence(1, "linux-1", now, last_delivery_at=now, granted_at=now - 60 if granted else None)
        inputs = await load_inputs(app.context, org, await app.context.org_view(org), {1: one}, now)
        assert (inputs.jobs is not None) is are_known


async def test_late_deliveries_may_prove_a_batch_and_write_nothing_off(story):
    async with story() as app:
        await sweep_installation(app.context, app.installation)
        runner = next(iter((await app.context.runners.all(app.installation)).values()))
        for number in range(1, 4):
            await app.pass_(60)
            await deliver(app, str(number), "in_progress", runner, app.clock() - 9000, job=number)
        now, org = app.clock(), await app.context.installations.one(app.installation)
        one = Evidence(1, "linux-1", now, last_delivery_at=now, granted_at=now - 60)
        inputs = await load_inputs(app.context, org, await app.context.org_view(org), {1: one}, now)
        assert inputs.jobs is not None
        assert inputs.jobs.is_behind
        counted = fuse_counts([], Fuse(), inputs.survey, now, FuseLimits(), jobs=inputs.jobs)
        assert counted.queued is None
