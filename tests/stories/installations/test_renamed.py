"""An organization is renamed: ghapp continues under the configured name until the configuration has the new name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ghapp.doctor.runner import examine
from ghapp.github.deliveries import DeliveredInstallation, Delivery, InstalledAccount
from ghapp.settings import Settings
from jobs.context import open_context
from jobs.installations.discover import discover_installations, installation_changed
from jobs.reports.health_report import repository_for
from jobs.runners.sweep import sweep_installation

DRY_RUN = '[orgs.acme.remediation]\nmode = "dry-run"\n'
REPLACE = "ghapp.runner.replace.v1"
STRANGER = 99_000


async def renamed(app, *logins, former="acme"):
    """Two sweeps; then GitHub gives it each of these names in turn, each discovered by a sweep."""
    for _ in range(2):
        await app.live_through_an_interval()
    for login in logins:
        app.sandbox.control.rename(former, login)
        assert (await app.live_through_an_interval()).flaw == "OrganizationRenamed"
        assert (await app.live_through_an_interval()).flaw == ""
        former = login


def asked_of_the_controller(app):
    return [each["data"]["runner_id"] for each in app.sandbox.control.controller_events() if each["type"] == REPLACE]


async def lose_one(app, login):
    (lost,) = app.sandbox.control.lose(login, count=1)
    for _ in range(3):
        await app.live_through_an_interval()
    return lost


@pytest.mark.parametrize("logins", [["acme-two"], ["acme-two", "acme-three"]], ids=["once", "twice"])
async def test_a_loss_is_sent_to_the_configured_url_once(story, logins):
    async with story() as app:
        await renamed(app, *logins)
        lost = await lose_one(app, logins[-1])
        assert asked_of_the_controller(app) == [lost]
        (reported,) = await app.sent_events("runner.replace")
        assert reported["org"] == "acme", "controllers get the name that they know"
        assert await app.context.events.unsent() == []


@pytest.mark.parametrize("discovered", [False, True], ids=["by a sweep", "by the discovery"])
async def test_dry_run_stays_dry_run(story, discovered):
    async with story(config=DRY_RUN) as app:
        await renamed(app, "acme-two")
        if discovered:
            await discover_installations(app.context)
        lost = await lose_one(app, "acme-two")
        assert (await app.context.runners.some(app.installation, [lost]))[lost].would_remediate_at is not None
        assert await app.replacements() == asked_of_the_controller(app) == []


async def test_pools_that_bear_the_new_name_do_not_end_a_dry_run_whose_table_was_forgotten(story):
    async with story(config=DRY_RUN) as app:
        await renamed(app, "acme-two")
        pools = tuple(replace(pool, org="acme-two") for pool in app.settings.pools)
        async with open_context(replace(app.settings, pools=pools), app.clock) as app.context:
            await lose_one(app, "acme-two")
            assert await app.replacements() == []


async def test_a_configuration_that_follows_holds_at_once(story):
    async with story(config=DRY_RUN) as app:
        await renamed(app, "acme-two")
        policies = {"acme-two": app.settings.policy}
        pools = tuple(replace(pool, org="acme-two") for pool in app.settings.pools)
        followed = replace(app.settings, org_policies=policies, pools=pools)
        async with open_context(followed, app.clock) as app.context:
            lost = await lose_one(app, "acme-two")
            assert asked_of_the_controller(app) == [lost]
            (reported,) = await app.sent_events("runner.replace")
            assert reported["org"] == "acme-two"


async def test_a_configuration_that_names_both_needs_no_change_at_the_rename(story):
    pool = '[[pools]]\norg = "acme-two"\nname = "linux-4vcpu"\nlabels = ["linux-4vcpu"]\n'
    async with story(config=DRY_RUN + '[orgs.acme-two.remediation]\nmode = "off"\n' + pool) as app:
        assert (await app.context.installations.one(app.installation)).org == "acme"
        await renamed(app, "acme-two")
        known = await app.context.installations.one(app.installation)
        assert app.context.settings.of(known.org).remediation.mode == "off"


async def test_back_under_its_first_name_it_is_what_it_was(story):
    async with story() as app:
        before = await app.context.installations.one(app.installation)
        await renamed(app, "acme-two", "acme")
        known = await app.context.installations.one(app.installation)
        assert (known.org, known.called, known.account_id) == ("acme", "acme", before.account_id)
        lost = await lose_one(app, "acme")
        assert asked_of_the_controller(app) == [lost]


def installed_by_a_stranger(login):
    reported = DeliveredInstallation(
        STRANGER, InstalledAccount(login, 4_711), None, {"organization_self_hosted_runners": "write"}
    )
    return Delivery("created", reported)


@pytest.mark.parametrize("is_known", [False, True], ids=["before the rename is known", "after it"])
async def test_another_organization_with_the_old_name_gets_neither_tables_nor_pools(story, is_known):
    async with story(config=DRY_RUN) as app:
        if is_known:
            await renamed(app, "acme-two")
        await installation_changed(app.context, installed_by_a_stranger("acme"))
        stranger = await app.context.installations.one(STRANGER)
        assert (stranger.org, stranger.called) == (f"acme.{STRANGER}", "acme")
        assert app.settings.pools_of(stranger.org) == ()
        assert (await app.context.installations.of("acme")).id == app.installation
        assert (await sweep_installation(app.context, app.installation)).org == "acme"


async def test_the_report_follows_its_repository(story):
    async with story(config='[orgs.acme.report]\nrepository = "acme/.github"\n') as app:
        await renamed(app, "acme-two")
        assert repository_for(app.context, await app.context.installations.one(app.installation)) == "acme-two/.github"


async def named_by_doctor(app):
    found = await examine(Settings.read(app.environ), app.environ)
    return [each for each in found if (each.group, each.name) == ("installations", "name")], found


@pytest.mark.parametrize("recorded", [False, True], ids=["GitHub alone knows", "we know"])
async def test_doctor_names_the_rename_and_what_to_write(story, recorded):
    async with story(config=DRY_RUN) as app:
        assert (await named_by_doctor(app))[0] == []
        app.sandbox.control.rename("acme", "acme-two")
        if recorded:
            await discover_installations(app.context)
        (name,), found = await named_by_doctor(app)
        assert (name.status, name.org) == ("warning", "acme")
        assert "its login at GitHub is now acme-two" in name.text
        assert name.fix.startswith("rename it to acme-two in [orgs.acme]")
        assert not [each for each in found if (each.group, each.name) == ("installations", "pools")]
        assert not [each for each in found if (each.group, each.name) == ("installations", "installed")]


async def test_the_log_names_the_rename_and_what_to_write(story, capsys):
    async with story() as app:
        await renamed(app, "acme-two")
        text = capsys.readouterr().out
        assert text.count("the organization has another name") == 1
        assert "rename it to acme-two in [orgs.acme]" in text
