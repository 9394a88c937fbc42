"""An organization is renamed: all goes on as the configuration has it, until the configuration bears the new name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ghapp.doctor.examination import examine
from ghapp.github.deliveries import Account, DeliveredInstallation, Delivery
from ghapp.settings import Settings
from jobs.house import open_house
from jobs.installations import discover_installations, installation_changed
from jobs.report import repository_for
from jobs.sweep import sweep_installation

DRY_RUN = '[orgs.acme.remediation]\nmode = "dry-run"\n'
REPLACE = "ghapp.runner.replace.v1"
STRANGER = 99_000


async def renamed(it, *logins, former="acme"):
    """Two looks at the fleet; then GitHub calls it each of these in turn, and we hear of it by looking."""
    for _ in range(2):
        await it.live_through_an_interval()
    for login in logins:
        it.sandbox.control.rename(former, login)
        assert (await it.live_through_an_interval()).flaw == "OrganizationRenamed"
        assert (await it.live_through_an_interval()).flaw == ""
        former = login


def asked_of_the_controller(it):
    return [each["data"]["runner_id"] for each in it.sandbox.control.controller_events() if each["type"] == REPLACE]


async def lose_one(it, login):
    (lost,) = it.sandbox.control.lose(login, count=1)
    for _ in range(3):
        await it.live_through_an_interval()
    return lost


@pytest.mark.parametrize("logins", [["acme-two"], ["acme-two", "acme-three"]], ids=["once", "twice"])
async def test_a_loss_is_told_to_the_configured_url_once(story, logins):
    async with story() as it:
        await renamed(it, *logins)
        lost = await lose_one(it, logins[-1])
        assert asked_of_the_controller(it) == [lost]
        (told,) = await it.told("runner.replace")
        assert told["org"] == "acme", "controllers are told the name that they know"
        assert await it.house.events.unsent() == []


@pytest.mark.parametrize("discovered", [False, True], ids=["by a sweep", "by the discovery"])
async def test_dry_run_stays_dry_run(story, discovered):
    async with story(config=DRY_RUN) as it:
        await renamed(it, "acme-two")
        if discovered:
            await discover_installations(it.house)
        lost = await lose_one(it, "acme-two")
        assert (await it.house.runners.some(it.installation, [lost]))[lost].would_act_at is not None
        assert await it.replacements() == asked_of_the_controller(it) == []


async def test_pools_that_bear_the_new_name_do_not_end_a_dry_run_whose_table_was_forgotten(story):
    async with story(config=DRY_RUN) as it:
        await renamed(it, "acme-two")
        pools = tuple(replace(pool, org="acme-two") for pool in it.settings.pools)
        async with open_house(replace(it.settings, pools=pools), it.clock) as it.house:
            await lose_one(it, "acme-two")
            assert await it.replacements() == []


async def test_a_configuration_that_follows_holds_at_once(story):
    async with story(config=DRY_RUN) as it:
        await renamed(it, "acme-two")
        policies = {"acme-two": it.settings.policy}
        pools = tuple(replace(pool, org="acme-two") for pool in it.settings.pools)
        followed = replace(it.settings, org_policies=policies, pools=pools)
        async with open_house(followed, it.clock) as it.house:
            lost = await lose_one(it, "acme-two")
            assert asked_of_the_controller(it) == [lost]
            (told,) = await it.told("runner.replace")
            assert told["org"] == "acme-two"


async def test_a_configuration_that_names_both_needs_no_change_at_the_rename(story):
    pool = '[[pools]]\norg = "acme-two"\nname = "linux-4vcpu"\nlabels = ["linux-4vcpu"]\n'
    async with story(config=DRY_RUN + '[orgs.acme-two.remediation]\nmode = "off"\n' + pool) as it:
        assert (await it.house.installations.one(it.installation)).org == "acme"
        await renamed(it, "acme-two")
        known = await it.house.installations.one(it.installation)
        assert it.house.settings.of(known.org).remediation.mode == "off"


async def test_back_under_its_first_name_it_is_what_it_was(story):
    async with story() as it:
        before = await it.house.installations.one(it.installation)
        await renamed(it, "acme-two", "acme")
        known = await it.house.installations.one(it.installation)
        assert (known.org, known.called, known.account_id) == ("acme", "acme", before.account_id)
        lost = await lose_one(it, "acme")
        assert asked_of_the_controller(it) == [lost]


def installed_by_a_stranger(login):
    told = DeliveredInstallation(STRANGER, Account(login, 4_711), None, {"organization_self_hosted_runners": "write"})
    return Delivery("created", told)


@pytest.mark.parametrize("heard", [False, True], ids=["before we heard of the rename", "after it"])
async def test_who_takes_the_old_name_gets_neither_tables_nor_pools(story, heard):
    async with story(config=DRY_RUN) as it:
        if heard:
            await renamed(it, "acme-two")
        await installation_changed(it.house, installed_by_a_stranger("acme"))
        stranger = await it.house.installations.one(STRANGER)
        assert (stranger.org, stranger.called) == (f"acme.{STRANGER}", "acme")
        assert it.settings.pools_of(stranger.org) == ()
        assert (await it.house.installations.of("acme")).id == it.installation
        assert (await sweep_installation(it.house, it.installation)).org == "acme"


async def test_the_report_follows_its_repository(story):
    async with story(config='[orgs.acme.report]\nrepository = "acme/.github"\n') as it:
        await renamed(it, "acme-two")
        assert repository_for(it.house, await it.house.installations.one(it.installation)) == "acme-two/.github"


async def named_by_doctor(it):
    found = await examine(Settings.read(it.environ), it.environ)
    return [each for each in found if (each.group, each.name) == ("installations", "name")], found


@pytest.mark.parametrize("recorded", [False, True], ids=["GitHub alone knows", "we know"])
async def test_doctor_names_the_rename_and_what_to_write(story, recorded):
    async with story(config=DRY_RUN) as it:
        assert (await named_by_doctor(it))[0] == []
        it.sandbox.control.rename("acme", "acme-two")
        if recorded:
            await discover_installations(it.house)
        (name,), found = await named_by_doctor(it)
        assert (name.status, name.org) == ("warning", "acme")
        assert "GitHub calls it acme-two now" in name.said
        assert name.fix.startswith("name it acme-two in [orgs.acme]")
        assert not [each for each in found if (each.group, each.name) == ("installations", "pools")]
        assert not [each for each in found if (each.group, each.name) == ("installations", "installed")]


async def test_the_log_names_the_rename_and_what_to_write(story, capsys):
    async with story() as it:
        await renamed(it, "acme-two")
        said = capsys.readouterr().out
        assert said.count("the organization has another name") == 1
        assert "name it acme-two in [orgs.acme]" in said
