"""Versions of the runner, from GitHub's dates to what waits for them, and to the loop of ephemeral ones."""

from __future__ import annotations

import pytest

from ghapp.deaths.cause import Cause
from ghapp.deaths.death import Death
from ghapp.deaths.store import identity
from ghapp.loading.views import load_fleet
from ghapp.notifier import Notifier
from ghapp.remediation.fuse import Position
from ghapp.report.fleet import by_pool
from ghapp.runners.verdict import Reason, State, judge
from ghapp.sandbox.config import Pace, PoolConfig
from ghapp.versions.lifetime import DAY, MOST_CALLS_A_DAY, EndDates, VersionState
from jobs.deaths.post_mortem import look_into
from jobs.notifications import notify
from jobs.reports.health_report import report_installation
from jobs.runners.sweep import sweep_installation
from jobs.versions.end_dates import read_versions_of
from tests.sandbox.receivers import Receiver
from tests.stories.conftest import POOL
from tests.stories.workflow_jobs.test_queue import later, queued, why

OLD, NEW = "2.335.1", "2.337.0"
CALL = "GET /orgs/{org}/actions/runners/deprecations/{version}"
CURRENT, ENDING, ENDED, UNKNOWN = VersionState


@pytest.fixture
def messages():
    """A receiver of notifications."""
    with Receiver(status=200) as receiver:
        yield receiver


async def fleet_of(app):
    installation = await app.context.installations.one(app.installation)
    return await load_fleet(app.context, installation, app.settings, app.clock())


async def states(app):
    """The state of each version that runs."""
    fleet = await fleet_of(app)
    return {each.version: each.state for each in fleet.view.versions(fleet.runners, app.clock())}


def calls(app):
    return app.account()["calls"].get(CALL, {"total": 0})["total"]


async def swept(app, seconds=60):
    """A sweep, and the job for end dates if the sweep asked for it."""
    await app.pass_(seconds)
    await sweep_installation(app.context, app.installation)
    if app.context.queue_redis.exists(f"rq:job:versions-{app.installation}"):
        app.context.queue_redis.delete(f"rq:job:versions-{app.installation}")
        await read_versions_of(app.context, app.installation)


async def much_later(app, seconds):
    """The token expires meanwhile, which costs a sweep."""
    await swept(app, seconds)
    await swept(app)


def outdate(app, *, jobs_in, pool=POOL, **changes):
    app.sandbox.control.set_version("acme", version=OLD, pool=pool)
    app.sandbox.control.end_version(version=OLD, jobs_in=jobs_in, **changes)


async def test_github_is_asked_once_a_day_for_each_version_and_states_follow_its_dates(story):
    async with story(runners=4, ephemeral=False) as app:
        app.sandbox.control.end_version(version=OLD, jobs_in=20 * DAY)
        app.sandbox.control.set_version("acme", version=OLD, count=1)
        app.sandbox.control.set_version("acme", version="9.9.9", ids=[min(app.sandbox.fleet.roster.registered)])
        await sweep_installation(app.context, app.installation)
        await swept(app)
        assert await states(app) == {NEW: CURRENT, OLD: CURRENT, "9.9.9": UNKNOWN}
        assert calls(app) == 3
        for _ in range(3):
            await swept(app, 300)
        assert calls(app) == 3
        await much_later(app, 7 * DAY)
        assert await states(app) == {NEW: CURRENT, OLD: ENDING, "9.9.9": UNKNOWN}
        assert calls(app) == 6 + 1, "a token that is too young proves no 404"
        app.sandbox.control.fault(match=".*deprecations.*", status=502)
        await much_later(app, 14 * DAY)
        assert (await states(app))[OLD] is ENDED, "what was known stays"


async def test_a_server_without_the_endpoint_claims_nothing_and_costs_a_call_a_day(story):
    async with story(runners=2, ephemeral=False) as app:
        outdate(app, jobs_in=-DAY)
        app.sandbox.control.fault(match=".*deprecations.*", status=404)
        await sweep_installation(app.context, app.installation)
        for _ in range(4):
            await swept(app, 300)
        assert (await states(app), calls(app)) == ({OLD: UNKNOWN}, 1)


async def test_a_server_that_lists_no_versions_is_asked_for_none(story):
    async with story(runners=2, ephemeral=False) as app:
        app.sandbox.control.set_version("acme", version="", pool=POOL)
        await swept(app)
        assert (await states(app), calls(app)) == ({None: UNKNOWN}, 0)


@pytest.mark.parametrize("status", [403, 500, 429])
async def test_an_hour_after_a_failure_github_is_asked_again_and_meanwhile_nothing_is_claimed(story, status):
    async with story(runners=2, ephemeral=False) as app:
        outdate(app, jobs_in=-DAY)
        app.sandbox.control.fault(match=".*deprecations.*", status=status)
        for _ in range(3):
            await swept(app, 300)
        assert await states(app) == {OLD: UNKNOWN}
        before = calls(app)
        app.sandbox.control.no_faults()
        await swept(app, 300)
        assert calls(app) == before
        await much_later(app, 3600)
        assert (await states(app), calls(app)) == ({OLD: ENDED}, before + 1)


async def test_two_hundred_versions_cost_as_many_calls_a_day_as_are_permitted(story):
    async with story(runners=200, ephemeral=False) as app:
        for number, runner_id in enumerate(sorted(app.sandbox.fleet.roster.registered)):
            app.sandbox.control.set_version("acme", version=f"2.{number}.0", ids=[runner_id])
        await sweep_installation(app.context, app.installation)
        for _ in range(3):
            await swept(app, 300)
        assert calls(app) == MOST_CALLS_A_DAY


async def test_without_redis_data_nothing_is_claimed_until_github_has_answered_again(story):
    async with story(runners=2, ephemeral=False) as app:
        outdate(app, jobs_in=-DAY)
        await swept(app)
        assert await states(app) == {OLD: ENDED}
        await app.context.runner_versions.put(app.installation, {}, [OLD])
        assert await states(app) == {OLD: UNKNOWN}
        await swept(app, 300)
        assert await states(app) == {OLD: ENDED}


async def test_a_job_waits_because_all_runners_that_could_take_it_are_too_old_until_one_is_updated(story):
    async with story(runners=2, ephemeral=False) as app:
        outdate(app, jobs_in=-DAY)
        await swept(app)
        (job,) = await queued(app)
        await later(app, 61)
        explained = await why(app, job)
        assert (explained.reason, explained.next[-1].step) == ("RunnersTooOld", "ghapp versions --org acme")
        assert "unpack 2.337.0" not in explained.next[0].step, "no current version is known"
        app.sandbox.control.set_version("acme", version=NEW, count=1)
        await later(app, 1)
        assert (await app.context.demand.one(app.installation, job)).status == "running"


async def test_a_job_that_a_runner_takes_after_the_date_shows_that_github_does_not_enforce_it(story):
    async with story(runners=2, ephemeral=False) as app:
        past = EndDates(app.clock(), app.clock() - DAY, is_known=True)
        await app.context.runner_versions.put(app.installation, {NEW: past})
        await later(app, 0)
        assert await states(app) == {NEW: ENDED}
        await queued(app)
        await later(app, 1)
        assert await states(app) == {NEW: ENDING}


async def until_the_end(app):
    """The version ends while all runners have it and wait for jobs; GitHub's date has been known for a while."""
    outdate(app, jobs_in=150)
    await swept(app)
    await swept(app)
    assert (await states(app))[OLD] is ENDING


QUICK = Pace(job=(5.0, 5.0), boot=(2.0, 4.0), settle=(1.0, 2.0))


async def test_ephemeral_runners_that_end_and_come_again_are_neither_lost_nor_replaced(story):
    async with story(runners=6, pace=QUICK) as app:
        await until_the_end(app)
        seen = set()
        for _ in range(12):
            await swept(app)
            seen |= app.sandbox.fleet.roster.registered.keys()
            await app.live_through_an_interval()
        assert len(seen) > 30, "they end and come again"
        assert await app.replacements() == []
        fleet = await fleet_of(app)
        (pool,) = by_pool(fleet, app.clock())
        assert (pool.fuse.position, pool.count[State.INVALIDATED], pool.lost) == (Position.CLOSED, 0, [])
        account = app.account()
        assert account["wrongful_removals"] == account["wrongful_replacements"] == []


async def test_in_a_loop_a_job_waits_because_the_runners_are_too_old_whether_one_is_online_or_not(story):
    async with story(runners=3, pace=QUICK) as app:
        await until_the_end(app)
        for _ in range(3):
            await swept(app)
        (job,) = await queued(app)
        for seconds in (61, 7, 11, 13):
            await later(app, seconds)
            assert (await why(app, job)).reason == "RunnersTooOld"


async def test_a_real_loss_beside_the_loop_is_replaced(story):
    other = PoolConfig(name="gpu", size=4, ephemeral=False)
    async with story(
        runners=3, pace=QUICK, others=[other], pool='[[pools]]\norg = "acme"\nname = "gpu"\nlabels = ["gpu"]'
    ) as app:
        await until_the_end(app)
        for _ in range(3):
            await swept(app)
        lost = app.sandbox.control.lose("acme", count=1, pool="gpu")
        for _ in range(3):
            await app.live_through_an_interval()
        fleet = await fleet_of(app)
        assert {pool.name: [each.evidence.id for each in pool.lost] for pool in by_pool(fleet, app.clock())} == {
            "gpu": lost,
            POOL: [],
        }


def health(app):
    """The check run "Runner health" as it is now."""
    found = app.sandbox.world.orgs["acme"].repositories[".github"].check_runs.values()
    (check,) = [each for each in found if each["name"] == "Runner health"]
    return check


async def test_runner_health_and_people_hear_of_the_end_two_weeks_before_a_week_before_and_when_it_is_there(
    story, messages
):
    notifier = Notifier([messages.url.replace("http://", "json://")])
    async with story(runners=3, ephemeral=False, config='[report]\nrepository = "acme/.github"') as app:
        app.sandbox.control.set_version("acme", version=OLD, pool=POOL)
        app.sandbox.control.end_version(version=OLD, jobs_in=20 * DAY)
        await swept(app)
        found = []
        for days in (0, 7, 7, 7):
            await much_later(app, days * DAY)
            await report_installation(app.context, app.installation)
            await notify(app.context, notifier)
            found.append((health(app)["output"]["title"], health(app)["conclusion"]))
        soon = "version 2.335.1 ends soon"
        assert found == [
            ("3 runners healthy", "success"),
            (soon, "success"),
            (soon, "action_required"),
            ("version 2.335.1 gets no jobs", "action_required"),
        ]
        assert "unpack the newest release" in health(app)["output"]["text"]
        assert [each.payload["type"] for each in messages.wait(3)] == ["info", "warning", "failure"]
        assert all("version 2.335.1 of the runner gets" in each.payload["title"] for each in messages.received)
        app.sandbox.control.set_version("acme", version=NEW, pool=POOL)
        await much_later(app, DAY + 60)
        for _ in range(2):
            await swept(app, 60)
            await report_installation(app.context, app.installation)
            await notify(app.context, notifier)
        assert (health(app)["output"]["title"], health(app)["conclusion"]) == ("3 runners healthy", "success")
        assert messages.wait(4)[-1].payload["type"] == "success"


async def test_a_pool_that_is_empty_for_a_while_is_no_news(story, messages):
    notifier = Notifier([messages.url.replace("http://", "json://")])
    async with story(runners=2) as app:
        app.sandbox.control.set_version("acme", version=OLD, pool=POOL)
        app.sandbox.control.end_version(version=OLD, jobs_in=DAY)
        await swept(app)
        await notify(app.context, notifier)
        for _ in range(3):
            app.sandbox.control.queue("acme", labels=[POOL], count=2)
            await app.pass_(200)
            app.sandbox.control.take_offline("acme", count=10)
            await swept(app)
            await notify(app.context, notifier)
            app.sandbox.control.bring_online("acme")
            await swept(app)
            await notify(app.context, notifier)
        assert len(messages.wait(1)) == 1


async def test_a_container_that_ends_with_7_is_believed_before_github_s_dates_are(story):
    async with story(runners=2) as app:
        app.sandbox.control.set_version("acme", version=OLD, pool=POOL)
        app.sandbox.control.end_version(version=OLD, jobs_in=None)
        await swept(app)
        await swept(app, 3600)
        assert await states(app) == {OLD: CURRENT}
        first, second = (await app.context.runners.all(app.installation)).values()
        for runner, cause in ((first, Cause.VERSION_DEPRECATED), (second, Cause.CRASH)):
            death = Death(runner.name, runner.name, "node", app.clock(), 7, None, "Error", cause, "…")
            death = death._replace(runner_id=runner.id)
            await app.context.deaths.record(app.installation, death)
            await look_into(app.context, app.installation, identity(death))
        app.sandbox.control.end_version(version=OLD, jobs_in=-60)
        app.sandbox.control.lose("acme", ids=[first.id, second.id])
        await much_later(app, 120)
        records = await app.context.runners.all(app.installation)
        survey, limits = await app.context.runners.survey(app.installation), app.settings.of("acme").evidence
        found = [judge(records[each.id], survey, app.clock(), limits).reason for each in (first, second)]
        assert found == [Reason.VERSION_DEPRECATED, Reason.WITHIN_STARTUP_GRACE]
        assert (await app.context.runner_versions.all(app.installation))[OLD].jobs_end_at is not None
