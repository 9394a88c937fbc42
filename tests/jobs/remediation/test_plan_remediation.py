"""A sweep plans unless a plan could change nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ghapp.health.remediation.fuse import Fuse, FuseReason, Position
from jobs.events.publish import CHANGE_PUBLISHED_SECONDS
from jobs.remediation import plan_remediation
from jobs.runners.sweep import sweep_installation
from tests.stories.conftest import POOL


@pytest.fixture
def planned(monkeypatch):
    """The organizations for which was planned."""
    orgs = []
    plan = plan_remediation.plan_remediation

    async def counted(context, installation):
        orgs.append(installation.org)
        return await plan(context, installation)

    monkeypatch.setattr(plan_remediation, "plan_remediation", counted)
    return orgs


async def swept(app):
    await app.pass_(60)
    await sweep_installation(app.context, app.installation)


async def test_a_sweep_of_a_fleet_at_rest_plans_nothing(story, planned):
    async with story() as app:
        for _ in range(3):
            await swept(app)
        assert planned == []


async def test_a_sweep_plans_from_a_loss_on(story, planned):
    async with story() as app:
        await swept(app)
        app.sandbox.control.lose("acme", count=1)
        for sweeps in range(1, 4):
            await swept(app)
            assert planned == ["acme"] * sweeps


@pytest.mark.parametrize(
    ("fuse", "plans"),
    [
        (Fuse(healed_at=-CHANGE_PUBLISHED_SECONDS - 60, reason=FuseReason.HEALED), []),
        (Fuse(healed_at=-CHANGE_PUBLISHED_SECONDS + 60, reason=FuseReason.HEALED), ["acme"]),
        (Fuse(Position.STOPPED, since=-CHANGE_PUBLISHED_SECONDS - 60, stopped_at=0), ["acme"]),
        (Fuse(Position.PROVING, since=-CHANGE_PUBLISHED_SECONDS - 60), ["acme"]),
    ],
    ids=["closed more than a day ago", "closed less than a day ago", "stopped", "proving"],
)
async def test_a_sweep_plans_while_a_fuse_is_not_closed_or_its_last_change_may_be_unpublished(
    story, planned, fuse, plans
):
    async with story() as app:
        now = app.clock() + 60
        times = {name: now + at for name in ("healed_at", "since") if (at := getattr(fuse, name)) is not None}
        await app.context.fuses.save(app.installation, POOL, None, replace(fuse, **times))
        await swept(app)
        assert planned == plans
