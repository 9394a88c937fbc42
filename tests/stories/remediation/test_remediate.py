"""A pod claim defers the replacement of a lost runner: before the plan, after the grant, and after the removal."""

from __future__ import annotations

from functools import partial

import pytest

from ghapp.remediation.plan import Deferral
from ghapp.runners.observations import removed
from jobs.remediation.plan_remediation import plan_remediation
from jobs.remediation.remediate import remediate_runner
from jobs.runners.confirm import confirm_installation
from jobs.runners.sweep import sweep_installation


async def lost(app, count):
    """Runners of a known fleet whose registrations are deleted, before any sweep: (id, name) each."""
    for _ in range(2):
        await app.live_through_an_interval()
    names = {each.id: each.name for each in (await app.context.runners.all(app.installation)).values()}
    return [(runner_id, names[runner_id]) for runner_id in app.sandbox.control.lose("acme", count=count)]


async def granted(app):
    """A confirmed lost runner whose replacement was granted and has not started."""
    ((runner_id, name),) = await lost(app, 1)
    await app.pass_(60)
    await sweep_installation(app.context, app.installation)
    await app.pass_(30)
    await confirm_installation(app.context, app.installation)
    assert (await evidence_of(app, runner_id)).granted_at is not None
    return runner_id, name


async def evidence_of(app, runner_id):
    return (await app.context.runners.some(app.installation, [runner_id]))[runner_id]


async def claimed(app, pod, runner_name, seconds):
    await app.context.pod_claims.claim(app.installation, pod, runner_name, None, app.clock() + seconds)


@pytest.mark.parametrize("by_pod", [True, False], ids=["by pod", "by runner"])
async def test_a_claimed_runner_is_not_planned_while_others_are_replaced(story, by_pod):
    async with story() as app:
        (held, name), (other, _) = await lost(app, 2)
        await claimed(app, *((name, "another") if by_pod else ("another", name)), seconds=3600)
        await app.live_through_an_interval()
        assert await app.replacements() == [other]
        evidence = await evidence_of(app, held)
        assert (evidence.confirmed_at is not None, evidence.granted_at, evidence.removed_at) == (True, None, None)
        plan = await plan_remediation(app.context, await app.context.installations.one(app.installation))
        assert (plan.chosen, plan.deferred) == ((), {held: Deferral.CLAIMED})


@pytest.mark.parametrize("how", ["given back", "run out"])
async def test_a_claimed_runner_is_replaced_after_the_end_of_the_claim(story, how):
    async with story() as app:
        ((held, name),) = await lost(app, 1)
        await claimed(app, name, name, seconds=3600 if how == "given back" else 100)
        await app.live_through_an_interval()
        assert await app.replacements() == []
        if how == "given back":
            await app.context.pod_claims.release(app.installation, name)
        await app.live_through_an_interval()
        assert await app.replacements() == [held]


async def test_a_claim_after_the_grant_returns_the_grant_until_the_claim_ends(story):
    async with story() as app:
        runner_id, name = await granted(app)
        await claimed(app, "its-pod", name, seconds=60)
        app.clock.pass_(59)
        assert await remediate_runner(app.context, app.installation, runner_id) == "held"
        evidence = await evidence_of(app, runner_id)
        assert (evidence.granted_at, evidence.removed_at) == (None, None)
        assert await app.replacements() == []
        app.clock.pass_(1)
        await app.live_through_an_interval()
        assert await app.replacements() == [runner_id]


async def test_a_runner_claimed_after_its_removal_is_replaced_after_the_claim(story):
    async with story() as app:
        runner_id, name = await granted(app)
        await app.context.runners.revise(app.installation, {runner_id: partial(removed, at=app.clock())})
        await claimed(app, name, name, seconds=3600)
        assert await remediate_runner(app.context, app.installation, runner_id) == "held"
        await app.context.pod_claims.release(app.installation, name)
        assert await remediate_runner(app.context, app.installation, runner_id) == "replaced"


async def test_a_claim_of_another_installation_protects_no_runner_here(story):
    async with story() as app:
        runner_id, name = await granted(app)
        await app.context.pod_claims.claim(app.installation + 1, name, name, None, app.clock() + 3600)
        assert await remediate_runner(app.context, app.installation, runner_id) == "replaced"
