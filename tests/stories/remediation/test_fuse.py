"""Too many lost at once: what is true heals by itself, what is false costs a first batch, and people are asked."""

from __future__ import annotations

import itertools

import pytest

from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.remediation.fuse import FuseReason, Position
from ghapp.remediation.pause import Pause
from ghapp.report.documents import timestamp
from ghapp.runners.verdict import State
from tests.stories.conftest import POOL

LONG = 40
"""Intervals in which a pool of two hundred heals comfortably."""


async def fuse(app):
    return (await app.context.fuses.all(app.installation)).get(POOL)


async def position(app):
    known = await fuse(app)
    return Position.CLOSED if known is None else known.position


async def heals(app):
    """Live until the fuse closes again; how many replacements were asked for by the end of each interval."""
    asked = []
    for _ in range(LONG):
        await app.live_through_an_interval()
        asked.append(len(await app.replacements()))
        if asked[-1] and await position(app) is Position.CLOSED:
            return asked
    raise AssertionError(asked)


async def test_a_true_mass_loss_heals_by_itself_in_doubling_batches(story):
    async with story(runners=200) as app:
        await app.settle()
        app.sandbox.control.lose("acme", count=200)
        asked = await heals(app)
        batches = sorted({0, *asked})
        sizes = [after - before for before, after in itertools.pairwise(batches)]
        assert sizes == [3, 6, 12, 24, 48, 96, 11]
        assert (await fuse(app)).reason is FuseReason.HEALED
        for _ in range(4):  # the replacements take up their work
            await app.live_through_an_interval()
        assert (await app.states())[State.HEALTHY] == 200
        account = app.account()
        assert account["wrongful_removals"] == account["wrongful_replacements"] == []
        assert [data["fuse"] for data in await app.sent_events("fuse.tripped")] == ["proving"]
        assert len(await app.sent_events("fuse.reset")) == 1


async def test_no_batch_starts_before_the_last_is_online(story):
    async with story(runners=60) as app:
        await app.settle()
        app.sandbox.control.lose("acme", count=60)
        for _ in range(LONG):
            asked_before = len(await app.replacements())
            await app.live_through_an_interval()
            asked = len(await app.replacements())
            if asked > asked_before > 0:
                assert await newcomers(app) >= asked_before
            if asked and await position(app) is Position.CLOSED:
                return
        raise AssertionError(asked)


async def newcomers(app):
    """How many runners came online since the fuse tripped."""
    since = (await fuse(app)).since or 0.0
    known = (await app.context.runners.all(app.installation)).values()
    return sum(each.was_online and each.first_seen > since for each in known)


async def stopped(app):
    """Forty of fifty are lost, and no replacement ever comes online."""
    await app.settle()
    app.sandbox.control.barren_controller(barren=True)
    app.sandbox.control.lose("acme", count=40)
    for _ in range(10):
        await app.live_through_an_interval()
    assert await position(app) is Position.STOPPED


async def test_replacements_that_never_come_online_stop_it_after_the_first_batch_and_it_says_so(story):
    async with story(runners=50) as app:
        await stopped(app)
        assert len(await app.replacements()) == 3
        (reported,) = await app.sent_events("fuse.stopped")
        assert (reported["pool"], reported["reason"], reported["replaced"], reported["waiting"]) == (
            POOL,
            "BatchNeverOnline",
            3,
            37,
        )
        for _ in range(3):
            await app.live_through_an_interval()
        assert len(await app.replacements()) == 3, "until a person resumes it"


async def test_an_admin_resumes_it_and_it_proves_again_from_the_first_batch(story):
    async with story(runners=50) as app:
        await stopped(app)
        app.sandbox.control.barren_controller(barren=False)
        acme = await app.context.installations.one(app.installation)
        limits = app.settings.of("acme").fuse
        await app.context.fuses.resume(acme, POOL, "mona", app.clock(), limits)
        assert ((await fuse(app)).position, (await fuse(app)).by) == (Position.PROVING, "mona")
        asked = await heals(app)
        assert asked[0] == 6, "three, and three more"
        assert asked[-1] == 40


async def test_registrations_that_come_back_while_it_proves_put_it_out_and_nothing_more_is_replaced(story):
    async with story(runners=50) as app:
        await app.settle()
        lost = app.sandbox.control.lose("acme", count=40)
        await app.live_through_an_interval()
        asked = await app.replacements()
        assert len(asked) == 3
        app.sandbox.control.restore("acme", ids=[each for each in lost if each not in asked])
        await app.live_through_an_interval()
        assert (await fuse(app)).reason is FuseReason.REGISTRATIONS_RETURNED
        for _ in range(3):
            await app.live_through_an_interval()
        assert await app.replacements() == asked
        assert (await app.states())[State.HEALTHY] >= 47


async def test_a_fuse_that_trips_again_is_published_again_and_grants_no_other_first_batch(story):
    async with story(runners=50) as app:
        await app.settle()
        lost = app.sandbox.control.lose("acme", count=40)
        await app.live_through_an_interval()
        asked = await app.replacements()
        app.sandbox.control.restore("acme", ids=[each for each in lost if each not in asked])
        await app.live_through_an_interval()
        assert await position(app) is Position.CLOSED
        app.sandbox.control.lose("acme", count=40)
        await app.live_through_an_interval()
        first, second = await app.sent_events("fuse.tripped")
        assert first["since"] < second["since"] == timestamp((await fuse(app)).since)
        assert await app.replacements() == asked


@pytest.mark.parametrize(("waited", "proves"), [(1, True), (6, False)], ids=["on watch", "after cooldown_seconds"])
async def test_after_it_heals_it_stays_on_watch(story, waited, proves):
    async with story(runners=40, config="[fuse]\nwindow_seconds = 100") as app:
        await app.settle()
        app.sandbox.control.lose("acme", count=12)
        await heals(app)
        for _ in range(waited):
            await app.live_through_an_interval()
        turned = len(await app.sent_events("fuse.tripped"))
        app.sandbox.control.lose("acme", count=1)
        await app.live_through_an_interval()
        tripped = (await app.sent_events("fuse.tripped"))[turned:]
        assert [data["reason"] for data in tripped] == (["LossOnWatch"] if proves else [])


@pytest.mark.parametrize("size", [1, 2])
async def test_a_pool_of_one_or_two_is_replaced_at_once(story, size):
    async with story(runners=size) as app:
        await app.settle()
        app.sandbox.control.lose("acme", count=size)
        await app.live_through_an_interval()
        await app.live_through_an_interval()
        assert len(await app.replacements()) == size
        assert await app.sent_events("fuse.tripped") == []


async def test_a_burst_of_new_runners_does_not_trip_it(story):
    async with story(runners=10) as app:
        await app.settle()
        app.sandbox.control.register("acme", pool=POOL, count=100)
        for _ in range(3):
            await app.live_through_an_interval()
        assert await app.sent_events("fuse.tripped") == await app.replacements() == []


@pytest.mark.parametrize("pool", [POOL, ALL_POOLS], ids=["of the pool", "of the org"])
async def test_a_pause_wins_over_everything(story, pool):
    async with story(runners=40) as app:
        await app.settle()
        await app.context.fuses.pause(app.installation, pool, Pause("mona", "a move", app.clock()))
        app.sandbox.control.lose("acme", count=2)
        for _ in range(3):
            await app.live_through_an_interval()
        assert await app.replacements() == []
        app.sandbox.control.lose("acme", count=30)
        for _ in range(3):
            await app.live_through_an_interval()
        assert await app.replacements() == []
        await app.context.fuses.unpause(app.installation, pool)
        await app.live_through_an_interval()
        assert len(await app.replacements()) > 0


DRY_RUN = '[remediation]\nmode = "dry-run"\n[fuse]\nwindow_seconds = 360\n'


async def would_replace(app):
    """How many would have been replaced, by the count that people see."""
    counted = await app.context.counters.all()
    return int(counted.get('ghapp_remediations_total{org="acme",outcome="dry-run"}', 0))


async def test_in_dry_run_a_mass_loss_says_what_its_first_batch_would_be_and_the_fuse_goes_out_when_it_is_past(story):
    async with story(runners=40, config=DRY_RUN) as app:
        await app.settle()
        app.sandbox.control.lose("acme", count=30)
        await app.live_through_an_interval()
        await app.live_through_an_interval()
        assert (await position(app), await would_replace(app)) == (Position.PROVING, 3), "as if it acted"
        for _ in range(4):
            await app.live_through_an_interval()
        assert (await position(app), (await fuse(app)).reason) == (Position.CLOSED, FuseReason.UNPROVEN)
        for _ in range(4):
            await app.live_through_an_interval()
        assert await position(app) is Position.CLOSED, "and it does not trip again for the same"
        (lost,) = app.sandbox.control.lose("acme", count=1)
        await app.live_through_an_interval()
        evidence = (await app.context.runners.some(app.installation, [lost]))[lost]
        assert evidence.would_remediate_at is not None, "one more is logged like any other"
        assert [len(await app.sent_events(f"fuse.{turn}")) for turn in ("tripped", "reset", "stopped")] == [1, 1, 0]
        assert await app.replacements() == []


async def test_in_dry_run_registrations_that_come_back_put_it_out_at_once(story):
    async with story(runners=40, config=DRY_RUN) as app:
        await app.settle()
        lost = app.sandbox.control.lose("acme", count=30)
        await app.live_through_an_interval()
        assert await position(app) is Position.PROVING
        app.sandbox.control.restore("acme", ids=lost)
        await app.live_through_an_interval()
        assert (await position(app), (await fuse(app)).reason) == (Position.CLOSED, FuseReason.REGISTRATIONS_RETURNED)
        assert (await app.states())[State.HEALTHY] == 40


async def test_what_a_dry_run_left_waiting_goes_through_proving_when_acting_begins(story):
    async with story(runners=40, config=DRY_RUN) as app:
        await app.settle()
        app.sandbox.control.barren_controller(barren=True)
        app.sandbox.control.lose("acme", count=30)
        for _ in range(7):
            await app.live_through_an_interval()
        assert (await fuse(app)).reason is FuseReason.UNPROVEN
        object.__setattr__(app.settings.policy.remediation, "mode", "act")
        for _ in range(6):
            await app.live_through_an_interval()
        assert len(await app.replacements()) == 3, "no newcomer proves yet that replacing helps"
        assert await position(app) is Position.STOPPED


async def test_in_dry_run_those_whose_turn_it_was_leave_their_place_to_the_next(story):
    async with story(runners=40, config='[remediation]\nmode = "dry-run"\nper_sweep = 2\n[fuse]\nfloor = 9') as app:
        await app.settle()
        app.sandbox.control.lose("acme", count=6)
        for _ in range(3):
            await app.live_through_an_interval()
        assert await would_replace(app) == 6
