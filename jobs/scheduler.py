"""The scheduler: enqueues due sweeps and other periodic jobs, and delivers events in a task of its own.

Two schedulers may run: each slot goes to one of them, and one of them delivers.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import compress
from typing import Any

from ghapp.errors import ConfigurationError, GhappError, StoreRefusedError, StoreUnavailableError
from ghapp.gate.gate_checks import open_gate_checks, superseded
from ghapp.installations.installation import Installation
from ghapp.installations.store import Installations
from ghapp.log import logger
from ghapp.queue import jobs
from ghapp.queue.jobs import JobName
from ghapp.queue.transitions import Enqueued
from ghapp.redis_clock import MEASURE_SECONDS, SharedClock
from ghapp.report.check_run_state import wants_report
from ghapp.settings import Settings
from ghapp.store.connect import PipeliningRedis, connect, connect_sync
from ghapp.store.stores import Stores, stores_over
from ghapp.workflow_jobs.capacity import NOT_ASSIGNED_SECONDS
from jobs.events.deliver_event import EventDelivery

log = logger(__name__)

TICK_SECONDS = 0.25
SWEEP_JOB_SECONDS = 5.0
"""Seconds between two jobs that sweep what is due: together, many installations cost less than one by one. Jobs every
five seconds sweep a thousand of them in an eighth less CPU than jobs every two. At short intervals a tenth of the
interval. A sweep that is due alone does not wait.
"""

LATE_SECONDS, ADDED_JOB_SECONDS, MOST_SWEEP_JOBS = 10.0, 2.0, 8
"""When a sweep has been due for so long, jobs are added for other workers to run, every two seconds, up to that number.
The autoscaler counts them, too.
"""

DISCOVER_SECONDS = 300.0
REDISCOVER_SECONDS = 30.0
"""The same while Redis has no date of the next discovery: it lost its data, or none has succeeded yet."""

DRAIN_SECONDS = 1.0
"""Seconds between requests for a drain while deliveries wait. A drain that left some is followed by another within
this time; until then the worker is free for other queues.
"""

REDELIVERY_BATCH_SECONDS = 6.0
"""Seconds between batches of redeliveries while any are left."""

REPORT_SECONDS = 10.0
"""Seconds between checks of each org's report: much changes by time alone, and must be published within 15 s."""

GATE_SECONDS = 10.0
"""Seconds between checks for deployed commits that wait for the gate."""

QUEUE_SECONDS = 15.0
"""Seconds between checks of each org for jobs that wait for a minute or more."""

ACTIVE_SECONDS = 30.0
"""Seconds between queries for the active shard of blue/green pools; the gate accepts an answer for five minutes."""

REAP_SECONDS = 60.0
"""Seconds between ticks of the reaper. Its clocks advance only if this is less than `leak.MOST_GAP_SECONDS`."""

NOTIFY_SECONDS = 15.0
"""Seconds between observations of conditions, if any receiver is configured."""

AT_ONCE = 100
"""Installations whose records are queried at once; limits memory, and how long the event loop is busy with them."""

WAIT_SECONDS = 1.0
"""Seconds before the next attempt while Redis is unavailable."""


async def run_scheduler(settings: Settings) -> None:
    """Runs until SIGTERM or SIGINT. While Redis is unavailable, it retries.

    Raises:
        ConfigurationError: no Redis is configured.
        StoreUnavailableError: Redis does not answer at the start.
    """
    if settings.redis_url is None:
        raise ConfigurationError("GHAPP_REDIS_URL: not set; every role but `up` needs it")
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    clock = Scheduler(settings)
    try:
        await clock.check_redis()
        async with _event_delivery(settings, clock):
            while not stopped.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(stopped.wait(), await clock.tick())
    finally:
        await clock.close()


@asynccontextmanager
async def _event_delivery(settings: Settings, scheduler: Scheduler) -> AsyncIterator[None]:
    """Delivers events while the block runs."""
    delivery = EventDelivery(settings, scheduler.stores, scheduler.look_again, scheduler.clock)
    delivering = asyncio.create_task(delivery.run())
    try:
        yield
    finally:
        delivering.cancel()
        await asyncio.gather(delivering, return_exceptions=True)


class Scheduler:
    """Enqueues what is due. Each periodic task has its own monotonic time: a jump of the wall clock stops none."""

    def __init__(self, settings: Settings) -> None:
        if settings.redis_url is None:
            raise ConfigurationError("GHAPP_REDIS_URL: not set; every role but `up` needs it")
        self._settings, self.clock = settings, SharedClock()
        self.stores, self._queue_redis = (
            stores_over(connect(settings.redis_url), settings.named, timings=settings.timings),
            connect_sync(settings.redis_url),
        )
        self._reading = stores_over(PipeliningRedis(self.stores.redis), settings.named)
        self._schedule, self._installations = self.stores.schedule, self.stores.installations
        self._inbox = self.stores.inbox
        self._heartbeats, self._name = self.stores.heartbeats, f"{socket.gethostname()}-{os.getpid()}"
        self._periodic_tasks: list[tuple[float, Callable[[], Coroutine[Any, Any, None]]]] = [
            (TICK_SECONDS, self._sweep),
            (TICK_SECONDS, self._promote),
            (MEASURE_SECONDS, self._measure_clock),
            (settings.timings.beat_seconds, self._beat),
            (DRAIN_SECONDS, self._drain),
            (settings.timings.beat_seconds, self._requeue_lost),
            (REPORT_SECONDS, self._report),
            (ACTIVE_SECONDS, self._ask_shards),
            (QUEUE_SECONDS, self._explain_queue),
            *([(GATE_SECONDS, self._report_gates)] if any(pool.deploy_repository for pool in settings.pools) else []),
            (settings.policy.deliveries.redeliver_seconds, self._redeliver),
            (REDELIVERY_BATCH_SECONDS, self._redeliver_rest),
            (DISCOVER_SECONDS, self._discover),
            (REDISCOVER_SECONDS, self._rediscover),
            *([(NOTIFY_SECONDS, self._notify)] if settings.notify_urls else []),
            *([(REAP_SECONDS, self._reap)] if settings.namespaces else []),
        ]
        self._due = [0.0] * len(self._periodic_tasks)
        self._failures: dict[str, str] = {}
        self._between_sweep_jobs = min(SWEEP_JOB_SECONDS, settings.shortest_interval_seconds / 10)
        self._next_sweep_job = 0.0
        self._lost_before: set[Enqueued] = set()

    def look_again(self, installation: int, runner_id: int) -> None:
        """Has a worker ask GitHub for a lost runner whose request is about to leave."""
        jobs.enqueue_remediation(self._queue_redis, installation, runner_id)

    async def check_redis(self) -> None:
        """Checks that Redis answers; raises StoreUnavailableError, which at the start is a configuration error."""
        await self.clock.measure(self.stores.redis)

    async def tick(self) -> float:
        """Runs the periodic tasks that are due; returns the seconds until the next tick.

        A task that fails, as by a command that Redis refuses, waits for its next turn. While Redis does not answer, all
        tasks wait.
        """
        now = time.monotonic()
        for number, (every, task) in enumerate(self._periodic_tasks):
            if now < self._due[number]:
                continue
            try:
                await task()
            except Exception as error:  # noqa: BLE001 - an error of one task stops no other task
                if isinstance(error, StoreUnavailableError) and not isinstance(error, StoreRefusedError):
                    log.warning("Redis unavailable, retrying", why=str(error))
                    return WAIT_SECONDS
                self._log_failure(task.__name__, error)
                self._due[number] = now + max(every, WAIT_SECONDS)
            else:
                self._failures.pop(task.__name__, None)
                self._due[number] = now + every
        return TICK_SECONDS

    def _log_failure(self, task: str, error: Exception) -> None:
        """Logs why a task failed, unless it did for the same reason before; unexpected errors with a traceback."""
        why = f"{type(error).__name__}: {error}"
        if self._failures.get(task) != why:
            trace = None if isinstance(error, GhappError) else error
            log.warning("periodic task failed", task=task.strip("_"), why=why, exc_info=trace)
        self._failures[task] = why

    async def close(self) -> None:
        """Closes the connections."""
        await self.stores.redis.aclose()
        self._queue_redis.close()

    async def _sweep(self) -> None:
        """Enqueues a job that sweeps what is due; another one for what the first did not take in time."""
        now = self.clock()
        if time.monotonic() < self._next_sweep_job or not await self._schedule.is_any_due(now):
            return
        is_late = await self._schedule.is_any_due(now - LATE_SECONDS)
        jobs.enqueue_due_sweeps(self._queue_redis, MOST_SWEEP_JOBS if is_late else 1)
        wait = min(self._between_sweep_jobs, ADDED_JOB_SECONDS) if is_late else self._between_sweep_jobs
        self._next_sweep_job = time.monotonic() + wait

    async def _promote(self) -> None:
        jobs.promote_due(self._queue_redis, self.clock())

    async def _beat(self) -> None:
        await self._heartbeats.beat("clock", self._name, self.clock())

    async def _measure_clock(self) -> None:
        await self._heartbeats.measure_clock(self.clock, f"clock {self._name}")

    async def _drain(self) -> None:
        if await self._inbox.lag():
            jobs.enqueue(self._queue_redis, JobName.INBOX, retry=False)

    async def _requeue_lost(self) -> None:
        """Requeues jobs whose worker was killed between two steps: those that two checks in a row find lost."""
        found = jobs.find_lost(self._queue_redis)
        for lost in sorted(found & self._lost_before):
            if jobs.requeue_lost(self._queue_redis, lost):
                log.warning("lost job requeued", job=lost.job_id)
        self._lost_before = found

    async def _report(self) -> None:
        wanted = await with_report(self._settings, self._installations)
        jobs.enqueue_for_each(self._queue_redis, JobName.REPORT, wanted)

    async def _ask_shards(self) -> None:
        asked = [
            each.id
            for each in await self._installations.all()
            if not each.suspended and any(pool.active_source for pool in self._settings.pools_of(each.org))
        ]
        jobs.enqueue_for_each(self._queue_redis, JobName.ACTIVE, asked)

    async def _report_gates(self) -> None:
        """Enqueues the gate job of orgs where a deployed commit waits for the gate."""
        waiting = partial(waits_for_gate, self._settings, self._reading, now=self.clock())
        jobs.enqueue_for_each(self._queue_redis, JobName.GATE, await self._installations_where(waiting))

    async def _explain_queue(self) -> None:
        """Enqueues the queue check of orgs where a job has waited for a minute or a queue check run is open."""
        waiting = await self._installations_where(partial(has_queue, self._reading, now=self.clock()))
        jobs.enqueue_for_each(self._queue_redis, JobName.QUEUE, waiting)

    async def _installations_where(self, applies: Callable[[Installation], Awaitable[bool]]) -> list[int]:
        """Returns the ids of installations for which a query is true. Those of `AT_ONCE` share round trips to Redis."""
        found: list[int] = []
        async for several in self._installations.batches(AT_ONCE):
            asked = [each for each in several if not each.suspended]
            found += compress([each.id for each in asked], await asyncio.gather(*map(applies, asked)))
        return found

    async def _reap(self) -> None:
        """Enqueues the reaper for orgs whose pools have namespaces, unless the reaper is off."""
        with_pods = [
            each.id
            for each in await self._installations.all()
            if not each.suspended
            and any(pool.namespace for pool in self._settings.pools_of(each.org))
            and self._settings.of(each.org).leaks.mode != "off"
        ]
        jobs.enqueue_for_each(self._queue_redis, JobName.REAP, with_pods)

    async def _redeliver(self) -> None:
        jobs.enqueue(self._queue_redis, JobName.REDELIVER, key="redeliver", retry=False)

    async def _redeliver_rest(self) -> None:
        """Enqueues the next batch while attempts are planned: short jobs leave time for other queues."""
        if await self._inbox.planned_redeliveries():
            await self._redeliver()

    async def _notify(self) -> None:
        jobs.enqueue(self._queue_redis, JobName.NOTIFICATIONS, key="notifications", retry=False)

    async def _discover(self) -> None:
        jobs.enqueue(self._queue_redis, JobName.INSTALLATIONS, key="installations", retry=False)

    async def _rediscover(self) -> None:
        if await self._schedule.next_discovery() is None:
            await self._discover()


async def with_report(settings: Settings, installations: Installations) -> list[int]:
    """Returns the ids of installations that have a report repository, or pools with pods, whose phantoms are due."""
    return [
        each.id
        for each in await installations.all()
        if not each.suspended
        and wants_report(settings.of(each.org).report.repository, each.org, settings.pools_of(each.org))
    ]


async def has_queue(stores: Stores, installation: Installation, now: float) -> bool:
    """True if a job has waited for `NOT_ASSIGNED_SECONDS`, or a check run may have to be completed."""
    if await stores.queue_checks.any(installation.id):
        return True
    jobs = await stores.demand.all(installation.id)
    return any(
        job.status == "queued" and not job.waiting and now - job.queued_at >= NOT_ASSIGNED_SECONDS for job in jobs
    )


async def waits_for_gate(settings: Settings, stores: Stores, installation: Installation, now: float) -> bool:
    """True if a commit that was deployed in an org waits for the gate, or if its gate check must be completed."""
    pools = [pool for pool in settings.pools_of(installation.org) if pool.deploy_repository]
    known = await stores.gate_checks.list(installation.id) if pools else {}
    deploys = {pool.name: await stores.shards.deploys(installation.id, pool.name) for pool in pools}
    is_open = any(open_gate_checks(pool, deploys[pool.name], known, now) for pool in pools)
    return is_open or bool(superseded(pools, deploys, known))
