"""The scheduler: enqueues due sweeps and other periodic jobs, and delivers events in a task of its own.

Two schedulers may run: each slot goes to one of them, and one of them delivers.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import fields

from ghapp.errors import ConfigurationError, GhappError, StoreRefusedError, StoreUnavailableError
from ghapp.log import logger
from ghapp.queue import jobs
from ghapp.redis_clock import MEASURE_SECONDS, SharedClock
from ghapp.settings import Settings
from ghapp.store.connect import PipeliningRedis, connect, connect_sync
from ghapp.store.stores import stores_over
from jobs.active_shard import ASK_SHARDS
from jobs.deliveries.inbox import DRAIN
from jobs.deliveries.redeliver import REDELIVER, REDELIVER_REST
from jobs.events.deliver_event import EventDelivery
from jobs.installations.discover import DISCOVER, REDISCOVER
from jobs.leaks.reap import REAP
from jobs.notifications import NOTIFY
from jobs.periodic_task import TICK_SECONDS, PeriodicTask, SchedulerContext
from jobs.reports.gate_report import REPORT_GATES
from jobs.reports.health_report import REPORT
from jobs.reports.queue_report import EXPLAIN_QUEUE
from jobs.runners.due_sweeps import SWEEP

log = logger(__name__)

WAIT_SECONDS = 1.0
"""Seconds before the next attempt while Redis is unavailable."""


async def _promote(context: SchedulerContext) -> None:
    jobs.promote_due(context.queue_redis, context.clock())


async def _measure_clock(context: SchedulerContext) -> None:
    await context.heartbeats.measure_clock(context.clock, f"clock {context.name}")


async def _beat(context: SchedulerContext) -> None:
    await context.heartbeats.beat("clock", context.name, context.clock())


async def _requeue_lost(context: SchedulerContext) -> None:
    """Requeues jobs whose worker was killed between two steps: those that two checks in a row find lost."""
    found = jobs.find_lost(context.queue_redis)
    for lost in sorted(found & context.lost_jobs):
        if jobs.requeue_lost(context.queue_redis, lost):
            log.warning("lost job requeued", job=lost.job_id)
    context.lost_jobs.clear()
    context.lost_jobs.update(found)


PERIODIC_TASKS = (
    SWEEP,
    PeriodicTask("promote", TICK_SECONDS, _promote),
    PeriodicTask("measure_clock", MEASURE_SECONDS, _measure_clock),
    PeriodicTask("beat", lambda settings: settings.timings.beat_seconds, _beat),
    DRAIN,
    PeriodicTask("requeue_lost", lambda settings: settings.timings.beat_seconds, _requeue_lost),
    REPORT,
    ASK_SHARDS,
    EXPLAIN_QUEUE,
    REPORT_GATES,
    REDELIVER,
    REDELIVER_REST,
    DISCOVER,
    REDISCOVER,
    NOTIFY,
    REAP,
)
"""All of them, the most urgent first; their order has no other meaning."""


async def run_scheduler(settings: Settings) -> None:
    """Runs until SIGTERM or SIGINT. While Redis is unavailable, it retries.

    Raises:
        ConfigurationError: no Redis is configured.
        StoreUnavailableError: Redis does not answer at the start.
    """
    scheduler, stopped = Scheduler(settings), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    try:
        await scheduler.check_redis()
        async with _event_delivery(settings, scheduler):
            while not stopped.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(stopped.wait(), await scheduler.tick())
    finally:
        await scheduler.close()


@asynccontextmanager
async def _event_delivery(settings: Settings, scheduler: Scheduler) -> AsyncIterator[None]:
    """Delivers events while the block runs."""
    delivery = EventDelivery(settings, scheduler.stores, scheduler.look_again, scheduler.context.clock)
    delivering = asyncio.create_task(delivery.run())
    try:
        yield
    finally:
        delivering.cancel()
        await asyncio.gather(delivering, return_exceptions=True)


class Scheduler:
    """Runs what is due. Each periodic task has its own monotonic time: a jump of the wall clock stops none."""

    def __init__(self, settings: Settings) -> None:
        if settings.redis_url is None:
            raise ConfigurationError("GHAPP_REDIS_URL: not set; every role but `up` needs it")
        self.stores = stores_over(connect(settings.redis_url), settings.named, timings=settings.timings)
        reading = stores_over(PipeliningRedis(self.stores.redis), settings.named, timings=settings.timings)
        self.context = SchedulerContext(
            **{each.name: getattr(reading, each.name) for each in fields(reading)},
            settings=settings,
            clock=SharedClock(),
            queue_redis=connect_sync(settings.redis_url),
            name=f"{socket.gethostname()}-{os.getpid()}",
        )
        self._due_at = {task: 0.0 for task in PERIODIC_TASKS if task.is_wanted(settings)}
        self._failures: dict[PeriodicTask, str] = {}

    def look_again(self, installation: int, runner_id: int) -> None:
        """Has a worker ask GitHub for a lost runner whose request is about to leave."""
        jobs.enqueue_remediation(self.context.queue_redis, installation, runner_id)

    async def check_redis(self) -> None:
        """Checks that Redis answers; raises StoreUnavailableError, which at the start is a configuration error."""
        await self.context.clock.measure(self.stores.redis)

    async def tick(self) -> float:
        """Runs the periodic tasks that are due; returns the seconds until the next tick.

        A task that fails, as by a command that Redis refuses, waits for its next turn. While Redis does not answer, all
        tasks wait.
        """
        now = time.monotonic()
        for task in [task for task, due_at in self._due_at.items() if now >= due_at]:
            interval = task.interval(self.context.settings)
            try:
                wait = await task.run(self.context)
            except Exception as error:  # noqa: BLE001 - an error of one task stops no other task
                if isinstance(error, StoreUnavailableError) and not isinstance(error, StoreRefusedError):
                    log.warning("Redis unavailable, retrying", why=str(error))
                    return WAIT_SECONDS
                self._log_failure(task, error)
                self._due_at[task] = now + max(interval, WAIT_SECONDS)
            else:
                self._failures.pop(task, None)
                self._due_at[task] = now + (interval if wait is None else wait)
        return TICK_SECONDS

    def _log_failure(self, task: PeriodicTask, error: Exception) -> None:
        """Logs why a task failed, unless it did for the same reason before; unexpected errors with a traceback."""
        why = f"{type(error).__name__}: {error}"
        if self._failures.get(task) != why:
            trace = None if isinstance(error, GhappError) else error
            log.warning("periodic task failed", task=task.name, why=why, exc_info=trace)
        self._failures[task] = why

    async def close(self) -> None:
        """Closes the connections."""
        await self.stores.redis.aclose()
        self.context.queue_redis.close()
