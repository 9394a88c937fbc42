"""Deliveries become sightings."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import msgspec
import pytest
from rq import Queue
from rq.serializers import JSONSerializer
from rq.timeouts import JobTimeoutException

from ghapp.decoding import LeftOut
from ghapp.deliveries.store import MOST_TRIES
from ghapp.errors import StoreUnavailableError
from ghapp.gate.shard_status import TakenJob
from ghapp.github.deliveries import encode, parse
from ghapp.queue.jobs import JobName, promote_due
from ghapp.runners.verdict import Reason, State, judge
from ghapp.store import keys
from jobs.deliveries import inbox
from jobs.deliveries.inbox import drain_inbox
from jobs.runners.sweep import sweep_installation


async def deliver(app, guid, status, runner, job_id=1, started_at=None):
    body = {
        "action": status,
        "installation": {"id": app.installation},
        "repository": {"full_name": "acme/api"},
        "workflow_job": {
            "id": job_id,
            "status": status,
            "labels": ["linux-4vcpu"],
            "started_at": started_at,
            "runner_id": None if status == "queued" or runner is None else runner.id,
            "runner_name": None if status == "queued" or runner is None else runner.name,
        },
    }
    facts = encode(parse("workflow_job", msgspec.json.encode(body), "application/json"))
    await app.context.inbox.keep(guid, "workflow_job", facts)


async def look(app, runner_id):
    evidence = (await app.context.runners.some(app.installation, [runner_id]))[runner_id]
    survey = await app.context.runners.survey(app.installation)
    return judge(evidence, survey, app.clock(), app.settings.of("acme").evidence)


async def test_an_ephemeral_runner_that_is_absent_after_its_job_is_retired_and_not_replaced(story):
    async with story() as app:
        await sweep_installation(app.context, app.installation)
        app.clock.pass_(200)
        runner = next(iter((await app.context.runners.all(app.installation)).values()))
        await deliver(app, "1", "queued", runner)
        await deliver(app, "2", "in_progress", runner)
        assert await drain_inbox(app.context) == 2
        assert (await look(app, runner.id)).reason is Reason.BUSY
        assert [job.status for job in await app.context.demand.all(app.installation)] == ["running"]

        await deliver(app, "3", "completed", runner)
        await drain_inbox(app.context)
        app.sandbox.control.lose("acme", ids=[runner.id])
        account = await sweep_installation(app.context, app.installation)
        assert account is not None
        assert account.suspects == 0
        verdict = await look(app, runner.id)
        assert (verdict.state, verdict.reason) == (State.RETIRED, Reason.JOB_COMPLETED)
        assert await app.context.demand.all(app.installation) == []


async def test_a_repeated_delivery_has_no_second_effect(story):
    async with story() as app:
        await sweep_installation(app.context, app.installation)
        runner = next(iter((await app.context.runners.all(app.installation)).values()))
        await deliver(app, "1", "in_progress", runner)
        await deliver(app, "1", "in_progress", runner)
        assert await drain_inbox(app.context) == 1
        await deliver(app, "1", "in_progress", runner)
        assert await drain_inbox(app.context) == 0
        assert await app.context.inbox.lag() == 0


async def test_a_job_whose_end_is_reported_before_its_start_is_over(story):
    async with story() as app:
        await sweep_installation(app.context, app.installation)
        runner = next(iter((await app.context.runners.all(app.installation)).values()))
        await deliver(app, "2", "completed", runner)
        await drain_inbox(app.context)
        await deliver(app, "1", "queued", runner)
        await drain_inbox(app.context)
        assert await app.context.demand.all(app.installation) == []
        assert (await look(app, runner.id)).reason is Reason.ONLINE


async def test_a_job_of_which_only_the_end_was_delivered_was_taken_when_the_payload_says(story):
    async with story() as app:
        await sweep_installation(app.context, app.installation)
        runner = next(iter((await app.context.runners.all(app.installation)).values()))
        await deliver(app, "1", "completed", runner, job_id=5, started_at="2026-11-22T10:00:00Z")
        await drain_inbox(app.context)
        began = datetime(2026, 11, 22, 10, tzinfo=UTC).timestamp()
        assert await app.context.demand.taken(app.installation, 0) == [TakenJob(5, runner.id, began)]
        assert (await app.context.demand.one(app.installation, 5)).started_at == began


@pytest.mark.parametrize("status", ["queued", "completed"])
async def test_a_job_that_no_runner_took_has_no_start_though_the_payload_gives_one(story, status):
    async with story() as app:
        await deliver(app, "1", status, None, job_id=5, started_at="2026-11-22T10:00:00Z")
        await drain_inbox(app.context)
        assert await app.context.demand.taken(app.installation, 0) == []
        assert (await app.context.demand.one(app.installation, 5)).started_at is None


async def due(app):
    return [*await app.context.schedule.take_due(app.clock() + 10_000, 0, 8)]


async def test_a_suspended_org_is_not_swept_from_the_delivery_on(story):
    async with story() as app:
        app.listen()
        app.sandbox.control.suspend("acme")
        await app.receive()
        assert (await app.context.installations.one(app.installation)).suspended
        assert await due(app) == []
        app.sandbox.control.unsuspend("acme")
        await app.receive()
        assert not (await app.context.installations.one(app.installation)).suspended
        assert await due(app) == [app.installation]


async def test_an_org_that_removed_the_app_is_forgotten_and_one_that_installs_it_is_enrolled(story):
    async with story() as app:
        before = app.installation
        app.listen()
        app.sandbox.control.uninstall("acme")
        await app.receive()
        assert await app.context.installations.all() == []
        assert await due(app) == []
        (installed,) = app.sandbox.control.install("acme")
        await app.receive()
        assert installed != before
        (known,) = await app.context.installations.all()
        assert (known.id, known.org, known.missing()) == (installed, "acme", [])
        assert await due(app) == [installed]


async def test_an_org_is_swept_while_it_lets_us_see_its_runners(story):
    async with story() as app:
        app.listen()
        app.sandbox.control.permissions("acme", permissions={"metadata": "read"})
        await app.receive()
        assert await due(app) == []
        app.sandbox.control.permissions("acme", permissions={"organization_self_hosted_runners": "read"})
        await app.receive()
        assert await due(app) == [app.installation]


@pytest.mark.parametrize("action", ["created", "suspend", "deleted"])
async def test_whatever_was_delivered_about_an_installation_github_is_queried_for_all_of_them(story, action):
    async with story() as app:
        body = {"action": action, "installation": {"id": 1, "account": {"login": "globex", "id": 2}, "permissions": {}}}
        facts = encode(parse("installation", msgspec.json.encode(body), "application/json"))
        await app.context.inbox.keep("1", "installation", facts)
        await drain_inbox(app.context)
        assert discoveries(app) == (1 if action == "deleted" else 2), "the other one looks for a permission"


def discoveries(app):
    """How many are scheduled, and none waits beside them."""
    sweeps = Queue("sweep", connection=app.context.queue_redis, serializer=JSONSerializer)
    jobs = [sweeps.fetch_job(each) for each in sweeps.scheduled_job_registry.get_job_ids(cleanup=False)]
    assert {job.func_name for job in jobs} <= {JobName.INSTALLATIONS}
    assert sweeps.jobs == []
    return len(jobs)


async def test_five_hundred_deliveries_about_installations_are_one_discovery_that_begins_after_them(story):
    async with story() as app:
        body = {"action": "added", "installation": {"id": app.installation}}
        facts = encode(parse("installation_repositories", msgspec.json.encode(body), "application/json"))
        app.clock.now = app.clock.now // 5 * 5 + 0.5
        for batch in range(5):
            for number in range(100):
                app.context.inbox.keep(f"{batch}-{number}", "installation_repositories", facts)
            await app.context.inbox.keep(f"{batch}-last", "installation_repositories", facts)
            await drain_inbox(app.context)
            app.clock.pass_(0.5)
        assert discoveries(app) == 1
        promote_due(app.context.queue_redis, time.time() + 60)  # that one runs: it may have read its list before
        await app.context.inbox.keep("later", "installation_repositories", facts)
        app.clock.pass_(5)
        await drain_inbox(app.context)
        scheduled = Queue("sweep", connection=app.context.queue_redis, serializer=JSONSerializer)
        assert scheduled.count == 1
        assert scheduled.scheduled_job_registry.count == 1


@pytest.mark.parametrize(
    ("event", "body"),
    [
        ("installation", {"action": "created"}),
        ("installation", {"action": "created", "installation": {"id": 1}}),
        ("installation_repositories", {"action": "added"}),
        ("check_run", {"action": "requested_action"}),
        ("check_run", {"action": "requested_action", "installation": {"id": 99}, "check_run": {"id": 1}}),
        ("check_suite", {"action": "requested", "installation": {"id": 70001}}),
        ("check_suite", {"action": "requested", "repository": {"full_name": "acme/.github"}}),
    ],
)
async def test_a_delivery_without_what_its_event_always_has_is_taken_and_has_no_effect(story, event, body):
    async with story(config='[report]\nrepository = "acme/.github"\n') as app:
        facts = encode(parse(event, msgspec.json.encode(body), "application/json"))
        await app.context.inbox.keep("1", event, facts)
        assert await drain_inbox(app.context) == 1
        assert [each.id for each in await app.context.installations.all()] == [app.installation]
        assert await app.context.inbox.lag() == 0


async def test_an_odd_delivery_costs_itself_alone_and_is_counted(story):
    async with story() as app:
        await sweep_installation(app.context, app.installation)
        runner = next(iter((await app.context.runners.all(app.installation)).values()))
        body = {"installation": {"id": app.installation}, "workflow_job": {"id": 10**25, "status": "queued"}}
        await deliver(app, "1", "queued", runner, job_id=1)
        await app.context.inbox.keep(
            "odd", "workflow_job", encode(parse("workflow_job", msgspec.json.encode(body), ""))
        )
        body["workflow_job"] = {"id": 2, "status": "queued", "labels": None, "created_at": 1}
        await app.context.inbox.keep(
            "part", "workflow_job", encode(parse("workflow_job", msgspec.json.encode(body), ""))
        )
        assert await drain_inbox(app.context) == 3
        assert {job.id for job in await app.context.demand.all(app.installation)} == {1, 2}
        assert await app.context.inbox.dead() == []
        assert app.context.left_out_rows.take()["delivery"] == (
            3,
            LeftOut("delivery", "workflow_job.created_at", "Expected `datetime | null`, got `int`"),
        )


async def test_a_poisoned_delivery_blocks_no_other_and_is_dropped_after_three_tries(story):
    async with story() as app:
        await sweep_installation(app.context, app.installation)
        runner = next(iter((await app.context.runners.all(app.installation)).values()))
        await deliver(app, "1", "queued", runner, job_id=1)
        await app.context.inbox.keep("poison", "workflow_job", b'{"workflow_job": {')
        await deliver(app, "2", "queued", runner, job_id=2)
        assert [await drain_inbox(app.context) for _ in range(MOST_TRIES)] == [2, 0, 0]
        assert {job.id for job in await app.context.demand.all(app.installation)} == {1, 2}
        assert await app.context.inbox.lag() == 0
        (letter,) = await app.context.inbox.dead()
        assert (letter.guid, letter.event) == ("poison", "workflow_job")
        counted = await app.context.counters.all()
        assert counted['ghapp_deliveries_given_up_total{event="workflow_job"}'] == 1
        assert "poison" not in {each.guid for each in await app.context.inbox.take(10)}


async def test_of_two_drains_at_once_one_leaves_all_to_the_other(story):
    async with story() as app:
        async with app.context.locks.acquire("inbox", "drain"):
            await app.context.inbox.keep("1", "ping", b"{}")
            assert await drain_inbox(app.context) == 0
        assert await drain_inbox(app.context) == 1


async def test_a_stream_without_end_is_drained_by_one_short_job_after_the_other(story, monkeypatch):
    async with story() as app:
        await sweep_installation(app.context, app.installation)
        runner = next(iter((await app.context.runners.all(app.installation)).values()))
        monkeypatch.setattr(inbox, "LONGEST_SECONDS", 0.0)
        monkeypatch.setattr(inbox, "MOST", 2)
        for number in range(5):
            await deliver(app, str(number), "queued", runner, job_id=number)
        took = []
        while await app.context.inbox.lag():
            took.append(await drain_inbox(app.context))
        assert took == [2, 2, 1]


async def test_a_drain_ends_when_less_is_left_than_it_can_take_at_once(story, monkeypatch):
    async with story() as app:
        monkeypatch.setattr(inbox, "MOST", 2)
        done, inbox_done = [], app.context.inbox.done

        async def more_comes_meanwhile(entries, now, counts):
            unreadable = await inbox_done(entries, now, counts)
            done.append(len(entries))
            await app.context.inbox.keep(f"late-{len(done)}", "ping", b"{}")
            return unreadable

        monkeypatch.setattr(app.context.inbox, "done", more_comes_meanwhile)
        for number in range(2):
            await app.context.inbox.keep(str(number), "ping", b"{}")
        await drain_inbox(app.context)
        assert done == [2, 1], "the clock asks for another drain while any wait"


async def test_a_job_that_is_out_of_time_blames_no_delivery(story, monkeypatch):
    async with story() as app:
        await app.context.inbox.keep("1", "ping", b"{}")

        async def out_of_time(*_args):
            raise JobTimeoutException

        with monkeypatch.context() as patched:
            patched.setattr(inbox, "_take_effect", out_of_time)
            for _ in range(4):
                with pytest.raises(JobTimeoutException):
                    await drain_inbox(app.context)
        assert await app.context.inbox.dead() == []
        assert await drain_inbox(app.context) == 1


async def test_a_drain_that_breaks_before_its_mark_counts_what_it_drained_once(story, monkeypatch):
    async with story() as app:
        await sweep_installation(app.context, app.installation)
        runner = next(iter((await app.context.runners.all(app.installation)).values()))
        await deliver(app, "1", "in_progress", runner, job_id=7)
        await app.context.inbox.keep("2", "check_suite", b'{"action": "requested"}')

        async def lost(*_args):
            raise StoreUnavailableError

        for _ in range(2):
            with monkeypatch.context() as patched:
                patched.setattr(app.context.inbox, "done", lost)
                with pytest.raises(StoreUnavailableError):
                    await drain_inbox(app.context)
        assert await drain_inbox(app.context) == 2
        counted = await app.context.counters.all()
        assert counted['ghapp_deliveries_total{action="in_progress",event="workflow_job"}'] == 1
        assert counted['ghapp_check_requests_total{done="ignored"}'] == 1
        assert [value for series, value in counted.items() if series.startswith("ghapp_job_queue_seconds_count")] == [1]


async def test_an_unreadable_counter_is_restarted_and_keeps_no_delivery(story):
    series = 'ghapp_deliveries_total{action="",event="ping"}'
    async with story() as app:
        await app.context.redis.hset(keys.COUNTERS, series, "odd")
        await app.context.inbox.keep("1", "ping", b"{}")
        assert await drain_inbox(app.context) == 1
        assert (await app.context.counters.all())[series] == 1
        assert await app.context.inbox.lag() == 0
