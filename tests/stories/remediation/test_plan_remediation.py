"""A sweep plans unless a plan could change nothing; a plan has each grant finished by its pool's present replacer."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from ghapp.remediation import plan as remediation_plan
from ghapp.remediation.fuse import Fuse, FuseReason, Position
from ghapp.remediation.steps import is_open
from ghapp.runners.delivery_lag import DeliveryArrivals, LateArrival
from ghapp.runners.evidence import Evidence
from ghapp.workflow_jobs.job import Job
from jobs.events.publish import CHANGE_PUBLISHED_SECONDS
from jobs.remediation import plan_remediation
from jobs.runners.sweep import sweep_installation
from tests.stories.conftest import POOL
from tests.support.policy import replace_pools


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
        (Fuse(closed_at=-CHANGE_PUBLISHED_SECONDS - 60, reason=FuseReason.HEALED), []),
        (Fuse(closed_at=-CHANGE_PUBLISHED_SECONDS + 60, reason=FuseReason.HEALED), ["acme"]),
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
        times = {name: now + at for name in ("closed_at", "since") if (at := getattr(fuse, name)) is not None}
        await app.context.fuses.save(app.installation, POOL, None, replace(fuse, **times))
        await swept(app)
        assert planned == plans


@pytest.fixture
def asked(monkeypatch):
    """The runners whose remediation a plan enqueued since the last look."""
    runners = []
    monkeypatch.setattr(plan_remediation, "enqueue_remediation", lambda _redis, _org, runner: runners.append(runner))
    return runners


CONTROLLER = {"replacer": "cloudevents"}
POLLED = {"replacer": "none", "url": None, "secret_env": None}
PODS = {"replacer": "pods", "namespace": "runners"}


def configure(app, pool, changes):
    """Gives the pool other settings; None: it is not configured."""
    replace_pools(app.context.settings, () if changes is None else (replace(pool, **changes),))


@pytest.mark.parametrize(
    ("then", "now", "asks"),
    [
        (POLLED, CONTROLLER, True),
        (POLLED, PODS, True),
        (POLLED, POLLED, False),
        (None, CONTROLLER, True),
        (CONTROLLER, CONTROLLER, False),
        (CONTROLLER, POLLED, False),
        (CONTROLLER, PODS, True),
    ],
    ids=[
        "from none to cloudevents",
        "from none to pods",
        "none, as before",
        "[[pools]] was added later",
        "cloudevents, as before",
        "from cloudevents to none",
        "from cloudevents to pods",
    ],
)
async def test_a_granted_loss_is_requested_by_the_replacer_that_its_pool_has_now(story, asked, then, now, asks):
    async with story(ephemeral=False) as app:
        app.sandbox.control.fail_controller(status=503)
        (pool,) = app.context.settings.pools
        configure(app, pool, then)
        for _ in range(2):
            await app.live_through_an_interval()
        (lost,) = app.sandbox.control.lose("acme", count=1)
        for _ in range(2):
            await app.live_through_an_interval()
        configure(app, pool, now)
        asked.clear()
        await swept(app)
        assert asked == ([lost] if asks else [])


@pytest.mark.parametrize(("replacer", "granted"), [(CONTROLLER, 1), (POLLED, 2)], ids=["a url that is down", "polled"])
async def test_while_a_url_is_down_no_more_is_granted_than_may_wait_and_all_once_it_is_back(
    story, monkeypatch, replacer, granted
):
    monkeypatch.setattr(remediation_plan, "MOST_OPEN", 1)
    async with story(ephemeral=False) as app:
        app.sandbox.control.fail_controller(status=503)
        (pool,) = app.context.settings.pools
        configure(app, pool, replacer)
        await app.live_through_an_interval()
        lost = app.sandbox.control.lose("acme", count=2)
        for _ in range(3):
            await app.live_through_an_interval()
        runners = await app.context.runners.all(app.installation)
        assert sum(is_open(each) for each in runners.values()) == granted
        app.sandbox.control.fail_controller(seconds=0)
        configure(app, pool, CONTROLLER)
        for _ in range(3):
            await app.live_through_an_interval()
        assert sorted(await app.replacements()) == sorted(lost)


async def test_a_fuse_that_closed_a_week_ago_is_kept_only_for_a_pool_with_runners(story):
    async with story() as app:
        await swept(app)
        closed = Fuse(closed_at=app.clock() - 8 * 86_400, reason=FuseReason.HEALED)
        for pool in (POOL, "renamed-since"):
            await app.context.fuses.save(app.installation, pool, None, closed)
        installation = await app.context.installations.one(app.installation)
        await plan_remediation.plan_remediation(app.context, installation)
        assert await app.context.fuses.all(app.installation) == {POOL: closed}


@pytest.mark.parametrize(
    ("late", "waiting", "written_off"),
    [
        ((), None, True),
        ((LateArrival(0.0, 60.0),), None, False),
        ((), {}, False),
        ((), {"labels": ()}, True),
        ((), {"waiting": True}, True),
    ],
    ids=["no job waits", "a minute late", "a job waits", "a job for a runner group waits", "a job needs an approval"],
)
async def test_a_loss_is_written_off_only_while_deliveries_would_show_a_waiting_job(story, late, waiting, written_off):
    async with story(ephemeral=False) as app:
        await swept(app)
        context, now = app.context, app.clock()
        (lost,) = app.sandbox.control.lose("acme", count=1)
        (worked, *_) = (each for each in await context.runners.all(app.installation) if each != lost)
        long_ago = now - 3600
        changes = {
            lost: {"absent_since": long_ago, "first_404_at": long_ago, "confirmed_at": long_ago + 30, "listed": False},
            worked: {"last_delivery_at": now},
        }
        await context.runners.revise(
            app.installation, {each: partial(Evidence._replace, **changed) for each, changed in changes.items()}
        )
        arrivals = DeliveryArrivals(last_at=now, late=tuple(each._replace(at=now) for each in late), punctual_at=now)
        await context.delivery_status.save_arrivals({app.installation: arrivals})
        if waiting is not None:
            queued = Job(7, "queued", (POOL,), "acme/api", now)
            await context.demand.record(app.installation, [queued._replace(**waiting)])
        stopped = Fuse(Position.STOPPED, long_ago, reason=FuseReason.BATCH_NEVER_ONLINE, stopped_at=long_ago)
        await context.fuses.save(app.installation, POOL, None, stopped)
        installation = await context.installations.one(app.installation)
        await plan_remediation.plan_remediation(context, installation)
        evidence = (await context.runners.some(app.installation, [lost]))[lost]
        assert (evidence.not_needed_at is not None) is written_off
