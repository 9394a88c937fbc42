"""Deliveries that failed while the App was away are asked for again, and only those."""

from __future__ import annotations

import asyncio

from ghapp.github.hook import failed_attempts
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
    async with asyncio.timeout(10):
        while len(await failed_attempts(it.house.github, 0.0)) < attempts:  # noqa: ASYNC110
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
