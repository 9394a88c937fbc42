"""Requests the redelivery of every delivery that failed, in small batches.

One read of GitHub's delivery log plans at most 100 attempts; a batch of ten is requested at once, and the scheduler
enqueues a job for each further batch. Each job ends within seconds, so that a single worker still sweeps on time.
"""

from __future__ import annotations

import asyncio

from ghapp.errors import GitHubError
from ghapp.github.delivery_log import deliver_again, failed_attempts
from ghapp.health.redelivery import KEPT_SECONDS, to_redeliver
from ghapp.log import logger
from ghapp.store.inbox import TOP, RedeliveryCursor
from ghapp.store.locks import OUTLIVING_SECONDS
from jobs.context import JobContext, configured, open_context

log = logger(__name__)

MOST_PLANNED = 100
"""Attempts for each read. Requests of five points each; GitHub grants 900 points a minute."""

BATCH = 10
"""Attempts a job. With one batch every `schedule.REDELIVERY_BATCH_SECONDS` that is 500 points a minute."""

MOST_IN_FLIGHT = 5
"""Requests at once."""

OVERLAP_SECONDS = 600.0
"""By how much clocks may differ, GitHub's and those of all workers, and by how much GitHub's record may lag."""


async def redeliver() -> None:
    """The job: the next batch of the plan; without a plan, read GitHub's delivery log and make one."""
    async with open_context(configured()) as context:
        await redeliver_failed(context)


async def redeliver_failed(context: JobContext) -> int:
    """Requests at most `BATCH` redeliveries; returns how many GitHub accepted.

    While a plan has attempts left, the next of them. Otherwise GitHub's log is read for failures since the last time
    all
    deliveries had arrived, three days at most, and a plan is made of them. A failure drops the plan: the next read
    finds
    what is still missing, for only arrived deliveries move that time.
    """
    async with context.locks.acquire("redeliver", "app", OUTLIVING_SECONDS) as mine:
        if not mine:
            return 0
        try:
            if not await context.inbox.planned_redeliveries():
                await context.inbox.plan_redeliveries((await _look(context))[:MOST_PLANNED])
            return await _batch(context)
        except GitHubError as error:
            await context.inbox.plan_redeliveries(())
            log.warning("redelivery deferred", why=str(error))
            return 0


async def _look(context: JobContext) -> tuple[int, ...]:
    """Returns the ids of the attempts that GitHub should repeat now, oldest first; records how far the read came.

    GitHub's log is read from its newest end. Of very many failures one read covers a part, and the next continues
    before
    it. Only the read that reaches the oldest failure knows since when all deliveries arrived.
    """
    now, complete_until = context.clock(), await context.inbox.complete_until() or 0.0
    if complete_until > now:  # written by a clock that ran ahead
        complete_until = 0.0
    since = max(complete_until - OVERLAP_SECONDS, now - KEPT_SECONDS)
    place = (
        await context.inbox.take_cursor()
    )  # used once: if GitHub no longer knows the cursor, the next read starts again
    attempts, before = await failed_attempts(context.github, since, place.cursor)
    kept = await context.inbox.known({attempt.guid for attempt in attempts}, now)
    ask, missing_since = to_redeliver(attempts, kept, now)
    if before and attempts:
        await context.inbox.save_cursor(RedeliveryCursor(before, attempts[-1].at))
    else:
        all_came_until = now if place == TOP else place.at
        await context.inbox.mark_complete_until(all_came_until if missing_since is None else missing_since)
    return ask


async def _batch(context: JobContext) -> int:
    attempts = await context.inbox.take_redeliveries(BATCH)
    if not attempts:
        return 0
    slots = asyncio.Semaphore(MOST_IN_FLIGHT)

    async def again(attempt_id: int) -> bool:
        async with slots:
            return await deliver_again(context.github, attempt_id)

    # All are awaited: none may still be on its way when the job ends.
    answers = await asyncio.gather(*map(again, attempts), return_exceptions=True)
    asked, forgotten = answers.count(True), answers.count(False)
    left = await context.inbox.planned_redeliveries()
    log.info("redelivery requested", asked=asked, forgotten=forgotten, left=left)
    await context.counters.add("ghapp_redeliveries_total", asked)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return asked
