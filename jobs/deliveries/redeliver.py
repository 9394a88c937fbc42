"""Requests the redelivery of every delivery that failed, in batches that use what GitHub's points allow.

One read of GitHub's delivery log plans up to a thousand attempts; a batch is requested at once, and the scheduler
enqueues a job for each further batch. Each job ends within seconds, so that a single worker still sweeps on time.
"""

from __future__ import annotations

import asyncio
from math import ceil

from ghapp.deliveries.metrics import REDELIVERIES
from ghapp.deliveries.redelivery import LastRequest, may_request
from ghapp.errors import BudgetSpentError, GitHubError, RateLimitedError
from ghapp.github.delivery_log import deliver_again
from ghapp.installations.pacing import POINTS_SECONDS, REDELIVERY_POINTS, WRITE_POINTS
from ghapp.log import logger
from ghapp.queue.jobs import JobName
from jobs.context import JobContext, configured, open_context
from jobs.delivery_gaps import plan_from_log
from jobs.periodic_task import PeriodicTask, SchedulerContext, enqueue_one

log = logger(__name__)

REDELIVERY_BATCH_SECONDS = 6.0
"""Seconds between batches of redeliveries while any are left."""

BATCH = ceil(REDELIVERY_POINTS / WRITE_POINTS * REDELIVERY_BATCH_SECONDS / POINTS_SECONDS)
"""Attempts a job, so that one job every `REDELIVERY_BATCH_SECONDS` requests all that the points allow."""

MOST_IN_FLIGHT = 5
"""Requests at once."""


async def redeliver() -> None:
    """The job: the next batch of the plan; without a plan, read GitHub's delivery log and make one."""
    async with open_context(configured()) as context:
        await redeliver_failed(context)


async def redeliver_failed(context: JobContext) -> int:
    """Requests at most `BATCH` redeliveries; returns how many GitHub accepted.

    If no delivery has arrived since the last request, GitHub does not reach the webhook: then one a minute is
    requested, the first of a new plan, and the rest of the plan as soon as any delivery arrives.

    While a plan has attempts left, the next of them. Otherwise GitHub's log is read for failures since the last time
    all deliveries had arrived, three days at most, and a plan is made of them. While GitHub's limits are used up, the
    plan waits. Another failure drops it: the next read finds what is still missing, for only arrived deliveries move
    that time.
    """
    async with context.locks.acquire("redeliver", "app", context.locks.outliving_seconds) as mine:
        if not mine:
            return 0
        try:
            arrival = await context.inbox.last_arrival()
            most = may_request(await context.inbox.last_request(), arrival, context.clock(), BATCH)
            if not most:
                return 0
            if most < BATCH or not await context.inbox.planned_redeliveries():
                await context.inbox.plan_redeliveries(await plan_from_log(context))
            return await _batch(context, most, arrival)
        except GitHubError as error:
            await context.inbox.plan_redeliveries(())
            log.warning("redelivery deferred", why=str(error))
            return 0


async def _batch(context: JobContext, most: int, arrival: str) -> int:
    attempts = await context.inbox.take_redeliveries(most)
    if not attempts:
        return 0
    slots = asyncio.Semaphore(MOST_IN_FLIGHT)

    async def again(attempt_id: int) -> bool:
        async with slots:
            return await deliver_again(context.github, attempt_id)

    # All are awaited: none may still be on its way when the job ends.
    answers = await asyncio.gather(*map(again, attempts), return_exceptions=True)
    asked, forgotten = answers.count(True), answers.count(False)
    limited = [answer for answer in answers if isinstance(answer, BudgetSpentError | RateLimitedError)]
    if limited:
        waiting = [each for each, answer in zip(attempts, answers, strict=True) if answer in limited]
        await context.inbox.return_redeliveries(waiting)
        log.info("redelivery waits for GitHub's limits", waiting=len(waiting), why=str(limited[0]))
    if asked:
        await context.inbox.save_request(LastRequest(context.clock(), arrival))
    left = await context.inbox.planned_redeliveries()
    log.info("redelivery requested", asked=asked, forgotten=forgotten, left=left)
    await context.counters.add(REDELIVERIES, asked)
    for answer in answers:
        if isinstance(answer, BaseException) and answer not in limited:
            raise answer
    return asked


_enqueue_redelivery = enqueue_one(JobName.REDELIVER, "redeliver")


async def _enqueue_batch(context: SchedulerContext) -> None:
    """Enqueues the next batch while attempts are planned: short jobs leave time for other queues."""
    if await context.inbox.planned_redeliveries():
        await _enqueue_redelivery(context)


REDELIVER = PeriodicTask(
    "redeliver", lambda settings: settings.policy.deliveries.redeliver_seconds, _enqueue_redelivery
)
REDELIVER_REST = PeriodicTask("redeliver_rest", REDELIVERY_BATCH_SECONDS, _enqueue_batch)
