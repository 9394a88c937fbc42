"""A periodic task: what the scheduler does again and again for a subject, declared once, beside the job it enqueues.

The scheduler reads the list of them (`jobs.scheduler.PERIODIC_TASKS`), and runs each at its interval.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import compress

from redis import Redis as SyncRedis

from ghapp.installations.installation import Installation
from ghapp.queue.jobs import JobName, enqueue, enqueue_for_each
from ghapp.queue.transitions import Enqueued
from ghapp.redis_clock import SharedClock
from ghapp.settings import Settings
from ghapp.store.stores import Stores

TICK_SECONDS = 0.25
"""Seconds between two ticks of the scheduler: the shortest interval of a task."""

AT_ONCE = 100
"""Installations whose records are queried at once; limits memory, and how long the event loop is busy with them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerContext(Stores):
    """The settings, the stores, the queues and the clock of a scheduler, and its name among several."""

    settings: Settings
    clock: SharedClock
    queue_redis: SyncRedis
    name: str
    lost_jobs: set[Enqueued] = field(default_factory=set)
    """The jobs that the last check found lost."""


Run = Callable[[SchedulerContext], Awaitable[float | None]]
"""Runs a task once; returns the seconds until its next run, or None for its interval."""


@dataclass(frozen=True, slots=True)
class PeriodicTask:
    """What is done periodically.

    Attributes:
        name: in logs.
        seconds: between two runs.
        run: what it does; it ends within milliseconds, for all tasks run one after the other.
        is_wanted: False if this configuration never needs it.
    """

    name: str
    seconds: float | Callable[[Settings], float]
    run: Run
    is_wanted: Callable[[Settings], bool] = lambda _: True

    def interval(self, settings: Settings) -> float:
        """Returns the seconds between two runs."""
        return self.seconds(settings) if callable(self.seconds) else self.seconds


def enqueue_one(work: JobName, key: str) -> Run:
    """Returns a run that enqueues a job for all installations, unless one with that key waits or runs."""

    async def run(context: SchedulerContext) -> None:
        enqueue(context.queue_redis, work, key=key, retry=False)

    return run


def enqueue_where(work: JobName, applies: Callable[[SchedulerContext, Installation], Awaitable[bool]]) -> Run:
    """Returns a run that enqueues a job for the installations to which something applies; never for suspended ones.

    The queries of `AT_ONCE` installations share round trips to Redis.
    """

    async def run(context: SchedulerContext) -> None:
        found: list[int] = []
        async for several in context.installations.batches(AT_ONCE):
            asked = [each for each in several if not each.suspended]
            answers = await asyncio.gather(*map(partial(applies, context), asked))
            found += compress([each.id for each in asked], answers)
        enqueue_for_each(context.queue_redis, work, found)

    return run
