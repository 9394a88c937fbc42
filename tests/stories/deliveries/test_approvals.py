"""Jobs that wait for a person's approval, by their deliveries in any order."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import permutations

import pytest

from ghapp.loading.views import load_fleet, load_job_queue
from ghapp.report.fleet import by_pool
from ghapp.report.headlines import headlines
from ghapp.workflow_jobs.demand import demand
from ghapp.workflow_jobs.job import Job, known_status
from ghapp.workflow_jobs.store import DeliveredStatus, Demand
from jobs.deliveries.inbox import _with_approval
from jobs.runners.sweep import sweep_installation
from tests.stories.conftest import POOL

NOW, DAY = 1_790_000_000.0, 86_400.0
QUEUED, WAITING, APPROVED, STARTED = (
    ("queued", NOW),
    ("waiting", NOW + 0.5),
    ("queued", NOW + DAY),
    ("in_progress", None),
)
"""The deliveries of a job that a person approves after a day: status, and when GitHub sent it."""


async def deliver(store, status, sent_at, now):
    approvals = await store.approvals(7, [DeliveredStatus(42, status, False, sent_at)], now)
    known = known_status(status)
    job = Job(42, known.status, ("gpu",), "acme/api", NOW, waiting=known.waiting, sent_at=sent_at)
    await store.record(7, [_with_approval(job, approvals)])


ORDERS = [
    order
    for several in ((QUEUED,), (WAITING,), (QUEUED, WAITING), (WAITING, APPROVED), (QUEUED, WAITING, APPROVED))
    for order in permutations(several)
]


@pytest.mark.parametrize("times", [1, 2], ids=["once", "each twice"])
@pytest.mark.parametrize("order", ORDERS, ids=lambda order: " ".join(status for status, _ in order))
async def test_a_job_waits_for_an_approval_if_that_was_sent_last(redis, order, times):
    store = Demand(redis)
    deliveries = [each for each in order for _ in range(times)] * times
    for number, (status, sent_at) in enumerate(deliveries):
        await deliver(store, status, sent_at, NOW + DAY + number)
    (job,) = await store.all(7)
    assert (job.status, job.waiting) == ("queued", WAITING in order and APPROVED not in order)
    await deliver(store, *STARTED, NOW + 2 * DAY)
    for status, sent_at in order:
        await deliver(store, status, sent_at, NOW + 2 * DAY + 1)
    assert [each.status for each in await store.all(7)] == ["running"]


@pytest.mark.parametrize("first", [(QUEUED, WAITING), (WAITING, QUEUED), (WAITING, QUEUED, WAITING)], ids=len)
async def test_the_wait_for_a_runner_begins_with_the_approval_and_not_with_a_late_first_delivery(redis, first):
    store = Demand(redis)
    for status, sent_at in first:
        await deliver(store, status, sent_at, NOW + 2)
    await deliver(store, *APPROVED, NOW + DAY + 1)
    assert [each.queued_at for each in await store.all(7)] == [NOW + DAY + 1]


@pytest.mark.parametrize("first", [None, NOW], ids=["no date", "a date"])
@pytest.mark.parametrize("second", [None, NOW + 1], ids=["no date", "a date"])
async def test_without_both_dates_a_job_that_was_queued_stays_demand(redis, first, second):
    store = Demand(redis)
    await deliver(store, "queued", first, NOW)
    await deliver(store, "waiting", second, NOW + 1)
    assert [each.waiting for each in await store.all(7)] == [first is not None and second is not None]


async def send(app, status):
    """GitHub sends that a job of labels that no runner has, for an environment, is in this status."""
    body = {"id": 42, "run_id": 9, "status": status, "labels": ["gpu", POOL]}
    body["created_at"] = datetime.fromtimestamp(app.sandbox.world.now(), UTC).isoformat()
    payload = {
        "action": status,
        "workflow_job": body,
        "deployment": {"id": 7},
        "repository": {"id": 1, "name": "api", "full_name": "acme/api", "private": True},
        "installation": {"id": app.installation},
    }
    app.sandbox.control.deliver("acme", event="workflow_job", payload=payload)


async def shown(app):
    """Returns the jobs that wait, those that no pool serves, and whether a headline is about them."""
    installation = await app.context.installations.one(app.installation)
    now = app.clock()
    queue = await load_job_queue(app.context, installation, app.settings, now)
    fleet = await load_fleet(app.context, installation, app.settings, now)
    kinds = {each.kind for each in headlines(fleet, by_pool(fleet, now), now)}
    pools, unserved = demand(queue)
    return sum(each.queued for each in pools), len(unserved), "unserved" in kinds


HELD, DEMANDED = (0, 0, False), (1, 1, True)


async def test_a_job_that_waits_for_an_approval_is_no_demand_and_no_headline_until_a_person_approves(story):
    async with story() as app:
        await sweep_installation(app.context, app.installation)
        app.listen()
        await send(app, "queued")
        await app.receive()
        await app.pass_(900)
        await sweep_installation(app.context, app.installation)
        assert await shown(app) == DEMANDED, "as GitHub offers it"
        await send(app, "waiting")
        await app.receive()
        assert await shown(app) == HELD
        for _ in range(2):
            await app.pass_(DAY)
            await sweep_installation(app.context, app.installation)
            assert await shown(app) == HELD
        await send(app, "queued")
        await app.receive()
        (job,) = await app.context.demand.all(app.installation)
        assert (job.queued_at, job.deploys) == (app.clock(), True)
        await app.pass_(900)
        await sweep_installation(app.context, app.installation)
        assert await shown(app) == DEMANDED


async def test_a_delivery_of_the_wait_that_comes_after_the_approval_hides_no_demand(story):
    async with story() as app:
        await sweep_installation(app.context, app.installation)
        app.listen()
        app.sandbox.control.reorder_deliveries(batch=2, events=["workflow_job"])
        await send(app, "waiting")
        await app.pass_(5)
        await send(app, "queued")
        await app.receive(2)
        await app.pass_(900)
        await sweep_installation(app.context, app.installation)
        assert await shown(app) == DEMANDED
