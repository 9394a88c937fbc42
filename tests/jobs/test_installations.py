"""Where the App is installed."""

from __future__ import annotations

import pytest

from ghapp.errors import GitHubUnavailableError
from ghapp.github.deliveries import Account, DeliveredInstallation, Delivery
from ghapp.health.installation import Installation
from ghapp.health.posting import Setback
from jobs.installations import BEGUN, ENDED, discover_installations, installation_changed


@pytest.mark.parametrize(
    ("befall", "why"),
    [
        (lambda control: control.suspend("acme"), "InstallationSuspended"),
        (lambda control: control.withhold_permission("acme"), "PermissionMissing"),
    ],
    ids=["suspended", "not permitted"],
)
async def test_who_does_not_let_us_look_is_not_swept_and_says_why(story, befall, why):
    async with story() as it:
        befall(it.sandbox.control)
        assert await discover_installations(it.house) == 1
        assert await it.house.schedule.next(it.installation) is None
        survey = await it.house.runners.survey(it.installation)
        assert (survey.failure, survey.failing_since) == (why, it.clock())


async def test_who_is_gone_is_struck(story):
    async with story() as it:
        it.sandbox.control.uninstall("acme")
        assert await discover_installations(it.house) == 0
        assert await it.house.schedule.next(it.installation) is None
        assert await it.house.installations.all() == []


async def test_who_has_another_name_is_known_by_it(story):
    async with story() as it:
        it.sandbox.control.rename("acme", "acme-two")
        await discover_installations(it.house)
        known = await it.house.installations.one(it.installation)
        assert (known.org, known.called) == ("acme", "acme-two"), "here it goes by the name of the configuration"


async def test_the_only_one_is_swept_at_once(story):
    async with story() as it:
        assert await it.house.schedule.next(it.installation) == it.clock()


@pytest.mark.parametrize(
    ("hinder", "relent"),
    [
        (lambda control: control.suspend("acme"), lambda control: control.unsuspend("acme")),
        (
            lambda control: control.permissions("acme", permissions={"metadata": "read"}),
            lambda control: control.permissions("acme", permissions={"organization_self_hosted_runners": "read"}),
        ),
    ],
    ids=["unsuspended", "permitted"],
)
async def test_who_lets_us_look_again_is_swept_at_once(story, hinder, relent):
    async with story() as it:
        hinder(it.sandbox.control)
        await discover_installations(it.house)
        relent(it.sandbox.control)
        it.clock.pass_(300)
        await discover_installations(it.house)
        assert await it.house.schedule.next(it.installation) == it.clock()


async def test_a_reason_that_lasts_is_dated_from_when_it_began(story):
    async with story() as it:
        it.sandbox.control.suspend("acme")
        began = it.clock()
        await discover_installations(it.house)
        it.clock.pass_(300)
        await discover_installations(it.house)
        assert (await it.house.runners.survey(it.installation)).failing_since == began


async def test_when_github_does_not_say_who_there_is_everybody_stays(story):
    async with story() as it:
        it.sandbox.control.fault(match="/app/installations", status=502)
        with pytest.raises(GitHubUnavailableError):
            await discover_installations(it.house)
        assert [each.id for each in await it.house.installations.all()] == [it.installation]
        assert await it.house.schedule.next(it.installation) is not None


@pytest.mark.parametrize(("seconds", "count", "offsets"), [(60, 120, 60), (60, 2, 2), (1.5, 120, 1)])
async def test_the_first_sweeps_of_many_are_spread_over_the_interval(story, monkeypatch, seconds, count, offsets):
    async with story(config=f"[sweep]\ninterval_seconds = {seconds}\n") as it:
        held = (await it.house.installations.one(it.installation)).permissions
        many = [Installation(each, f"org{each}", each, held) for each in range(600, 600 + count)]

        async def installations():
            return many

        monkeypatch.setattr(it.house.github, "installations", installations)
        await discover_installations(it.house)
        due = [await it.house.schedule.next(each.id) - it.clock() for each in many]
        assert sorted(set(due)) == [float(each) for each in range(offsets)]


async def test_who_is_enrolled_keeps_its_date(story):
    async with story() as it:
        await it.house.schedule.due_at(it.installation, it.clock() + 42)
        await discover_installations(it.house)
        assert await it.house.schedule.next(it.installation) == it.clock() + 42


def told(it, action):
    held = {"organization_self_hosted_runners": "write"}
    return Delivery(action, DeliveredInstallation(it.installation, Account("acme", 1), None, held))


@pytest.mark.parametrize("action", [*BEGUN, *ENDED])
async def test_what_kept_a_report_back_may_be_over_when_an_installation_changed(story, action):
    async with story() as it:
        await it.house.reports.put_off(it.installation, Setback("acme/.github", "permission-missing", it.clock() + 600))
        await installation_changed(it.house, told(it, action))
        assert (await it.house.reports.standing(it.installation)).setback is None


@pytest.mark.parametrize("action", ["renamed", ""])
async def test_what_is_no_change_of_an_installation_changes_nothing(story, action):
    async with story() as it:
        await it.house.schedule.strike(it.installation)
        await installation_changed(it.house, told(it, action))
        assert await it.house.schedule.next(it.installation) is None
