"""Sweeps all installations that are due, many in one job.

A job of RQ costs a fork, connections and TLS handshakes, some 40 ms of CPU: five times as much as the sweep of a
hundred runners. One job for all due installations pays that once, and the schedule itself is the queue, so that an
installation never waits twice.
"""

from __future__ import annotations

import asyncio

from ghapp.queue.jobs import SWEEP_TIMEOUT_SECONDS, JobName, enqueue_due_sweeps
from ghapp.timings import NORMAL
from jobs.context import JobContext, configured, open_context
from jobs.each_installation import ENDING_SECONDS, failing_alone
from jobs.periodic_task import TICK_SECONDS, PeriodicTask, SchedulerContext
from jobs.runners.sweep import sweep_installation

RETRY_SECONDS = NORMAL.lock_seconds + 2.0
"""Seconds after which an installation is due again whose sweep was begun, and did not set its next date. If its process
crashed, its lock has expired by then. While it runs, it is put off.
"""

AT_ONCE = 10
"""Concurrent sweeps of a job. Each sends up to `[sweep] concurrency` requests at once, 10 by default, over 100
connections. The more at once, the more commands to Redis are sent together.
"""

TAKING_SECONDS = 5.0
"""For how long a job begins sweeps. Then other queues of this worker have their turn, and the next job continues."""

SWEEP_JOB_SECONDS = 5.0
"""Seconds between two jobs that sweep what is due: together, many installations cost less than one by one. Jobs every
five seconds sweep a thousand of them in an eighth less CPU than jobs every two. At short intervals a tenth of the
interval. A sweep that is due alone does not wait.
"""

LATE_SWEEP_SECONDS, ADDED_JOB_SECONDS, MOST_SWEEP_JOBS = 10.0, 2.0, 8
"""When a sweep has been due for so long, jobs are added for other workers to run, every two seconds, up to that number.
The autoscaler counts them, too.
"""


async def sweep_due() -> None:
    """The job: sweeps every installation that is due."""
    async with open_context(configured()) as context:
        await sweep_due_installations(context)


async def sweep_due_installations(context: JobContext) -> int:
    """Sweeps the due installations, `AT_ONCE` at a time; returns how many.

    A sweep that fails or takes too long is logged and counted, and does not affect the others; it is due again after
    `RETRY_SECONDS`.
    """
    began, swept = asyncio.get_running_loop().time(), 0
    running: dict[asyncio.Task[None], int] = {}
    again_at: dict[int, float] = {}
    """When they are due again if they do not set another date."""
    try:
        while True:
            if asyncio.get_running_loop().time() - began < TAKING_SECONDS:
                now = context.clock()
                due = await context.schedule.take_due(now, RETRY_SECONDS, AT_ONCE - len(running))
                ends = began + SWEEP_TIMEOUT_SECONDS - ENDING_SECONDS
                running |= {asyncio.create_task(_sweep(context, each, at, ends)): each for each, at in due.items()}
                again_at |= dict.fromkeys(due, now + RETRY_SECONDS)
                swept += len(due)
            if not running:
                return swept
            done, _ = await asyncio.wait(running, timeout=RETRY_SECONDS / 2, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                del running[each]
            if not done:  # they take long, and other jobs should not ask for them meanwhile
                until = context.clock() + RETRY_SECONDS
                await context.schedule.put_off({each: again_at[each] for each in running.values()}, until)
                again_at |= dict.fromkeys(running.values(), until)
    finally:
        for each in running:
            each.cancel()


async def _sweep(context: JobContext, installation: int, due_at: float, ends: float) -> None:
    async with failing_alone(context, JobName.SWEEP, installation, ends):
        await sweep_installation(context, installation, patience_seconds=0.0, due_at=due_at, ends=ends)


async def _enqueue_sweeps(context: SchedulerContext) -> float | None:
    """Enqueues a job that sweeps what is due; another one for what the first did not take in time."""
    now = context.clock()
    if not await context.schedule.is_any_due(now):
        return None
    is_late = await context.schedule.is_any_due(now - LATE_SWEEP_SECONDS)
    enqueue_due_sweeps(context.queue_redis, MOST_SWEEP_JOBS if is_late else 1)
    wait = min(SWEEP_JOB_SECONDS, context.settings.shortest_interval_seconds / 10)
    return min(wait, ADDED_JOB_SECONDS) if is_late else wait


SWEEP = PeriodicTask("sweep", TICK_SECONDS, _enqueue_sweeps)
