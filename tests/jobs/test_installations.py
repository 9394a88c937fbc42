"""Where the App is installed."""

from __future__ import annotations

import pytest

from ghapp.health.installation import Installation
from jobs.installations import discover_installations


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
        assert (await it.house.installations.one(it.installation)).org == "acme-two"


async def test_the_first_sweeps_of_many_are_spread_over_the_interval(story, monkeypatch):
    async with story() as it:
        held = (await it.house.installations.one(it.installation)).permissions
        many = [Installation(each, f"org{each}", each, held) for each in range(600, 720)]

        async def installations():
            return many

        monkeypatch.setattr(it.house.github, "installations", installations)
        await discover_installations(it.house)
        due = [await it.house.schedule.next(each.id) - it.clock() for each in many]
        assert sorted(set(due)) == [float(each) for each in range(60)]


async def test_who_is_enrolled_keeps_its_date(story):
    async with story() as it:
        await it.house.schedule.due_at(it.installation, it.clock() + 42)
        await discover_installations(it.house)
        assert await it.house.schedule.next(it.installation) == it.clock() + 42
