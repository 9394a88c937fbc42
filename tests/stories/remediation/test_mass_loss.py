"""A true mass loss heals unattended, whatever GitHub answers in its midst; a false one costs one first batch at most."""

from __future__ import annotations

import pytest

from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.remediation.fuse import FuseReason, Position
from ghapp.remediation.pause import Pause
from ghapp.runners.observations import replaced
from ghapp.runners.verdict import State
from ghapp.sandbox.config import PoolConfig
from ghapp.store import keys
from jobs.remediation.plan_remediation import plan_remediation
from tests.stories.conftest import POOL

LONG = 60
FIRST_BATCH = 3


async def fuse(app, pool=POOL):
    return (await app.context.fuses.all(app.installation)).get(pool)


async def heals(app, count):
    """Live until all of them were asked for; never does the fuse stop."""
    for _ in range(LONG):
        await app.live_through_an_interval()
        assert await app.sent_events("fuse.stopped") == []
        if len(await app.replacements()) >= count:
            return
    raise AssertionError(await app.replacements())


def nothing_wronged(app):
    account = app.account()
    return account["wrongful_removals"] == account["wrongful_replacements"] == []


def weather(app):
    """Ways in which GitHub gives no answer, each for a minute."""
    control = app.sandbox.control
    return {
        "403 secondary limit": lambda: control.secondary_limit("acme", retry_after=60),
        "429 with retry-after": lambda: control.secondary_limit("acme", status=429, retry_after=60),
        "502": lambda: control.fault("acme", status=502, seconds=60),
        "403": lambda: control.withhold_permission("acme", seconds=60),
        "empty lists": lambda: control.empty_list("acme", seconds=60),
    }


@pytest.mark.parametrize("answer", ["403 secondary limit", "429 with retry-after", "502", "403", "empty lists"])
async def test_a_true_mass_loss_heals_though_github_gives_no_answer_in_its_midst(story, answer):
    async with story(runners=24) as app:
        await app.settle()
        app.sandbox.control.lose("acme", count=22)
        await app.live_through_an_interval()
        assert len(await app.replacements()) == FIRST_BATCH
        for _ in range(5):  # longer than `prove_seconds`
            weather(app)[answer]()
            await app.live_through_an_interval()
        app.sandbox.control.no_faults()
        await heals(app, 22)
        assert nothing_wronged(app)
        assert app.account()["replacements"]["doubled"] == {}


async def test_when_every_single_runner_is_lost_the_first_batch_goes_out_within_the_interval_and_the_confirmation(
    story,
):
    async with story(runners=40) as app:
        await app.settle()
        lost_at = app.clock()
        app.sandbox.control.lose("acme", count=40)
        await app.live_through_an_interval()
        assert len(await app.replacements()) == FIRST_BATCH
        assert app.clock() - lost_at <= 60 + 30 + 60
        await heals(app, 40)
        assert nothing_wronged(app)


async def test_of_ten_thousand_and_one_the_first_batch_goes_out_in_time_within_github_s_points(story):
    async with story(runners=10_001) as app:
        await app.settle()
        app.sandbox.control.lose("acme", count=10_001)
        await app.live_through_an_interval()
        assert len(await app.replacements()) == FIRST_BATCH
        assert app.account()["pressure"]["acme"]["most_points_a_minute"] <= 900
        assert nothing_wronged(app)


async def test_a_list_that_is_empty_without_a_loss_removes_no_runner(story):
    async with story(runners=40) as app:
        await app.settle()
        app.sandbox.control.empty_list("acme")
        for _ in range(20):
            await app.live_through_an_interval()
        assert await app.replacements() == []
        survey = await app.context.runners.survey(app.installation)
        assert survey.failure == "ListEmpty"
        app.sandbox.control.no_faults()
        await app.live_through_an_interval()
        assert (await app.states())[State.HEALTHY] == 40


async def test_while_the_token_is_new_no_runner_is_queried_for_nothing(story):
    async with story(runners=60) as app:
        await app.settle()
        app.sandbox.control.doubt_new_tokens("acme")
        await app.context.redis.delete(keys.credential(app.installation))  # the next call mints a token
        app.sandbox.control.reset_account()
        app.sandbox.control.lose("acme", count=50)
        await app.live_through_an_interval()
        assert len(await app.replacements()) == FIRST_BATCH
        gets = app.account()["calls"]["GET /orgs/{org}/actions/runners/{runner_id}"]["total"]
        assert gets == 50 + 50 + FIRST_BATCH, "each suspect twice, and a last look at those that are acted on"
        await heals(app, 50)


async def test_a_fleet_that_breathes_heals(story):
    """Jobs come and go all the time, and with them their runners."""
    async with story(runners=60, quiet=False) as app:
        app.listen()
        await app.settle()
        idle = [each.id for each in app.sandbox.world.orgs["acme"].fleet.roster.registered.values() if each.job is None]
        lost = app.sandbox.control.lose("acme", ids=idle[:30])
        for _ in range(LONG):
            await app.pass_(0)
            await app.receive_all()
            await app.live_through_an_interval()
            assert await app.sent_events("fuse.stopped") == []
            if {*lost} <= {*await app.replacements()}:
                break
        assert {*lost} <= {*await app.replacements()}
        assert nothing_wronged(app)


SMALL_POOLS = [PoolConfig(name=f"small-{number}", size=10) for number in range(30)]
CONFIGURED = "".join(
    f'[[pools]]\norg = "acme"\nname = "{each.name}"\nlabels = ["{each.name}"]\nreplacer = "none"\n'
    for each in SMALL_POOLS
)


async def accept_all(app):
    """Controllers that pull say that they acted."""
    asked = await app.replacements()
    await app.context.runners.revise(app.installation, {each: accepted(app.clock()) for each in asked})


def accepted(at):
    return lambda evidence: evidence if evidence.granted_at is None else replaced(evidence, at)


async def test_a_false_mass_loss_that_is_spread_over_small_pools_costs_one_first_batch(story):
    """Two of ten in each of thirty pools: no pool's own fuse trips."""
    async with story(runners=0, others=SMALL_POOLS, config=CONFIGURED) as app:
        await app.settle()
        pools = app.sandbox.world.orgs["acme"].fleet.roster.registered.values()
        hidden = [
            [each.id for each in pools if each.pool == f"small-{number}"][:2] for number in range(len(SMALL_POOLS))
        ]
        app.sandbox.control.unlist("acme", ids=[each for two in hidden for each in two], everywhere=True)
        for _ in range(6):
            await app.live_through_an_interval()
            await accept_all(app)
        whole = await fuse(app, ALL_POOLS)
        assert whole.tripped_for is FuseReason.MASS_LOSS
        asked = len(await app.replacements())
        assert asked <= FIRST_BATCH
        app.sandbox.control.no_faults()
        for _ in range(4):
            await app.live_through_an_interval()
        assert len(await app.replacements()) == asked
        assert len(app.account()["wrongful_removals"]) <= FIRST_BATCH


async def test_answers_that_flap_for_a_quarter_of_an_hour_cost_one_first_batch(story):
    async with story(runners=50) as app:
        await app.settle()
        registered = [*app.sandbox.world.orgs["acme"].fleet.roster.registered]
        for minute in range(10):
            app.sandbox.control.no_faults()
            hidden = registered[minute % 7 :: 2] if minute % 5 else []
            app.sandbox.control.unlist("acme", ids=hidden, everywhere=True)
            await app.live_through_an_interval()
        assert len(await app.replacements()) <= FIRST_BATCH


async def test_what_came_back_before_its_url_took_the_request_is_not_replaced(story):
    async with story(runners=50) as app:
        await app.settle()
        app.sandbox.control.fail_controller()
        lost = app.sandbox.control.lose("acme", count=40)
        await app.live_through_an_interval()
        assert len(await app.replacements()) == FIRST_BATCH
        app.sandbox.control.restore("acme", ids=lost)
        for _ in range(6):  # lists may lag behind a removal for five minutes
            await app.live_through_an_interval()
        app.sandbox.control.fail_controller(seconds=0)
        await app.live_through_an_interval()
        assert [each["type"] for each in app.sandbox.control.controller_events() if "replace" in each["type"]] == []
        assert nothing_wronged(app)


# A scale-down by an operator, without notice.


async def test_a_scale_down_of_idle_runners_leaves_no_pool_waiting_for_a_person(story):
    async with story(runners=50, config="[fuse]\nwindow_seconds = 300") as app:
        await app.settle()
        app.sandbox.control.barren_controller(barren=True)  # it wants ten, and makes no more for our asking
        app.listen()
        app.sandbox.control.queue("acme", labels=[POOL])
        await app.receive(2)  # deliveries reach us: a job that waits would be known
        app.sandbox.control.lose("acme", count=40)
        for _ in range(20):
            await app.live_through_an_interval()
        assert len(await app.replacements()) == FIRST_BATCH
        assert ((await fuse(app)).position, (await fuse(app)).reason) == (Position.CLOSED, FuseReason.NOT_NEEDED)
        assert (await app.states())[State.INVALIDATED] == FIRST_BATCH, (
            "which were asked for; the others are written off"
        )
        (lost,) = app.sandbox.control.lose("acme", count=1)
        await app.live_through_an_interval()
        assert lost in await app.replacements(), "a later real loss does not wait behind it"


# Nothing that was granted is forgotten.


@pytest.mark.parametrize("held_by", ["pause", "controller"])
async def test_what_was_granted_and_not_replaced_stays_on_record_for_days(story, held_by):
    async with story(runners=20) as app:
        await app.settle()
        (lost,) = app.sandbox.control.lose("acme", count=1)
        await app.pass_(60)
        if held_by == "controller":
            app.sandbox.control.fail_controller()
        await app.live_through_an_interval()
        if held_by == "pause":
            await app.context.runners.revise(app.installation, {lost: lambda known: known._replace(replaced_at=None)})
            await app.context.fuses.pause(app.installation, POOL, Pause("mona", "a move", app.clock()))
        for _ in range(5):
            await app.pass_(86_400)
            await app.live_through_an_interval()
        assert (await app.context.runners.some(app.installation, [lost]))[lost].granted_at is not None
        app.sandbox.control.fail_controller(seconds=0)
        await app.context.fuses.unpause(app.installation, POOL)
        await app.live_through_an_interval()
        assert [event["data"]["runner_id"] for event in app.sandbox.control.controller_events()] == [lost]


async def test_confirmations_together_let_no_more_than_per_sweep_through(story):
    async with story(runners=200, config="[remediation]\nper_sweep = 5\n[fuse]\nfloor = 1000") as app:
        await app.settle()
        app.sandbox.control.lose("acme", count=12)
        await app.live_through_an_interval()
        first = len(await app.replacements())
        for _ in range(3):  # confirmations ask for a plan each, and so does every other caller
            await plan_remediation(app.context, await app.context.installations.one(app.installation))
        await app.work_off()
        assert (first, len(await app.replacements())) == (5, 5)
        await app.live_through_an_interval()
        await app.live_through_an_interval()
        assert len(await app.replacements()) == 12
