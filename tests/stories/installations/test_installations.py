"""Discovery of the App's installations."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import pytest
from rq import Queue
from rq.registry import ScheduledJobRegistry
from rq.serializers import JSONSerializer

from ghapp.errors import GitHubUnavailableError
from ghapp.github.api import InstallationList
from ghapp.github.deliveries import DeliveredInstallation, Delivery, InstalledAccount
from ghapp.installations.installation import Installation
from ghapp.report.check_run_state import PostFailure
from ghapp.runners.next_attempt import next_attempt
from ghapp.store import keys
from jobs.installations.discover import (
    BEGUN,
    CALLS_AN_HOUR,
    DISCOVER_SECONDS,
    ENDED,
    PER_PAGE,
    discover_installations,
    installation_changed,
)
from jobs.runners.sweep import sweep_installation


@pytest.mark.parametrize(
    ("prevent_sweeps", "why"),
    [
        (lambda control: control.suspend("acme"), "InstallationSuspended"),
        (lambda control: control.withhold_permission("acme"), "PermissionMissing"),
    ],
    ids=["suspended", "not permitted"],
)
async def test_an_installation_without_permission_is_not_swept_and_has_the_reason(story, prevent_sweeps, why):
    async with story() as app:
        prevent_sweeps(app.sandbox.control)
        assert await discover_installations(app.context) == 1
        assert await app.context.schedule.next(app.installation) is None
        survey = await app.context.runners.survey(app.installation)
        assert (survey.failure, survey.failing_since) == (why, app.clock())


async def test_an_uninstalled_installation_is_removed(story):
    async with story() as app:
        app.sandbox.control.uninstall("acme")
        assert await discover_installations(app.context) == 0
        assert await app.context.schedule.next(app.installation) is None
        assert await app.context.installations.all() == []


async def test_a_renamed_installation_keeps_its_configured_name_and_gets_its_new_name(story):
    async with story() as app:
        app.sandbox.control.rename("acme", "acme-two")
        await discover_installations(app.context)
        known = await app.context.installations.one(app.installation)
        assert (known.org, known.called) == ("acme", "acme-two"), "the org keeps the name of the configuration"


async def test_the_only_installation_is_swept_at_once(story):
    async with story() as app:
        assert await app.context.schedule.next(app.installation) == app.clock()


@pytest.mark.parametrize(
    ("block_sweeps", "allow_sweeps"),
    [
        (lambda control: control.suspend("acme"), lambda control: control.unsuspend("acme")),
        (
            lambda control: control.permissions("acme", permissions={"metadata": "read"}),
            lambda control: control.permissions("acme", permissions={"organization_self_hosted_runners": "read"}),
        ),
    ],
    ids=["unsuspended", "permitted"],
)
async def test_an_installation_that_permits_sweeps_again_is_swept_at_once(story, block_sweeps, allow_sweeps):
    async with story() as app:
        block_sweeps(app.sandbox.control)
        await discover_installations(app.context)
        allow_sweeps(app.sandbox.control)
        app.clock.pass_(300)
        await discover_installations(app.context)
        assert await app.context.schedule.next(app.installation) == app.clock()


def scheduled(app):
    """The delayed discovery jobs: time (epoch seconds) by key."""
    registry = ScheduledJobRegistry(queue=Queue("sweep", connection=app.context.queue_redis, serializer=JSONSerializer))
    return {key: registry.get_scheduled_time(key).timestamp() for key in registry.get_job_ids()}


@pytest.mark.parametrize("block_sweeps", [lambda app: app.suspend("acme"), lambda app: app.withhold_permission("acme")])
async def test_while_an_installation_permits_no_sweep_discovery_runs_within_its_interval(story, block_sweeps):
    async with story(config="[sweep]\ninterval_seconds = 20\n") as app:
        assert scheduled(app) == {}
        block_sweeps(app.sandbox.control)
        for _ in range(3):  # for any number of runs
            await discover_installations(app.context)
        assert len(scheduled(app)) == 1
        next_discovery = await app.context.schedule.next_discovery()
        assert 0 < next_discovery - app.clock() <= 20
        acme, survey = (
            await app.context.installations.one(app.installation),
            await app.context.runners.survey(app.installation),
        )
        attempt = next_attempt(
            acme, survey, await app.context.schedule.next(app.installation), next_discovery, app.clock()
        )
        assert (attempt.prevented_by, attempt.at) == (survey.failure, next_discovery)
        assert attempt.prevented_by

        app.clock.pass_(next_discovery - app.clock())
        await discover_installations(app.context)
        assert len(scheduled(app)) == 2, "the running job has the key of its own time"


async def test_while_all_permit_sweeps_the_next_discovery_is_the_schedulers(story):
    async with story() as app:
        await discover_installations(app.context)
        assert scheduled(app) == {}
        assert await app.context.schedule.next_discovery() == app.clock() + DISCOVER_SECONDS


@pytest.mark.parametrize(("count", "seconds"), [(100, 3), (1000, 29), (1001, 32)])
async def test_repeated_discovery_leaves_most_of_the_apps_rate_limit(story, monkeypatch, count, seconds):
    async with story(config="[sweep]\ninterval_seconds = 2\n") as app:
        many = [Installation(each, f"org{each}", each, {}, suspended=True) for each in range(600, 600 + count)]

        async def installations():
            return InstallationList(many)

        monkeypatch.setattr(app.context.github, "installations", installations)
        monkeypatch.setattr(app.context.runners, "save_survey", nothing)
        await discover_installations(app.context)
        wait = -(-count // PER_PAGE) * 3600 / CALLS_AN_HOUR
        assert ceil(wait) == seconds
        assert 0 < (await app.context.schedule.next_discovery()) - app.clock() <= wait


async def nothing(*_):
    """Replaces a method that this test does not cover."""


@pytest.mark.parametrize("action", BEGUN)
async def test_a_delivery_that_permits_sweeps_makes_a_sweep_due_at_once(story, action):
    async with story() as app:
        for date in (None, app.clock() + 3600):
            await app.context.schedule.remove(app.installation)
            if date is not None:
                await app.context.schedule.add(app.installation, date)
            app.clock.pass_(7)
            await installation_changed(app.context, delivery(app, action))
            assert await app.context.schedule.next(app.installation) == app.clock()


async def test_a_delivery_of_a_suspension_schedules_discovery_within_the_interval(story):
    async with story() as app:
        await installation_changed(app.context, delivery(app, "suspend"))
        assert await app.context.schedule.next(app.installation) is None
        assert 0 < await app.context.schedule.next_discovery() - app.clock() <= 60
        assert len(scheduled(app)) == 1


async def test_one_of_many_installations_that_permits_sweeps_again_is_swept_at_once(story, monkeypatch):
    async with story() as app:
        held = (await app.context.installations.one(app.installation)).permissions
        many = [Installation(each, f"org{each}", each, held) for each in range(600, 660)]

        async def installations():
            return InstallationList(many)

        monkeypatch.setattr(app.context.github, "installations", installations)
        many[59] = replace(many[59], suspended=True)
        await discover_installations(app.context)
        many[59] = replace(many[59], suspended=False)
        app.clock.pass_(60)
        await discover_installations(app.context)
        assert await app.context.schedule.next(659) == app.clock()


async def test_a_lasting_failure_has_the_time_of_its_start(story):
    async with story() as app:
        app.sandbox.control.suspend("acme")
        began = app.clock()
        await discover_installations(app.context)
        app.clock.pass_(300)
        await discover_installations(app.context)
        assert (await app.context.runners.survey(app.installation)).failing_since == began


async def test_while_github_lists_no_installations_all_installations_stay(story):
    async with story() as app:
        app.sandbox.control.fault(match="/app/installations", status=502)
        with pytest.raises(GitHubUnavailableError):
            await discover_installations(app.context)
        assert [each.id for each in await app.context.installations.all()] == [app.installation]
        assert await app.context.schedule.next(app.installation) is not None


@pytest.mark.parametrize(("seconds", "count", "offsets"), [(60, 120, 60), (60, 2, 2), (1.5, 120, 1)])
async def test_the_first_sweeps_of_many_installations_are_spread_over_the_interval(
    story, monkeypatch, seconds, count, offsets
):
    async with story(config=f"[sweep]\ninterval_seconds = {seconds}\n") as app:
        held = (await app.context.installations.one(app.installation)).permissions
        many = [Installation(each, f"org{each}", each, held) for each in range(600, 600 + count)]

        async def installations():
            return InstallationList(many)

        monkeypatch.setattr(app.context.github, "installations", installations)
        await discover_installations(app.context)
        due = [await app.context.schedule.next(each.id) - app.clock() for each in many]
        assert sorted(set(due)) == [float(each) for each in range(offsets)]


async def test_a_scheduled_installation_keeps_its_due_time(story):
    async with story() as app:
        await app.context.schedule.due_at(app.installation, app.clock() + 42)
        await discover_installations(app.context)
        assert await app.context.schedule.next(app.installation) == app.clock() + 42


def delivery(app, action):
    held = {"organization_self_hosted_runners": "write"}
    return Delivery(action, DeliveredInstallation(app.installation, InstalledAccount("acme", 1), None, held))


@pytest.mark.parametrize("action", [*BEGUN, *ENDED])
async def test_a_changed_installation_clears_the_failure_of_its_report(story, action):
    async with story() as app:
        await app.context.reports.put_off(
            app.installation, PostFailure("acme/.github", "permission-missing", app.clock() + 600)
        )
        await installation_changed(app.context, delivery(app, action))
        assert (await app.context.reports.check_run_state(app.installation)).setback is None


@pytest.mark.parametrize("action", ["renamed", ""])
async def test_an_irrelevant_delivery_changes_nothing(story, action):
    async with story() as app:
        await app.context.schedule.remove(app.installation)
        await installation_changed(app.context, delivery(app, action))
        assert await app.context.schedule.next(app.installation) is None


async def uninstalled_data(app):
    """Whether the installation's survey expires."""
    return await app.context.redis.ttl(keys.survey(app.installation)) > 0


@pytest.mark.parametrize("delivered", [True, False], ids=["by delivery", "by discovery"])
async def test_the_data_of_an_uninstalled_installation_expires_until_it_is_listed_again(story, delivered):
    async with story() as app:
        await sweep_installation(app.context, app.installation)
        listed = [await app.context.installations.one(app.installation)]
        if delivered:
            uninstalled = Delivery("deleted", installation=DeliveredInstallation(app.installation))
            await installation_changed(app.context, uninstalled)
        app.sandbox.control.uninstall("acme")
        await discover_installations(app.context)
        assert await uninstalled_data(app)

        app.context = replace(app.context, github=Lists(listed))
        await discover_installations(app.context)
        assert not await uninstalled_data(app)


class Lists:
    """A GitHub that lists these installations, as before an answer that lacked them."""

    def __init__(self, listed):
        self._listed = listed

    async def installations(self):
        return InstallationList(self._listed)
