"""Deliveries that failed while the App was away are asked for again, and only those."""

from __future__ import annotations

import asyncio

import pytest

from ghapp.deliveries.store import MOST_TRIES
from ghapp.github import delivery_log
from ghapp.github.api import THE_APP
from ghapp.installations.pacing import MOST_POINTS, REDELIVERY_POINTS, SWEEPING_POINTS, WRITE_POINTS
from jobs.deliveries import redeliver
from jobs.deliveries.inbox import drain_inbox
from jobs.deliveries.redeliver import REDELIVERY_BATCH_SECONDS, redeliver_failed


async def while_away(app, jobs):
    """The App answers 503 while jobs are queued."""
    app.listen()
    app.hook.status = 503
    queued = app.sandbox.control.queue("acme", labels=["no-such-runner"], count=jobs)
    app.hook.wait(app.taken + jobs)
    app.taken += jobs
    await written_down(app, jobs)
    app.hook.status = 202
    return queued


async def written_down(app, attempts):
    """GitHub's record has a failed attempt a moment after its end."""
    log = app.sandbox.world.deliveries.log
    async with asyncio.timeout(10):
        while len(app.sandbox.control.in_world(lambda: list(log(app.sandbox.app)))) < attempts:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def known_jobs(app):
    return {job.id for job in await app.context.demand.all(app.installation)}


async def test_what_failed_while_the_app_was_away_comes_after_all(story):
    async with story() as app:
        missed = await while_away(app, 3)
        app.clock.now = app.sandbox.world.now() + 60
        assert await redeliver_failed(app.context) == 3
        await app.receive(3)
        assert await known_jobs(app) == set(missed)
        assert await redeliver_failed(app.context) == 0, "all of it is kept"
        assert await app.context.inbox.complete_until() == app.clock()


async def test_a_stored_delivery_is_not_requested_though_github_recorded_a_failure(story):
    async with story() as app:
        await while_away(app, 2)
        first, _ = app.hook.received[-2:]
        await app.context.inbox.keep(first.headers["x-github-delivery"], "workflow_job", b"\x80")
        app.clock.now = app.sandbox.world.now() + 60
        assert await redeliver_failed(app.context) == 1


async def test_until_it_came_not_all_is_well_and_it_is_not_asked_for_at_each_look(story):
    async with story() as app:
        await while_away(app, 1)
        app.hook.status = 503
        began = app.sandbox.world.now()
        app.clock.now = began + 40
        assert await redeliver_failed(app.context) == 1
        app.hook.wait(app.taken + 1)
        await written_down(app, 2)
        assert await app.context.inbox.complete_until() <= began
        assert await redeliver_failed(app.context) == 0, "its second attempt was a moment ago"


async def test_what_is_older_than_three_days_is_left(story):
    async with story() as app:
        await while_away(app, 1)
        app.clock.now = app.sandbox.world.now() + 3 * 86_400 + 61
        assert await redeliver_failed(app.context) == 0


async def kept_and_poisoned(app):
    """It failed on its way, was asked for again, came, and cannot take effect."""
    await while_away(app, 1)
    app.clock.now = app.sandbox.world.now() + 60
    assert await redeliver_failed(app.context) == 1
    (came,) = app.hook.wait(app.taken + 1)[app.taken :]
    app.taken += 1
    guid = came.headers["x-github-delivery"]
    await app.context.inbox.keep(guid, "workflow_job", b"[]")
    assert [await drain_inbox(app.context) for _ in range(MOST_TRIES)] == [0] * MOST_TRIES
    return guid


async def test_a_dead_letter_is_kept_and_is_not_asked_for_again_though_its_first_attempt_failed(story):
    async with story() as app:
        guid = await kept_and_poisoned(app)
        app.clock.pass_(3600)
        assert await redeliver_failed(app.context) == 0
        (letter,) = await app.context.inbox.dead()
        assert letter.guid == guid
        assert await app.context.inbox.complete_until() == app.clock(), (
            "a delivery that people must fix delays no other"
        )


@pytest.mark.parametrize("ahead", [7200, 90], ids=["two hours", "90 s"])
async def test_a_clock_that_ran_ahead_for_a_while_hides_no_failure(story, ahead):
    async with story() as app:
        app.clock.pass_(ahead)
        assert await redeliver_failed(app.context) == 0
        missed = await while_away(app, 2)
        app.clock.now = app.sandbox.world.now() + 60
        assert await redeliver_failed(app.context) == 2
        await app.receive(2)
        assert await known_jobs(app) == set(missed)


async def test_many_failures_are_asked_for_in_small_batches_a_job_each(story, monkeypatch):
    flying, most = 0, 0

    async def counted(github, attempt_id):
        nonlocal flying, most
        flying += 1
        most = max(most, flying)
        try:
            return await delivery_log.deliver_again(github, attempt_id)
        finally:
            flying -= 1

    monkeypatch.setattr(redeliver, "deliver_again", counted)
    monkeypatch.setattr(redeliver, "BATCH", 4)
    monkeypatch.setattr(redeliver, "MOST_IN_FLIGHT", 2)
    async with story() as app:
        missed = await while_away(app, 9)
        app.clock.now = app.sandbox.world.now() + 60
        asked = []
        for _ in range(4):
            asked.append(await redeliver_failed(app.context))
            await app.receive(asked[-1])
        assert asked == [4, 4, 1, 0]
        assert most == 2
        assert await known_jobs(app) == set(missed)


async def test_while_github_asks_to_wait_the_plan_waits_too(story, monkeypatch):
    monkeypatch.setattr(redeliver, "BATCH", 3)
    async with story() as app:
        missed = await while_away(app, 5)
        app.clock.now = app.sandbox.world.now() + 60
        assert await redeliver_failed(app.context) == 3
        await app.receive(3)
        assert await app.context.inbox.planned_redeliveries() == 2
        await app.context.budget.hold(THE_APP, 60)
        assert await redeliver_failed(app.context) == 0
        assert await app.context.inbox.planned_redeliveries() == 2
        app.clock.pass_(61)
        assert await redeliver_failed(app.context) == 2
        await app.receive(2)
        assert await known_jobs(app) == set(missed)


async def test_what_github_refuses_by_its_limits_is_requested_when_the_wait_is_over(story):
    async with story() as app:
        missed = await while_away(app, 8)
        app.clock.now = app.sandbox.world.now() + 60
        app.sandbox.control.fault(match="attempts", status=429, headers={"retry-after": "60"}, times=1)
        asked = await redeliver_failed(app.context)
        await app.receive(asked)
        left = await app.context.inbox.planned_redeliveries()
        assert 0 < left == 8 - asked
        assert await redeliver_failed(app.context) == 0, "GitHub asked to wait"
        app.clock.pass_(61)
        assert await redeliver_failed(app.context) == left
        await app.receive(left)
        assert await known_jobs(app) == set(missed)


def test_batches_use_the_points_of_redelivery_and_leave_some_for_tokens():
    attempts_a_minute = redeliver.BATCH * 60 / REDELIVERY_BATCH_SECONDS
    assert attempts_a_minute * WRITE_POINTS == REDELIVERY_POINTS == 800
    assert REDELIVERY_POINTS < SWEEPING_POINTS < MOST_POINTS


async def test_a_batch_that_fails_drops_the_plan_and_the_next_look_finds_what_is_missing(story, monkeypatch):
    monkeypatch.setattr(redeliver, "BATCH", 3)
    async with story() as app:
        missed = await while_away(app, 5)
        app.clock.now = app.sandbox.world.now() + 60
        assert await redeliver_failed(app.context) == 3
        await app.receive(3)
        app.sandbox.control.fault(match="attempts", status=502, times=2)
        assert await redeliver_failed(app.context) == 0
        assert await app.context.inbox.planned_redeliveries() == 0
        assert await redeliver_failed(app.context) == 2
        await app.receive(2)
        assert await known_jobs(app) == set(missed)


async def test_of_more_failures_than_one_look_reads_the_oldest_come_too(story, monkeypatch):
    monkeypatch.setattr(delivery_log, "PER_PAGE", 2)
    monkeypatch.setattr(delivery_log, "MOST_PAGES", 2)
    async with story() as app:
        missed = await while_away(app, 11)
        app.clock.now = app.sandbox.world.now() + 60
        came = 0
        for _ in range(6):
            asked = await redeliver_failed(app.context)
            came += asked
            await app.receive(asked)
        assert came == 11, "each once"
        assert await known_jobs(app) == set(missed)
        for _ in range(6):
            await redeliver_failed(app.context)
        assert await app.context.inbox.complete_until() >= app.clock() - 120, "and all is well again"


async def test_while_web_is_away_one_a_minute_is_requested_and_the_rest_when_it_is_back(story):
    async with story() as app:
        missed = await while_away(app, 60)
        app.clock.now = app.sandbox.world.now() + 60
        app.hook.status = 503
        asked, came = [], app.taken
        for _ in range(20):
            for _ in range(10):
                asked.append(await redeliver_failed(app.context))
                await app.pass_(6)
        assert asked[0] == redeliver.BATCH
        assert 15 <= sum(asked[1:]) <= 20
        assert max(asked[1:]) == 1
        came += sum(asked)
        app.hook.wait(came)
        app.taken, app.hook.status = came, 202
        for _ in range(10):
            asked.append(await redeliver_failed(app.context))
            await app.receive(asked[-1])
            await app.pass_(6)
        assert len(await known_jobs(app)) >= 50, "within a minute; the others were tried a moment ago, and wait"
        for _ in range(100):
            await app.receive(await redeliver_failed(app.context))
            await app.pass_(30)
        assert await known_jobs(app) == set(missed)
