"""The check run "Runner health", as an admin sees it."""

from __future__ import annotations

import asyncio
import copy
from dataclasses import replace

import pytest
from rq import Queue
from rq.serializers import JSONSerializer

from ghapp.health.fuse import Fuse, FuseReason, Position
from ghapp.store.fuses import WHOLE_ORG, Pause
from ghapp.store.reports import Reports
from jobs.confirm import confirm_installation
from jobs.deliver_event import EventDelivery
from jobs.remediate import remediate_runner
from jobs.report import Outcome, report_installation
from jobs.sweep import sweep_installation
from tests.stories.conftest import POOL

CONFIG = '[report]\nrepository = "acme/.github"\n'


def check_runs(it, repository=".github"):
    return copy.deepcopy(it.sandbox.world.orgs["acme"].repositories[repository].check_runs)


def only(runs):
    (run,) = runs.values()
    return run


def calls(it):
    return sum(each["total"] for each in it.account()["calls"].values())


def queue(it, name):
    return Queue(name, connection=it.house.desk, serializer=JSONSerializer)


def waiting(it, name):
    return queue(it, name).job_ids


async def sweep(it):
    """Sweep; what it asks for is done by the story itself."""
    await sweep_installation(it.house, it.installation)
    queue(it, "report").empty()


async def report(it):
    return await report_installation(it.house, it.installation)


async def reported(it):
    """The only check run there is, after it was brought up to date."""
    await report(it)
    return only(check_runs(it))


async def test_a_healthy_fleet_has_one_green_check_run_on_the_head(story):
    async with story(config=CONFIG) as it:
        await sweep(it)
        assert await report(it) is Outcome.CREATED
        run = only(check_runs(it))
        assert run["head_sha"] == it.sandbox.world.orgs["acme"].repositories[".github"].head_sha
    assert (run["name"], run["status"], run["conclusion"]) == ("Runner health", "completed", "success")
    assert run["output"]["title"] == "12 of 12 runners healthy"
    assert [action["identifier"] for action in run["actions"]] == ["sweep"]


async def test_while_nothing_changes_github_is_asked_for_nothing(story):
    async with story(config=CONFIG) as it:
        await sweep(it)
        await report(it)
        before = calls(it)
        for _ in range(3):
            it.clock.pass_(60)
            assert await report(it) is Outcome.NOTHING_TO_DO
        assert calls(it) == before


async def test_a_lost_runner_is_told_from_suspicion_to_replacement(story):
    async with story(config=CONFIG) as it:
        await sweep(it)
        it.clock.pass_(300)
        await sweep(it)
        (lost,) = it.sandbox.control.lose("acme", count=1)
        await sweep(it)
        run = await reported(it)
        assert (run["conclusion"], run["output"]["title"]) == ("neutral", "1 of 12 runners suspect")

        it.clock.pass_(30)
        await confirm_installation(it.house, it.installation)
        run = await reported(it)
        assert (run["conclusion"], run["output"]["title"]) == ("neutral", "1 of 12 runners invalidated")
        name = (await it.house.runners.all(it.installation))[lost].name
        assert f"| `{name}` | invalidated |" in run["output"]["text"], "without a link: its page is gone"
        assert "fuse" not in run["output"]["text"]

        await remediate_runner(it.house, it.installation, lost)
        for event_id in await it.house.events.unsent():
            await EventDelivery(it.settings, it.house.redis, it.clock).deliver(event_id)
        run = await reported(it)
    assert (run["conclusion"], run["output"]["title"]) == ("success", "11 of 11 runners healthy")
    opened, _, healed = run["output"]["text"].partition("### Healed: 1 runner was lost")
    assert (name in opened, name in healed) == (False, True)


async def test_a_runner_that_comes_back_makes_it_green_again(story):
    async with story(config=CONFIG) as it:
        await sweep(it)
        it.clock.pass_(300)
        await sweep(it)
        it.sandbox.control.lose("acme", count=1)
        await sweep(it)
        assert (await reported(it))["conclusion"] == "neutral"
        it.sandbox.control.restore("acme")
        await sweep(it)
        assert (await reported(it))["conclusion"] == "success"


async def test_what_time_alone_makes_is_told_too(story):
    async with story(config=CONFIG) as it:
        await sweep(it)
        it.clock.pass_(300)
        it.sandbox.control.take_offline("acme", count=2)
        await sweep(it)
        assert (await reported(it))["output"]["title"] == "12 of 12 runners healthy"
        it.clock.pass_(299)
        assert await report(it) is Outcome.NOTHING_TO_DO
        it.clock.pass_(1.001)
        assert "unknown" in (await reported(it))["output"]["title"], "nobody has swept since"
        await sweep(it)
        it.clock.pass_(60)  # the time that no list covers does not count
        await sweep(it)
        run = await reported(it)
    assert (run["conclusion"], run["output"]["title"]) == ("neutral", "2 of 12 runners offline")


async def test_the_report_moves_along_with_its_branch(story):
    async with story(config=CONFIG) as it:
        await sweep(it)
        await report(it)
        it.listen()
        sha = it.sandbox.control.head("acme", repository=".github")
        await it.receive()
        assert waiting(it, "report") == [f"report-{it.installation}"]
        assert await report(it) is Outcome.CREATED
        assert [run["head_sha"] == sha for run in check_runs(it).values()] == [False, True]
        assert await report(it) is Outcome.NOTHING_TO_DO


async def test_a_push_elsewhere_moves_nothing(story):
    async with story(config=CONFIG) as it:
        await sweep(it)
        await report(it)
        it.listen()
        it.sandbox.control.head("acme", repository="api")
        await it.receive()
        assert waiting(it, "report") == []
        assert await report(it) is Outcome.NOTHING_TO_DO


async def test_a_move_whose_delivery_was_lost_is_found_when_there_is_something_to_say(story):
    async with story(config=CONFIG) as it:
        await sweep(it)
        await report(it)
        sha = it.sandbox.control.head("acme", repository=".github")
        it.clock.pass_(301)
        await report(it)
        assert list(check_runs(it).values())[-1]["head_sha"] == sha


@pytest.mark.parametrize("workers", [2, 5])
async def test_several_workers_at_once_post_one(story, workers):
    async with story(config=CONFIG) as it:
        await sweep(it)
        outcomes = await asyncio.gather(*(report(it) for _ in range(workers)))
        assert sorted(outcomes) == sorted([Outcome.CREATED, *[Outcome.NOTHING_TO_DO] * (workers - 1)])
        assert len(check_runs(it)) == 1


async def test_a_crash_between_creation_and_record_leaves_one(story, monkeypatch):
    async with story(config=CONFIG) as it:
        await sweep(it)

        async def dies(*_args):
            raise SystemExit

        with monkeypatch.context() as patch:
            patch.setattr(Reports, "posted", dies)
            with pytest.raises(SystemExit):
                await report(it)
        assert len(check_runs(it)) == 1
        assert await report(it) is Outcome.UPDATED
        assert await report(it) is Outcome.NOTHING_TO_DO
        assert len(check_runs(it)) == 1


async def test_a_check_run_that_is_gone_is_created_anew(story):
    async with story(config=CONFIG) as it:
        await sweep(it)
        await report(it)
        it.clock.pass_(60)  # a token just minted is not believed
        it.sandbox.world.orgs["acme"].repositories[".github"].check_runs.clear()
        await it.house.fuses.pause(it.installation, WHOLE_ORG, Pause("mona", "maintenance", it.clock()))
        assert await report(it) is Outcome.CREATED
        assert only(check_runs(it))["output"]["title"].endswith("paused")


async def test_another_app_s_check_run_of_that_name_is_left_alone(story):
    async with story(config=CONFIG) as it:
        await sweep(it)
        repository = it.sandbox.world.orgs["acme"].repositories[".github"]
        theirs = {"name": "Runner health", "head_sha": repository.head_sha, "status": "queued"}
        repository.check_runs[1] = {**theirs, "app_id": it.sandbox.app_id}
        assert await report(it) is Outcome.CREATED
        assert check_runs(it)[1] == {**theirs, "app_id": it.sandbox.app_id}


async def test_the_button_sweep_now_asks_for_a_sweep(story):
    async with story(config=CONFIG) as it:
        await sweep(it)
        await report(it)
        it.listen()
        (check_run,) = check_runs(it)
        it.sandbox.control.click("acme", check_run_id=check_run, identifier="sweep")
        await it.receive()
        assert waiting(it, "sweep") == [f"sweep-{it.installation}"]


STOPPED = Fuse(Position.STOPPED, since=1.0, batch=3, allowed=3, reason=FuseReason.BATCH_NEVER_ONLINE)


async def test_a_stopped_fuse_requires_a_person_whose_press_lets_it_prove_anew_under_his_name(story):
    async with story(config=CONFIG) as it:
        await sweep(it)
        await it.house.fuses.save(it.installation, POOL, None, STOPPED)
        await it.house.fuses.pause(it.installation, WHOLE_ORG, Pause("octocat", "maintenance", it.clock()))
        run = await reported(it)
        assert run["conclusion"] == "action_required"
        assert "fuse" in run["output"]["text"]
        assert "octocat" in run["output"]["summary"]
        _, resume = (action["identifier"] for action in run["actions"])

        it.listen()
        (check_run,) = check_runs(it)
        it.sandbox.control.click("acme", check_run_id=check_run, identifier=resume)
        await it.receive()
        fuse = (await it.house.fuses.all(it.installation))[POOL]
        by = it.sandbox.world.sender["login"]
        assert (fuse.position, fuse.reason, fuse.by) == (Position.PROVING, FuseReason.RESUMED, by)
        assert await it.house.fuses.pauses(it.installation) == {}
        told = [event for _, event in await it.house.events.latest(it.installation, 9)]
        assert sum(b"ghapp.fuse.tripped.v1" in event and b"Resumed" in event for event in told) == 1
        assert waiting(it, "sweep") == [f"sweep-{it.installation}"], "a look comes before any action"

        run = await reported(it)
    assert run["conclusion"] == "neutral"
    assert f"resumed by `{by}`" in run["output"]["text"]
    assert [action["identifier"] for action in run["actions"]] == ["sweep"]


@pytest.mark.parametrize("identifier", ["resume", None])
async def test_a_button_of_a_check_run_that_is_not_ours_has_no_effect(story, identifier):
    async with story(config=CONFIG) as it:
        await sweep(it)
        await report(it)
        await it.house.fuses.save(it.installation, POOL, None, STOPPED)
        repositories = it.sandbox.world.orgs["acme"].repositories
        (ours,) = check_runs(it).values()
        repositories[".github"].check_runs[1] = {**ours, "name": "Lint", "external_id": ""}
        repositories["api"].check_runs[2] = ours
        it.listen()
        for check_run in (1, 2):
            it.sandbox.control.click("acme", check_run_id=check_run, identifier=identifier)
        await it.receive(2)
        assert (await it.house.fuses.all(it.installation))[POOL] == STOPPED
        assert (waiting(it, "sweep"), waiting(it, "report")) == ([], [])
        assert (await it.house.counters.all())['ghapp_check_requests_total{done="ignored"}'] == 2


async def test_a_check_run_asked_for_again_is_posted_again(story):
    async with story(config=CONFIG) as it:
        await sweep(it)
        await report(it)
        it.listen()
        (check_run,) = check_runs(it)
        it.sandbox.control.click("acme", check_run_id=check_run)
        await it.receive()
        assert waiting(it, "report") == [f"report-{it.installation}"]
        assert [await report(it), await report(it)] == [Outcome.UPDATED, Outcome.NOTHING_TO_DO]


async def test_without_the_permission_github_is_asked_for_nothing_until_it_is_granted(story):
    async with story(config=CONFIG) as it:
        await sweep(it)
        held = {"organization_self_hosted_runners": "write", "actions": "read", "metadata": "read"}
        it.listen()
        it.sandbox.control.permissions("acme", permissions=held)
        await it.receive()
        before = calls(it)
        assert [await report(it), await report(it)] == [Outcome.PERMISSION_MISSING, Outcome.NOTHING_TO_DO]
        assert calls(it) == before
        it.sandbox.control.permissions("acme", permissions={**held, "checks": "write"})
        await it.receive()
        assert await report(it) is Outcome.CREATED


@pytest.mark.parametrize(
    ("repository", "outcome"),
    [
        ("acme/gone", Outcome.REPOSITORY_MISSING),
        ("globex/.github", Outcome.NOTHING_TO_DO),
    ],
)
async def test_a_repository_that_is_not_there_or_not_the_org_s_costs_one_call_in_five_minutes(
    story, repository, outcome
):
    async with story(config=f'[report]\nrepository = "{repository}"\n') as it:
        await sweep(it)
        it.clock.pass_(60)  # a token just minted is not believed
        before = calls(it)
        assert await report(it) is outcome
        it.clock.pass_(299)
        assert await report(it) is Outcome.NOTHING_TO_DO
        assert calls(it) - before <= 1
        it.clock.pass_(1)
        assert await report(it) is outcome


async def test_while_github_is_away_nothing_is_posted_and_then_it_is(story):
    async with story(config=CONFIG) as it:
        await sweep(it)
        it.sandbox.control.fault(match=".*", status=502)
        assert await report(it) is Outcome.UNAVAILABLE
        it.sandbox.control.no_faults()
        assert await report(it) is Outcome.CREATED
        counted = await it.house.counters.all()
    assert counted['ghapp_reports_total{org="acme",outcome="unavailable"}'] == 1
    assert counted['ghapp_reports_total{org="acme",outcome="created"}'] == 1


async def test_a_press_that_comes_late_ends_nothing_that_was_stopped_after_it_was_shown(story):
    async with story(config=CONFIG) as it:
        await sweep(it)
        await it.house.fuses.pause(it.installation, POOL, Pause("octocat", "maintenance", it.clock()))
        run = await reported(it)
        _, resume = (action["identifier"] for action in run["actions"])
        it.clock.pass_(2)
        later = Pause("hubot", "an incident", it.clock())
        await it.house.fuses.pause(it.installation, WHOLE_ORG, later)
        await it.house.fuses.save(it.installation, "gpu", None, replace(STOPPED, stopped_at=it.clock()))
        it.listen()
        (check_run,) = check_runs(it)
        it.sandbox.control.click("acme", check_run_id=check_run, identifier=resume)
        await it.receive()
        assert await it.house.fuses.pauses(it.installation) == {WHOLE_ORG: later}
        assert (await it.house.fuses.all(it.installation))["gpu"].position is Position.STOPPED


async def test_a_fuse_resumed_by_command_is_told_once_by_the_next_decision(story):
    async with story(config=CONFIG) as it:
        await sweep(it)
        await it.house.fuses.save(it.installation, POOL, None, STOPPED)
        acme = await it.house.installations.one(it.installation)
        await it.house.fuses.resume(acme, None, "mona", it.clock(), it.settings.of("acme").fuse)
        for _ in range(2):
            it.clock.pass_(1)
            await sweep_installation(it.house, it.installation)
        told = [event for _, event in await it.house.events.latest(it.installation, 9)]
        assert sum(b"ghapp.fuse.tripped.v1" in event and b"Resumed" in event for event in told) == 1
        assert waiting(it, "report") == [f"report-{it.installation}"]
