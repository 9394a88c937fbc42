"""Deliveries become sightings."""

from __future__ import annotations

import msgspec
import pytest
from rq import Queue
from rq.serializers import JSONSerializer
from rq.timeouts import JobTimeoutException

from ghapp.github.deliveries import encode, parse
from ghapp.health.verdict import Reason, State, judge
from ghapp.store.inbox import MOST_TRIES
from ghapp.work import Work
from jobs import inbox
from jobs.inbox import drain_inbox
from jobs.sweep import sweep_installation


async def deliver(it, guid, status, runner, job_id=1):
    body = {
        "action": status,
        "installation": {"id": it.installation},
        "repository": {"full_name": "acme/api"},
        "workflow_job": {
            "id": job_id,
            "status": status,
            "labels": ["linux-4vcpu"],
            "runner_id": None if status == "queued" else runner.id,
            "runner_name": None if status == "queued" else runner.name,
        },
    }
    facts = encode(parse("workflow_job", msgspec.json.encode(body), "application/json"))
    await it.house.inbox.keep(guid, "workflow_job", facts)


async def look(it, runner_id):
    evidence = (await it.house.runners.some(it.installation, [runner_id]))[runner_id]
    survey = await it.house.runners.survey(it.installation)
    return judge(evidence, survey, it.clock(), it.settings.of("acme").evidence)


async def test_an_ephemeral_runner_that_is_gone_after_its_job_is_retired_and_not_replaced(story):
    async with story() as it:
        await sweep_installation(it.house, it.installation)
        it.clock.pass_(200)
        runner = next(iter((await it.house.runners.all(it.installation)).values()))
        await deliver(it, "1", "queued", runner)
        await deliver(it, "2", "in_progress", runner)
        assert await drain_inbox(it.house) == 2
        assert (await look(it, runner.id)).reason is Reason.BUSY
        assert [job.status for job in await it.house.demand.all(it.installation)] == ["running"]

        await deliver(it, "3", "completed", runner)
        await drain_inbox(it.house)
        it.sandbox.control.lose("acme", ids=[runner.id])
        account = await sweep_installation(it.house, it.installation)
        assert account is not None
        assert account.suspects == 0
        verdict = await look(it, runner.id)
        assert (verdict.state, verdict.reason) == (State.RETIRED, Reason.JOB_COMPLETED)
        assert await it.house.demand.all(it.installation) == []


async def test_a_repeated_delivery_has_no_second_effect(story):
    async with story() as it:
        await sweep_installation(it.house, it.installation)
        runner = next(iter((await it.house.runners.all(it.installation)).values()))
        await deliver(it, "1", "in_progress", runner)
        await deliver(it, "1", "in_progress", runner)
        assert await drain_inbox(it.house) == 1
        await deliver(it, "1", "in_progress", runner)
        assert await drain_inbox(it.house) == 0
        assert await it.house.inbox.lag() == 0


async def test_a_job_whose_end_is_told_before_its_beginning_is_over(story):
    async with story() as it:
        await sweep_installation(it.house, it.installation)
        runner = next(iter((await it.house.runners.all(it.installation)).values()))
        await deliver(it, "2", "completed", runner)
        await drain_inbox(it.house)
        await deliver(it, "1", "queued", runner)
        await drain_inbox(it.house)
        assert await it.house.demand.all(it.installation) == []
        assert (await look(it, runner.id)).reason is Reason.ONLINE


async def due(it):
    return await it.house.schedule.take_due(it.clock() + 10_000, 0)


async def test_a_suspended_org_is_not_swept_from_the_moment_it_is_told(story):
    async with story() as it:
        it.listen()
        it.sandbox.control.suspend("acme")
        await it.receive()
        assert (await it.house.installations.one(it.installation)).suspended
        assert await due(it) == []
        it.sandbox.control.unsuspend("acme")
        await it.receive()
        assert not (await it.house.installations.one(it.installation)).suspended
        assert await due(it) == [it.installation]


async def test_an_org_that_removed_the_app_is_forgotten_and_one_that_installs_it_is_enrolled(story):
    async with story() as it:
        before = it.installation
        it.listen()
        it.sandbox.control.uninstall("acme")
        await it.receive()
        assert await it.house.installations.all() == []
        assert await due(it) == []
        (installed,) = it.sandbox.control.install("acme")
        await it.receive()
        assert installed != before
        (known,) = await it.house.installations.all()
        assert (known.id, known.org, known.missing()) == (installed, "acme", [])
        assert await due(it) == [installed]


async def test_an_org_is_swept_while_it_lets_us_see_its_runners(story):
    async with story() as it:
        it.listen()
        it.sandbox.control.permissions("acme", permissions={"metadata": "read"})
        await it.receive()
        assert await due(it) == []
        it.sandbox.control.permissions("acme", permissions={"organization_self_hosted_runners": "read"})
        await it.receive()
        assert await due(it) == [it.installation]


@pytest.mark.parametrize("action", ["created", "suspend", "deleted"])
async def test_whatever_was_told_of_an_installation_github_is_asked_for_all_of_them(story, action):
    async with story() as it:
        body = {"action": action, "installation": {"id": 1, "account": {"login": "globex", "id": 2}, "permissions": {}}}
        facts = encode(parse("installation", msgspec.json.encode(body), "application/json"))
        await it.house.inbox.keep("1", "installation", facts)
        await drain_inbox(it.house)
        asked = Queue("sweep", connection=it.house.desk, serializer=JSONSerializer).jobs
        assert [job.func_name for job in asked] == [Work.INSTALLATIONS]


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
    async with story(config='[report]\nrepository = "acme/.github"\n') as it:
        facts = encode(parse(event, msgspec.json.encode(body), "application/json"))
        await it.house.inbox.keep("1", event, facts)
        assert await drain_inbox(it.house) == 1
        assert [each.id for each in await it.house.installations.all()] == [it.installation]
        assert await it.house.inbox.lag() == 0


async def test_a_poisoned_delivery_holds_up_nobody_and_is_given_up_after_three_tries(story):
    async with story() as it:
        await sweep_installation(it.house, it.installation)
        runner = next(iter((await it.house.runners.all(it.installation)).values()))
        await deliver(it, "1", "queued", runner, job_id=1)
        await it.house.inbox.keep("poison", "workflow_job", b'{"workflow_job": {}}')
        await deliver(it, "2", "queued", runner, job_id=2)
        assert [await drain_inbox(it.house) for _ in range(MOST_TRIES)] == [2, 0, 0]
        assert {job.id for job in await it.house.demand.all(it.installation)} == {1, 2}
        assert await it.house.inbox.lag() == 0
        (letter,) = await it.house.inbox.dead()
        assert (letter.guid, letter.event) == ("poison", "workflow_job")
        counted = await it.house.counters.all()
        assert counted['ghapp_deliveries_given_up_total{event="workflow_job"}'] == 1
        assert "poison" not in {each.guid for each in await it.house.inbox.take(10)}


async def test_of_two_drains_at_once_one_leaves_all_to_the_other(story):
    async with story() as it:
        async with it.house.claims.hold("inbox", "drain"):
            await it.house.inbox.keep("1", "ping", b"{}")
            assert await drain_inbox(it.house) == 0
        assert await drain_inbox(it.house) == 1


async def test_a_stream_without_end_is_drained_by_one_short_job_after_the_other(story, monkeypatch):
    async with story() as it:
        await sweep_installation(it.house, it.installation)
        runner = next(iter((await it.house.runners.all(it.installation)).values()))
        monkeypatch.setattr(inbox, "LONGEST_SECONDS", 0.0)
        monkeypatch.setattr(inbox, "MOST", 2)
        for number in range(5):
            await deliver(it, str(number), "queued", runner, job_id=number)
        took = []
        while await it.house.inbox.lag():
            took.append(await drain_inbox(it.house))
        assert took == [2, 2, 1]


async def test_a_drain_ends_when_less_is_left_than_it_can_take_at_once(story, monkeypatch):
    async with story() as it:
        monkeypatch.setattr(inbox, "MOST", 2)
        done, inbox_done = [], it.house.inbox.done

        async def more_comes_meanwhile(entries, now):
            await inbox_done(entries, now)
            done.append(len(entries))
            await it.house.inbox.keep(f"late-{len(done)}", "ping", b"{}")

        monkeypatch.setattr(it.house.inbox, "done", more_comes_meanwhile)
        for number in range(2):
            await it.house.inbox.keep(str(number), "ping", b"{}")
        await drain_inbox(it.house)
        assert done == [2, 1], "the clock asks for another drain while any wait"


async def test_a_job_that_is_out_of_time_blames_no_delivery(story, monkeypatch):
    async with story() as it:
        await it.house.inbox.keep("1", "ping", b"{}")

        async def out_of_time(*_args):
            raise JobTimeoutException

        with monkeypatch.context() as patched:
            patched.setattr(inbox, "_take_effect", out_of_time)
            for _ in range(4):
                with pytest.raises(JobTimeoutException):
                    await drain_inbox(it.house)
        assert await it.house.inbox.dead() == []
        assert await drain_inbox(it.house) == 1
