"""The check run "Runner health", as an admin sees it."""

from __future__ import annotations

import asyncio
import copy
from dataclasses import replace

import pytest
from rq import Queue
from rq.serializers import JSONSerializer

from ghapp.errors import GitHubUnavailableError
from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.remediation.fuse import Fuse, FuseReason, Position
from ghapp.remediation.pause import Pause
from ghapp.report.markdown import prose
from ghapp.report.store import Reports
from ghapp.runners.next_attempt import OVERDUE_SECONDS
from ghapp.store.audit import AuditEntry, Channel, Trail
from ghapp.store.presses import SWEEP_TOPIC
from ghapp.wording import time_of
from jobs.checks.publisher import CheckRunOutcome
from jobs.deliveries.resume import resume_by_button
from jobs.remediation.remediate import remediate_runner
from jobs.reports.health_report import report_installation
from jobs.runners.confirm import confirm_installation
from jobs.runners.sweep import sweep_installation
from tests.stories.conftest import POOL
from tests.support.event_delivery import deliver_event

CONFIG = '[report]\nrepository = "acme/.github"\n'


def check_runs(app, repository=".github"):
    return copy.deepcopy(app.sandbox.world.orgs["acme"].repositories[repository].check_runs)


def only(runs):
    (run,) = runs.values()
    return run


def calls(app):
    return sum(each["total"] for each in app.account()["calls"].values())


def queue(app, name):
    return Queue(name, connection=app.context.queue_redis, serializer=JSONSerializer)


def waiting(app, name):
    """Return what waits; that end dates of versions are due is no matter of these stories."""
    return [each for each in queue(app, name).job_ids if not each.startswith("versions-")]


async def sweep(app):
    """Sweep; what it asks for is done by the story itself."""
    await sweep_installation(app.context, app.installation)
    queue(app, "report").empty()


async def report(app):
    return await report_installation(app.context, app.installation)


async def resumed(app):
    """Does what a worker does with a press of "Resume"."""
    (key,) = [each for each in waiting(app, "report") if each.startswith("resume-")]
    job = queue(app, "report").fetch_job(key)
    await resume_by_button(app.context, *job.args)
    queue(app, "report").empty()


async def reported(app):
    """The only check run there is, after it was brought up to date."""
    await report(app)
    return only(check_runs(app))


@pytest.mark.parametrize(("channel", "is_shown"), [(Channel.CHECK_RUN, True), (Channel.PAGE, False)])
async def test_the_outcome_of_sweep_now_is_shown_where_it_was_pressed_for_ten_minutes(story, channel, is_shown):
    async with story(config=CONFIG) as app:
        await sweep(app)
        pressed_at = app.clock()
        assert "Sweep now" not in (await reported(app))["output"]["summary"]
        await app.context.presses.begin(
            app.installation, SWEEP_TOPIC, AuditEntry(pressed_at, "mona", channel, "sweep", "", "", "")
        )
        assert "Sweep now" not in (await reported(app))["output"]["summary"], "its outcome is not known"
        await sweep(app)
        outcome = f"**Sweep now**, pressed by `mona` {time_of(pressed_at, app.clock())}: found no suspect"
        assert (outcome in (await reported(app))["output"]["summary"]) is is_shown
        await app.pass_(601)
        await sweep(app)
        assert "Sweep now" not in (await reported(app))["output"]["summary"]


async def test_an_outcome_that_is_known_late_is_shown_for_ten_minutes_from_then(story):
    async with story(config=CONFIG) as app:
        await sweep(app)
        await report(app)
        entry = AuditEntry(app.clock(), "mona", Channel.CHECK_RUN, "sweep", "", "", "")
        await app.context.presses.begin(app.installation, SWEEP_TOPIC, entry)
        await app.pass_(1_200)
        assert "Sweep now" not in (await reported(app))["output"]["summary"], "as while the rate limit holds sweeps up"
        await sweep(app)
        known_at = app.clock()
        shown = []
        for at in (0, 599, 600):
            await app.pass_(known_at + at - app.clock())
            await app.context.reports.request_repost(app.installation)
            shown.append("**Sweep now**, pressed by `mona`" in (await reported(app))["output"]["summary"])
        assert shown == [True, True, False]


async def test_ordinary_changes_are_posted_six_times_an_hour_and_a_loss_at_once(story):
    async with story(config=CONFIG) as app:
        await sweep(app)
        await report(app)
        outcomes = []
        for _ in range(11):
            await app.pass_(60)
            app.sandbox.control.register("acme", pool=POOL)
            await sweep(app)
            outcomes.append(await report(app))
        nothing, updated = CheckRunOutcome.NOTHING_TO_DO, CheckRunOutcome.UPDATED
        assert outcomes == [*[nothing] * 9, updated, nothing]
        app.sandbox.control.lose("acme", count=1)
        await app.pass_(60)
        await sweep(app)
        await app.pass_(60)
        await confirm_installation(app.context, app.installation)
        assert await report(app) is updated


async def test_a_healthy_fleet_has_one_green_check_run_on_the_head(story):
    async with story(config=CONFIG) as app:
        await sweep(app)
        assert await report(app) is CheckRunOutcome.CREATED
        run = only(check_runs(app))
        assert run["head_sha"] == app.sandbox.world.orgs["acme"].repositories[".github"].head_sha
    assert (run["name"], run["status"], run["conclusion"]) == ("Runner health", "completed", "success")
    assert run["output"]["title"] == "12 runners healthy"
    assert [action["identifier"] for action in run["actions"]] == ["sweep"]


async def test_while_nothing_changes_no_calls_are_made(story):
    async with story(config=CONFIG) as app:
        await sweep(app)
        await report(app)
        before = calls(app)
        for seconds in (60, OVERDUE_SECONDS):  # the next sweep is due, and not overdue
            app.clock.pass_(seconds)
            assert await report(app) is CheckRunOutcome.NOTHING_TO_DO
        assert calls(app) == before


async def test_a_lost_runner_is_explained_from_its_confirmation_to_its_successor(story):
    async with story(config=CONFIG) as app:
        await sweep(app)
        app.clock.pass_(300)
        await sweep(app)
        (lost,) = app.sandbox.control.lose("acme", count=1)
        await report(app)
        await sweep(app)
        assert await report(app) is CheckRunOutcome.NOTHING_TO_DO, "a suspicion of seconds is no news"

        app.clock.pass_(30)
        await confirm_installation(app.context, app.installation)
        run = await reported(app)
        assert (run["conclusion"], run["output"]["title"]) == ("neutral", "1 of 12 runners lost")
        name = (await app.context.runners.all(app.installation))[lost].name
        assert f"| `{name}` | invalidated |" in run["output"]["text"], "without a link: its page no longer exists"
        assert "fuse" not in run["output"]["text"]

        await remediate_runner(app.context, app.installation, lost)
        for event_id in await app.context.events.unsent():
            await deliver_event(app.context, event_id)
        run = await reported(app)
        assert run["output"]["title"] == "1 of 12 runners lost", "its successor is not online"
        assert "replacement requested; 0 of 1 successor online" in run["output"]["summary"]

        await app.pass_(60)
        await sweep(app)
        run = await reported(app)
    assert (run["conclusion"], run["output"]["title"]) == ("success", "12 runners healthy")
    opened, _, healed = run["output"]["text"].partition("### Healed: 1 runner was lost")
    assert (name in opened, name in healed) == (False, True)


async def test_a_runner_that_comes_back_makes_it_green_again(story):
    async with story(config=CONFIG) as app:
        await sweep(app)
        app.clock.pass_(300)
        await sweep(app)
        app.sandbox.control.lose("acme", count=1)
        await sweep(app)
        app.clock.pass_(30)
        await confirm_installation(app.context, app.installation)
        assert (await reported(app))["conclusion"] == "neutral"
        app.sandbox.control.restore("acme")
        await sweep(app)
        assert (await reported(app))["conclusion"] == "success"


async def test_changes_caused_by_time_alone_are_reported_too(story):
    async with story(config=CONFIG) as app:
        await sweep(app)
        app.clock.pass_(300)
        app.sandbox.control.take_offline("acme", count=2)
        await sweep(app)
        assert (await reported(app))["output"]["title"] == "12 runners healthy"
        app.clock.pass_(60 + OVERDUE_SECONDS)
        assert await report(app) is CheckRunOutcome.NOTHING_TO_DO
        app.clock.pass_(0.001)
        assert (await reported(app))["output"]["title"].startswith("runners cannot be read"), "no sweep since"
        for _ in range(5):
            await sweep(app)
            app.clock.pass_(60)
        await sweep(app)
        run = await reported(app)
    title, _, as_of = run["output"]["title"].partition(", as of ")
    assert (run["conclusion"], title, as_of.endswith(" UTC")) == ("action_required", "2 runners offline", True)


async def test_the_report_moves_along_with_its_branch(story):
    async with story(config=CONFIG) as app:
        await sweep(app)
        await report(app)
        app.listen()
        sha = app.sandbox.control.head("acme", repository=".github")
        await app.receive()
        assert waiting(app, "report") == [f"report-{app.installation}"]
        assert await report(app) is CheckRunOutcome.CREATED
        assert [run["head_sha"] == sha for run in check_runs(app).values()] == [False, True]
        assert await report(app) is CheckRunOutcome.NOTHING_TO_DO


async def test_a_push_elsewhere_moves_nothing(story):
    async with story(config=CONFIG) as app:
        await sweep(app)
        await report(app)
        app.listen()
        app.sandbox.control.head("acme", repository="api")
        await app.receive()
        assert waiting(app, "report") == []
        assert await report(app) is CheckRunOutcome.NOTHING_TO_DO


async def test_a_push_whose_delivery_was_lost_is_found_at_the_next_report(story):
    async with story(config=CONFIG) as app:
        await sweep(app)
        await report(app)
        sha = app.sandbox.control.head("acme", repository=".github")
        app.clock.pass_(301)
        await report(app)
        assert list(check_runs(app).values())[-1]["head_sha"] == sha


@pytest.mark.parametrize("workers", [2, 5])
async def test_several_workers_at_once_post_one(story, workers):
    async with story(config=CONFIG) as app:
        await sweep(app)
        outcomes = await asyncio.gather(*(report(app) for _ in range(workers)))
        assert sorted(outcomes) == sorted([CheckRunOutcome.CREATED, *[CheckRunOutcome.NOTHING_TO_DO] * (workers - 1)])
        assert len(check_runs(app)) == 1


async def test_a_crash_between_creation_and_record_leaves_one(story, monkeypatch):
    async with story(config=CONFIG) as app:
        await sweep(app)

        async def dies(*_args):
            raise SystemExit

        with monkeypatch.context() as patch:
            patch.setattr(Reports, "posted", dies)
            with pytest.raises(SystemExit):
                await report(app)
        assert len(check_runs(app)) == 1
        assert await report(app) is CheckRunOutcome.UPDATED
        assert await report(app) is CheckRunOutcome.NOTHING_TO_DO
        assert len(check_runs(app)) == 1


async def test_a_deleted_check_run_is_created_again(story):
    async with story(config=CONFIG) as app:
        await sweep(app)
        await report(app)
        app.clock.pass_(60)  # a token just minted is not believed
        app.sandbox.world.orgs["acme"].repositories[".github"].check_runs.clear()
        await app.context.fuses.pause(app.installation, ALL_POOLS, Pause("mona", "maintenance", app.clock()))
        assert await report(app) is CheckRunOutcome.CREATED
        assert only(check_runs(app))["output"]["title"].endswith("paused by mona")


async def test_another_app_s_check_run_of_that_name_is_left_alone(story):
    async with story(config=CONFIG) as app:
        await sweep(app)
        repository = app.sandbox.world.orgs["acme"].repositories[".github"]
        theirs = {"name": "Runner health", "head_sha": repository.head_sha, "status": "queued"}
        repository.check_runs[1] = {**theirs, "app_id": app.sandbox.app.id}
        assert await report(app) is CheckRunOutcome.CREATED
        assert check_runs(app)[1] == {**theirs, "app_id": app.sandbox.app.id}


@pytest.mark.parametrize("identifier", ["sweep", None], ids=["Sweep now", "Re-run"])
async def test_the_button_sweep_now_and_a_re_run_ask_for_a_sweep_and_the_check_run_has_its_outcome(story, identifier):
    async with story(config=CONFIG) as app:
        await sweep(app)
        await report(app)
        app.listen()
        (check_run,) = check_runs(app)
        app.sandbox.control.click("acme", check_run_id=check_run, identifier=identifier)
        assert not await app.context.schedule.is_any_due(app.clock())
        await app.receive()
        assert await app.context.schedule.is_any_due(app.clock())
        app.clock.pass_(1)
        await sweep(app)
        (entry,) = await app.context.audit.latest(app.installation, 9)
        assert (entry.channel, entry.action, entry.address) == ("check run", "sweep", "acme/.github")
        assert entry.result.startswith("found no suspect, ")
        await app.context.audit.record(app.installation, entry._replace(at=app.clock(), channel="page", action="pause"))
        summary = (await reported(app))["output"]["summary"]
        label = "Sweep now" if identifier else "Re-run"
        assert f"**{label}**, pressed by `{entry.who}` {time_of(entry.at, app.clock())}: found no suspect, " in summary


STOPPED = Fuse(Position.STOPPED, since=1.0, batch=3, allowed=3, reason=FuseReason.BATCH_NEVER_ONLINE)


async def test_a_stopped_fuse_requires_a_person_whose_press_lets_it_prove_again_with_the_login(story):
    async with story(config=CONFIG) as app:
        await sweep(app)
        await app.context.fuses.save(app.installation, POOL, None, STOPPED)
        await app.context.fuses.pause(app.installation, ALL_POOLS, Pause("octocat", "maintenance", app.clock()))
        run = await reported(app)
        assert run["conclusion"] == "action_required"
        assert "fuse" in run["output"]["text"]
        assert "octocat" in run["output"]["summary"]
        _, resume = (action["identifier"] for action in run["actions"])

        app.listen()
        (check_run,) = check_runs(app)
        app.sandbox.control.click("acme", check_run_id=check_run, identifier=resume)
        await app.receive()
        await resumed(app)
        fuse = (await app.context.fuses.all(app.installation))[POOL]
        by = app.sandbox.world.directory.sender["login"]
        assert (fuse.position, fuse.reason, fuse.by) == (Position.PROVING, FuseReason.RESUMED, by)
        assert [each.who for each in (await app.context.fuses.pauses(app.installation)).values()] == ["octocat"]
        events = [event for _, event in await app.context.events.latest(app.installation, 9)]
        assert sum(b"ghapp.fuse.tripped.v1" in event and b"Resumed" in event for event in events) == 1
        assert await app.context.schedule.is_any_due(app.clock()), "a sweep comes before any action"

        run = await reported(app)
    assert run["conclusion"] == "action_required", "it is paused"
    assert f"resumed by `{by}`" in run["output"]["text"]
    assert f"**Resume**, pressed by `{by}` " in run["output"]["summary"]
    assert [action["identifier"] for action in run["actions"]] == ["sweep"]


@pytest.mark.parametrize("identifier", ["resume", None])
async def test_a_button_of_a_check_run_that_is_not_ours_has_no_effect(story, identifier):
    async with story(config=CONFIG) as app:
        await sweep(app)
        await report(app)
        await app.context.fuses.save(app.installation, POOL, None, STOPPED)
        repositories = app.sandbox.world.orgs["acme"].repositories
        (ours,) = check_runs(app).values()
        repositories[".github"].check_runs[1] = {**ours, "name": "Lint", "external_id": ""}
        repositories["api"].check_runs[2] = ours
        app.listen()
        for check_run in (1, 2):
            app.sandbox.control.click("acme", check_run_id=check_run, identifier=identifier)
        await app.receive(2)
        assert (await app.context.fuses.all(app.installation))[POOL] == STOPPED
        assert waiting(app, "report") == []
        assert not await app.context.schedule.is_any_due(app.clock())
        assert (await app.context.counters.all())['ghapp_check_requests_total{done="ignored"}'] == 2


async def test_a_check_run_asked_for_again_is_posted_again(story):
    async with story(config=CONFIG) as app:
        await sweep(app)
        await report(app)
        app.listen()
        (check_run,) = check_runs(app)
        app.sandbox.control.click("acme", check_run_id=check_run)
        await app.receive()
        assert waiting(app, "report") == [f"report-{app.installation}"]
        assert [await report(app), await report(app)] == [CheckRunOutcome.UPDATED, CheckRunOutcome.NOTHING_TO_DO]


async def test_without_the_permission_github_is_asked_for_nothing_until_it_is_granted(story):
    async with story(config=CONFIG) as app:
        await sweep(app)
        held = {"organization_self_hosted_runners": "write", "actions": "read", "metadata": "read"}
        app.listen()
        app.sandbox.control.permissions("acme", permissions=held)
        await app.receive()
        before = calls(app)
        assert [await report(app), await report(app)] == [
            CheckRunOutcome.PERMISSION_MISSING,
            CheckRunOutcome.NOTHING_TO_DO,
        ]
        assert calls(app) == before
        app.sandbox.control.permissions("acme", permissions={**held, "checks": "write"})
        await app.receive()
        assert await report(app) is CheckRunOutcome.CREATED


@pytest.mark.parametrize(
    ("repository", "outcome"),
    [
        ("acme/missing", CheckRunOutcome.REPOSITORY_MISSING),
        ("globex/.github", CheckRunOutcome.NOTHING_TO_DO),
    ],
)
async def test_a_repository_that_is_not_there_or_not_the_org_s_costs_one_call_in_five_minutes(
    story, repository, outcome
):
    async with story(config=f'[report]\nrepository = "{repository}"\n') as app:
        await sweep(app)
        app.clock.pass_(60)  # a token just minted is not believed
        before = calls(app)
        assert await report(app) is outcome
        app.clock.pass_(299)
        assert await report(app) is CheckRunOutcome.NOTHING_TO_DO
        assert calls(app) - before <= 1
        app.clock.pass_(1)
        assert await report(app) is outcome


async def test_a_report_is_posted_once_github_is_available_again(story):
    async with story(config=CONFIG) as app:
        await sweep(app)
        app.sandbox.control.fault(match=".*", status=502)
        assert await report(app) is CheckRunOutcome.UNAVAILABLE
        app.sandbox.control.no_faults()
        assert await report(app) is CheckRunOutcome.CREATED
        counted = await app.context.counters.all()
    assert counted['ghapp_reports_total{org="acme",outcome="unavailable"}'] == 1
    assert counted['ghapp_reports_total{org="acme",outcome="created"}'] == 1


async def test_a_late_press_resumes_nothing_that_stopped_after_the_report(story):
    async with story(config=CONFIG) as app:
        await sweep(app)
        await app.context.fuses.save(app.installation, POOL, None, STOPPED)
        run = await reported(app)
        _, resume = (action["identifier"] for action in run["actions"])
        app.clock.pass_(2)
        await app.context.fuses.save(app.installation, "gpu", None, replace(STOPPED, stopped_at=app.clock()))
        app.listen()
        (check_run,) = check_runs(app)
        app.sandbox.control.click("acme", check_run_id=check_run, identifier=resume)
        await app.receive()
        await resumed(app)
        fuses = await app.context.fuses.all(app.installation)
        assert (fuses[POOL].position, fuses["gpu"].position) == (Position.PROVING, Position.STOPPED)


@pytest.mark.parametrize(
    ("by", "position", "result"),
    [
        ("mona", Position.PROVING, "restarted"),
        ("lisa", Position.STOPPED, "refused: not an admin of acme/api"),
        ("sam", Position.STOPPED, "refused: not an admin of acme/api"),
    ],
    ids=["an admin", "one who may write", "a stranger"],
)
async def test_github_is_asked_whether_who_presses_resume_is_an_admin(story, by, position, result):
    async with story(config=CONFIG.replace(".github", "api")) as app:
        await sweep(app)
        await app.context.fuses.save(app.installation, POOL, None, STOPPED)
        await report(app)
        ((check_run, run),) = check_runs(app, "api").items()
        _, resume = (action["identifier"] for action in run["actions"])
        app.listen()
        app.sandbox.control.click("acme", check_run_id=check_run, identifier=resume, by=by)
        await app.receive()
        await resumed(app)
        assert (await app.context.fuses.all(app.installation))[POOL].position is position
        trail = Trail.CHANGES if position is Position.PROVING else Trail.ATTEMPTS
        (entry,) = [each for of in Trail for each in await app.context.audit.latest(app.installation, 10, of)]
        assert [entry] == await app.context.audit.latest(app.installation, 10, trail)
        assert (entry.who, entry.channel, entry.action, entry.result) == (by, "check run", "resume", result)
        await report(app)
        summary = check_runs(app, "api")[check_run]["output"]["summary"]
        assert f"**Resume**, pressed by `{by}` {time_of(entry.at, app.clock())}: {prose(result)}." in summary
        await sweep(app)
        await report(app)
        summary = check_runs(app, "api")[check_run]["output"]["summary"]
        assert ("restarted; sweep: found " in summary) is (position is Position.PROVING)


async def test_while_github_does_not_answer_who_pressed_is_asked_again(story):
    async with story(config=CONFIG) as app:
        await sweep(app)
        await app.context.fuses.save(app.installation, POOL, None, STOPPED)
        app.sandbox.control.fault(match=".*/permission", status=502)
        with pytest.raises(GitHubUnavailableError):
            await resume_by_button(app.context, app.installation, "mona", 101, 2)
        assert (await app.context.fuses.all(app.installation))[POOL] == STOPPED
        app.sandbox.control.no_faults()
        assert await resume_by_button(app.context, app.installation, "mona", 101, 2)
        assert await resume_by_button(app.context, app.installation, "mona", 101, 2), "once more changes nothing"
        assert not await resume_by_button(app.context, app.installation, "mona", 102, 2), "who had the login once"
        (changed,) = await app.context.audit.latest(app.installation, 10)
        (refused, again) = await app.context.audit.latest(app.installation, 10, Trail.ATTEMPTS)
        assert (changed.result, again.result) == ("restarted", "nothing to restart")
        assert refused.result.startswith("refused: ")


@pytest.mark.parametrize(("user", "pressed"), [(101, "nothing to restart"), (102, "refused: not an admin")])
async def test_a_press_without_effect_is_shown_like_others_and_has_the_report_posted(story, user, pressed):
    async with story(config=CONFIG) as app:
        await sweep(app)
        await report(app)
        assert waiting(app, "report") == []
        await resume_by_button(app.context, app.installation, "mona", user, 2)
        assert waiting(app, "report") == [f"report-{app.installation}"]
        assert (
            f"**Resume**, pressed by `mona` {time_of(app.clock(), app.clock())}: {pressed}"
            in ((await reported(app))["output"]["summary"])
        )


async def test_a_fuse_resumed_by_command_is_published_once_by_the_next_decision(story):
    async with story(config=CONFIG) as app:
        await sweep(app)
        await app.context.fuses.save(app.installation, POOL, None, STOPPED)
        acme = await app.context.installations.one(app.installation)
        await app.context.fuses.resume(acme, None, "mona", app.clock(), app.settings.of("acme").fuse)
        for _ in range(2):
            app.clock.pass_(1)
            await sweep_installation(app.context, app.installation)
        events = [event for _, event in await app.context.events.latest(app.installation, 9)]
        assert sum(b"ghapp.fuse.tripped.v1" in event and b"Resumed" in event for event in events) == 1
        assert waiting(app, "report") == [f"report-{app.installation}"]
