"""Deliveries that failed while the App was away are asked for again, and only those."""

from __future__ import annotations

import asyncio

import pytest

from ghapp.github import hook
from ghapp.store.inbox import MOST_TRIES
from jobs.inbox import drain_inbox
from jobs.redeliver import redeliver_failed


async def while_away(it, jobs):
    """The App answers 503 while jobs are queued."""
    it.listen()
    it.hook.status = 503
    queued = it.sandbox.control.queue("acme", labels=["no-such-runner"], count=jobs)
    it.hook.wait(it.taken + jobs)
    it.taken += jobs
    await written_down(it, jobs)
    it.hook.status = 202
    return queued


async def written_down(it, attempts):
    """GitHub's record has a failed attempt a moment after its end."""
    log = it.sandbox.world.deliveries.log
    async with asyncio.timeout(10):
        while len(it.sandbox.control.in_world(lambda: list(log(it.sandbox.app)))) < attempts:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def known_jobs(it):
    return {job.id for job in await it.house.demand.all(it.installation)}


async def test_what_failed_while_the_app_was_away_comes_after_all(story):
    async with story() as it:
        missed = await while_away(it, 3)
        it.clock.now = it.sandbox.world.now() + 60
        assert await redeliver_failed(it.house) == 3
        await it.receive(3)
        assert await known_jobs(it) == set(missed)
        assert await redeliver_failed(it.house) == 0, "all of it is kept"
        assert await it.house.inbox.well_until() == it.clock()


async def test_what_was_kept_is_not_asked_for_though_github_was_told_that_it_failed(story):
    async with story() as it:
        await while_away(it, 2)
        first, _ = it.hook.received[-2:]
        await it.house.inbox.keep(first.headers["x-github-delivery"], "workflow_job", b"\x80")
        it.clock.now = it.sandbox.world.now() + 60
        assert await redeliver_failed(it.house) == 1


async def test_until_it_came_not_all_is_well_and_it_is_not_asked_for_at_each_look(story):
    async with story() as it:
        await while_away(it, 1)
        it.hook.status = 503
        began = it.sandbox.world.now()
        it.clock.now = began + 40
        assert await redeliver_failed(it.house) == 1
        it.hook.wait(it.taken + 1)
        await written_down(it, 2)
        assert await it.house.inbox.well_until() <= began
        assert await redeliver_failed(it.house) == 0, "its second attempt was a moment ago"


async def test_what_is_older_than_three_days_is_left(story):
    async with story() as it:
        await while_away(it, 1)
        it.clock.now = it.sandbox.world.now() + 3 * 86_400 + 61
        assert await redeliver_failed(it.house) == 0


async def kept_and_poisoned(it):
    """It failed on its way, was asked for again, came, and cannot take effect."""
    await while_away(it, 1)
    it.clock.now = it.sandbox.world.now() + 60
    assert await redeliver_failed(it.house) == 1
    (came,) = it.hook.wait(it.taken + 1)[it.taken :]
    it.taken += 1
    guid = came.headers["x-github-delivery"]
    await it.house.inbox.keep(guid, "workflow_job", b'{"workflow_job": {}}')
    assert [await drain_inbox(it.house) for _ in range(MOST_TRIES)] == [0] * MOST_TRIES
    return guid


async def test_a_dead_letter_is_kept_and_is_not_asked_for_again_though_its_first_attempt_failed(story):
    async with story() as it:
        guid = await kept_and_poisoned(it)
        it.clock.pass_(3600)
        assert await redeliver_failed(it.house) == 0
        (letter,) = await it.house.inbox.dead()
        assert letter.guid == guid
        assert await it.house.inbox.well_until() == it.clock(), "what people must mend keeps nobody else waiting"


@pytest.mark.parametrize("ahead", [7200, 90], ids=["two hours", "90 s"])
async def test_a_clock_that_ran_ahead_for_a_while_hides_no_failure(story, ahead):
    async with story() as it:
        it.clock.pass_(ahead)
        assert await redeliver_failed(it.house) == 0
        missed = await while_away(it, 2)
        it.clock.now = it.sandbox.world.now() + 60
        assert await redeliver_failed(it.house) == 2
        await it.receive(2)
        assert await known_jobs(it) == set(missed)


async def test_of_more_failures_than_one_look_reads_the_oldest_come_too(story, monkeypatch):
    monkeypatch.setattr(hook, "PER_PAGE", 2)
    monkeypatch.setattr(hook, "MOST_PAGES", 2)
    async with story() as it:
        missed = await while_away(it, 11)
        it.clock.now = it.sandbox.world.now() + 60
        came = 0
        for _ in range(6):
            asked = await redeliver_failed(it.house)
            came += asked
            await it.receive(asked)
        assert came == 11, "each once"
        assert await known_jobs(it) == set(missed)
        for _ in range(6):
            await redeliver_failed(it.house)
        assert await it.house.inbox.well_until() >= it.clock() - 120, "and all is well again"
