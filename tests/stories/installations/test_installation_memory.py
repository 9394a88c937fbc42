"""GitHub's answer about an installation is used by several confirmations, and never after something contradicted it."""

from __future__ import annotations

import asyncio

import pytest

from ghapp.github.deliveries import DeliveredInstallation, Delivery, InstalledAccount
from ghapp.installations.store import InstallationStates
from jobs.installations.discover import installation_changed
from jobs.runners import record_list
from jobs.runners.confirm import confirm_installation
from jobs.runners.sweep import sweep_installation


async def losing(app, count):
    """Runners are lost, each at its own time, so that each has a confirmation of its own a second after the other."""
    for _ in range(2):
        await sweep_installation(app.context, app.installation)
        app.clock.pass_(300)
    await sweep_installation(app.context, app.installation)
    for _ in range(count):
        app.sandbox.control.lose("acme", count=1)
        await sweep_installation(app.context, app.installation)
        app.clock.pass_(1)


def questions(app):
    """How often GitHub was asked about the installation."""
    return app.account()["calls"].get("GET /app/installations/{installation_id}", {"total": 0})["total"]


async def confirm(app, seconds):
    app.clock.pass_(seconds)
    return await confirm_installation(app.context, app.installation)


async def test_confirmations_within_some_seconds_ask_once_about_the_installation(story):
    async with story(runners=40) as app:
        await losing(app, 4)
        assert await confirm(app, 26) == 1
        assert [await confirm(app, 1) for _ in range(3)] == [1, 1, 1]
        assert questions(app) == 1


async def test_a_sweep_asks_about_the_installation_while_it_queries_new_suspects(story, monkeypatch):
    async with story(runners=40) as app:
        await losing(app, 1)
        app.clock.pass_(30)
        (new,) = app.sandbox.control.lose("acme", count=1)
        get_alone = record_list._get_alone

        async def once_asked(context, installation, runner_ids, failures=None):
            async with asyncio.timeout(10):
                while runner_ids and questions(app) == 0:  # noqa: ASYNC110 - another thread is asked
                    await asyncio.sleep(0.01)
            return await get_alone(context, installation, runner_ids, failures)

        monkeypatch.setattr(record_list, "_get_alone", once_asked)
        await sweep_installation(app.context, app.installation)
        records = await app.context.runners.all(app.installation)
        assert [each.id for each in records.values() if each.first_404_at and not each.confirmed_at] == [new]
        assert sum(each.confirmed_at is not None for each in records.values()) == 1
        assert questions(app) == 1


@pytest.mark.parametrize("how", ["suspend", "deleted"])
async def test_a_delivery_that_contradicts_the_answer_has_github_asked_again(story, how):
    async with story(runners=40) as app:
        await losing(app, 2)
        assert await confirm(app, 28) == 1
        assert await InstallationStates(app.context.redis).last(app.installation) is not None
        known = await app.context.installations.one(app.installation)
        reported = DeliveredInstallation(
            app.installation, InstalledAccount("acme", known.account_id), permissions=known.permissions
        )
        await installation_changed(app.context, Delivery(action=how, installation=reported))
        assert await InstallationStates(app.context.redis).last(app.installation) is None


async def test_an_app_that_was_suspended_a_moment_ago_confirms_no_loss_despite_a_cached_answer(story):
    async with story(runners=40) as app:
        await losing(app, 2)
        assert await confirm(app, 28) == 1
        app.sandbox.control.suspend("acme")
        assert await confirm(app, 1) == 0
        assert await InstallationStates(app.context.redis).last(app.installation) is None, "the refusal contradicts it"


async def test_a_permission_that_was_lost_a_moment_ago_and_answered_404_confirms_no_loss(story):
    async with story(runners=40) as app:
        await losing(app, 2)
        assert await confirm(app, 28) == 1
        app.sandbox.control.withhold_permission("acme", status=404)
        assert await confirm(app, 1) == 0
        assert await InstallationStates(app.context.redis).last(app.installation) is None


async def test_an_installation_that_is_not_what_it_was_is_asked_for_again_each_time(story):
    async with story(runners=40) as app:
        await losing(app, 1)
        app.sandbox.control.permissions("acme", permissions={"metadata": "read"})
        assert await confirm(app, 30) == 0
        assert await confirm(app, 1) == 0
        assert questions(app) == 2


async def test_while_github_does_not_answer_the_last_answer_stays(story):
    async with story(runners=40) as app:
        await losing(app, 2)
        assert await confirm(app, 28) == 1
        app.sandbox.control.fault(match="/orgs/.*", status=500)
        assert await confirm(app, 1) == 0
        assert await InstallationStates(app.context.redis).last(app.installation) is not None
