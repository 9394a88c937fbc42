"""Runs a job for many installations at once.

A job of RQ costs a fork, connections and TLS handshakes, some 40 ms of CPU. Periodic jobs of many installations share
that; `ghapp.queue.jobs.enqueue_for_each` divides them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress

from ghapp.errors import StoreUnavailableError
from ghapp.log import bound, logger
from ghapp.queue.jobs import JOBS_FAILED, TIMEOUT_SECONDS, JobName
from ghapp.queue.worker import is_expected
from jobs.context import JobContext, configured, open_context

log = logger(__name__)

AT_ONCE = 10
"""Installations at the same time, in one job."""

ENDING_SECONDS = 10.0
"""Seconds left to the job when it stops what takes too long, so that the rest still can be recorded."""

Run = Callable[[JobContext, int], Awaitable[object]]


async def each_installation(work: JobName, run: Run, installations: Sequence[int]) -> None:
    """The job: runs `run` with each of these installations. If there is one, its errors are those of the job.

    Otherwise one that fails, or takes too long, is logged and counted, and does not affect the others. Those for which
    no time is left are deferred to the next job; the order is random, so that these are others each time.
    """
    async with open_context(configured()) as context:
        await run_each(context, work, run, installations)


async def run_each(context: JobContext, work: JobName, run: Run, installations: Sequence[int]) -> None:
    """As `each_installation`, in an open context."""
    if len(installations) == 1:
        await run(context, installations[0])
        return
    loop = asyncio.get_running_loop()
    ends = loop.time() + TIMEOUT_SECONDS - ENDING_SECONDS
    slots, deferred = asyncio.Semaphore(AT_ONCE), 0

    async def run_in_slot(installation: int) -> None:
        nonlocal deferred
        async with slots:
            if loop.time() >= ends:
                deferred += 1
                return
            async with failing_alone(context, work, installation, ends):
                await run(context, installation)

    await asyncio.gather(*map(run_in_slot, random.sample(installations, len(installations))))
    if deferred:
        log.warning("installations deferred", work=work.value, count=deferred)


@asynccontextmanager
async def failing_alone(context: JobContext, work: JobName, installation: int, ends: float) -> AsyncIterator[None]:
    """Logs and counts an error of the block, as the worker does for a job.

    Args:
        context: of the job.
        work: what is done.
        installation: for which.
        ends: when the block is stopped, by the clock of the event loop.
    """
    seconds = max(0.0, ends - asyncio.get_running_loop().time())
    with bound(installation=installation):
        try:
            async with asyncio.timeout_at(ends):
                yield
        except Exception as error:
            expected = is_expected(error) or isinstance(error, TimeoutError)
            log.warning(
                "job failed",
                work=work.value,
                error=type(error).__name__,
                why=str(error) or f"it took longer than {seconds:.0f} s",
                exc_info=None if expected else error,
            )
            with suppress(StoreUnavailableError):
                await context.counters.add(JOBS_FAILED, work=work.rpartition(".")[2])
