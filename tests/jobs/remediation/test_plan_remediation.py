"""A sweep plans unless a plan could change nothing."""

from __future__ import annotations

import pytest

from ghapp.health.leaks.orphan import Orphan
from ghapp.health.remediation.fuse import Fuse
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


async def test_a_sweep_plans_where_a_fuse_was_recorded(story, planned):
    async with story() as app:
        await app.context.fuses.save(app.installation, POOL, None, Fuse(healed_at=app.clock()))
        await swept(app)
        assert planned == ["acme"]


@pytest.mark.parametrize(("age", "plans"), [(539.0, ["acme"]), (541.0, [])], ids=["within the window", "before it"])
async def test_a_sweep_plans_where_a_pod_was_reaped_within_the_fuses_window(story, planned, age, plans):
    async with story() as app:
        orphan = Orphan("runners", "linux-1", "uid-1", "linux-1", POOL, "node-1", app.clock(), app.clock())
        await app.context.leaks.reaped(app.installation, orphan, app.clock() - age)
        await swept(app)
        assert planned == plans
