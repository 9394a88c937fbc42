"""A permission that was missing and is granted again: sweeps see it at once, by a token that has it."""

from __future__ import annotations

import pytest

from ghapp.github.deliveries import DeliveredInstallation, Delivery, InstalledAccount
from ghapp.github.installation_client import RENEWAL_SECONDS
from jobs.installations.discover import discover_installations, installation_changed
from jobs.runners.sweep import sweep_installation

HELD = {"organization_self_hosted_runners": "write", "checks": "write", "actions": "read", "metadata": "read"}


async def flaw(app):
    return (await sweep_installation(app.context, app.installation)).flaw


def minted(app):
    """How many tokens were minted."""
    return app.account()["calls"]["POST /app/installations/{installation_id}/access_tokens"]["total"]


async def with_a_token_minted_without_the_permission(app):
    """The token's permissions are those of its minting, a missing one among them."""
    app.sandbox.control.withhold_permission("acme")
    assert await flaw(app) == "PermissionMissing"
    app.sandbox.control.no_faults()


async def test_a_sweep_renews_a_token_that_lacks_a_permission_and_is_complete(story):
    async with story() as app:
        await with_a_token_minted_without_the_permission(app)
        await app.pass_(RENEWAL_SECONDS)
        assert await flaw(app) == ""


async def test_a_token_is_renewed_at_most_once_a_minute(story):
    async with story() as app:
        app.sandbox.control.withhold_permission("acme")
        assert await flaw(app) == "PermissionMissing"
        before = minted(app)
        for _ in range(4):
            await app.pass_(RENEWAL_SECONDS / 4 - 0.01)
            assert await flaw(app) == "PermissionMissing"
        assert minted(app) == before
        await app.pass_(0.04)
        for _ in range(3):
            assert await flaw(app) == "PermissionMissing"
        assert minted(app) == before + 1


@pytest.mark.parametrize("way", ["delivery", "discovery"])
async def test_the_sweep_after_the_news_of_it_is_complete_however_young_the_token_is(story, way):
    async with story() as app:
        app.sandbox.control.withhold_permission("acme")
        assert await flaw(app) == "PermissionMissing"
        await discover_installations(app.context)
        app.sandbox.control.no_faults()
        await app.pass_(1)
        if way == "discovery":
            await discover_installations(app.context)
        else:
            known = await app.context.installations.one(app.installation)
            reported = DeliveredInstallation(
                app.installation, InstalledAccount("acme", known.account_id), permissions=HELD
            )
            await installation_changed(app.context, Delivery(action="new_permissions_accepted", installation=reported))
        assert await app.context.schedule.next(app.installation) == app.clock()
        assert await flaw(app) == ""
