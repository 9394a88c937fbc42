"""A controller's claim holds a lost runner: before the plan, after the grant, and after the removal."""

from __future__ import annotations

from functools import partial

import pytest

from ghapp.health.plan import Deferral
from ghapp.health.seen import removed
from jobs.confirm import confirm_installation
from jobs.decide import decide
from jobs.remediate import remediate_runner
from jobs.sweep import sweep_installation


async def lost(it, count):
    """Runners of a known fleet whose registrations are gone, though nobody has looked yet: (id, name) each."""
    for _ in range(2):
        await it.live_through_an_interval()
    names = {each.id: each.name for each in (await it.house.runners.all(it.installation)).values()}
    return [(runner_id, names[runner_id]) for runner_id in it.sandbox.control.lose("acme", count=count)]


async def granted(it):
    """A runner that is confirmed to be lost and that the plan granted, before anybody acted on it."""
    ((runner_id, name),) = await lost(it, 1)
    await it.pass_(60)
    await sweep_installation(it.house, it.installation)
    await it.pass_(30)
    await confirm_installation(it.house, it.installation)
    assert (await evidence_of(it, runner_id)).granted_at is not None
    return runner_id, name


async def evidence_of(it, runner_id):
    return (await it.house.runners.some(it.installation, [runner_id]))[runner_id]


async def claimed(it, pod, runner_name, seconds):
    await it.house.pod_claims.claim(it.installation, pod, runner_name, None, it.clock() + seconds)


@pytest.mark.parametrize("by_pod", [True, False], ids=["by pod", "by runner"])
async def test_a_claimed_runner_is_not_planned_while_others_are_replaced(story, by_pod):
    async with story() as it:
        (held, name), (other, _) = await lost(it, 2)
        await claimed(it, *((name, "another") if by_pod else ("another", name)), seconds=3600)
        await it.live_through_an_interval()
        assert await it.replacements() == [other]
        evidence = await evidence_of(it, held)
        assert (evidence.confirmed_at is not None, evidence.granted_at, evidence.removed_at) == (True, None, None)
        plan = await decide(it.house, await it.house.installations.one(it.installation))
        assert (plan.now, plan.deferred) == ((), {held: Deferral.CLAIMED})


@pytest.mark.parametrize("how", ["given back", "run out"])
async def test_when_the_claim_is_over_it_is_replaced(story, how):
    async with story() as it:
        ((held, name),) = await lost(it, 1)
        await claimed(it, name, name, seconds=3600 if how == "given back" else 100)
        await it.live_through_an_interval()
        assert await it.replacements() == []
        if how == "given back":
            await it.house.pod_claims.give_back(it.installation, name)
        await it.live_through_an_interval()
        assert await it.replacements() == [held]


async def test_claimed_after_the_grant_it_gives_the_grant_back_and_is_planned_anew_when_the_claim_is_over(story):
    async with story() as it:
        runner_id, name = await granted(it)
        await claimed(it, "its-pod", name, seconds=60)
        it.clock.pass_(59)
        assert await remediate_runner(it.house, it.installation, runner_id) == "held"
        evidence = await evidence_of(it, runner_id)
        assert (evidence.granted_at, evidence.removed_at) == (None, None)
        assert await it.replacements() == []
        it.clock.pass_(1)
        await it.live_through_an_interval()
        assert await it.replacements() == [runner_id]


async def test_claimed_after_the_removal_it_is_replaced_when_the_claim_is_over(story):
    async with story() as it:
        runner_id, name = await granted(it)
        await it.house.runners.revise(it.installation, {runner_id: partial(removed, at=it.clock())})
        await claimed(it, name, name, seconds=3600)
        assert await remediate_runner(it.house, it.installation, runner_id) == "held"
        await it.house.pod_claims.give_back(it.installation, name)
        assert await remediate_runner(it.house, it.installation, runner_id) == "replaced"


async def test_a_claim_of_another_installation_holds_nobody_here(story):
    async with story() as it:
        runner_id, name = await granted(it)
        await it.house.pod_claims.claim(it.installation + 1, name, name, None, it.clock() + 3600)
        assert await remediate_runner(it.house, it.installation, runner_id) == "replaced"
