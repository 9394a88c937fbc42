"""The clock: enqueues due sweeps and other periodic jobs, and delivers events beside that.

Two may run: each slot goes to one of them, and one of them delivers.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from ghapp.errors import ConfigurationError, StoreUnavailableError
from ghapp.health.gate.gate_checks import open_gate_checks, superseded
from ghapp.health.installation import Installation
from ghapp.health.queue.capacity import NOT_ASSIGNED_SECONDS
from ghapp.log import logger
from ghapp.queue import jobs
from ghapp.queue.jobs import JobName
from ghapp.queue.transitions import Enqueued
from ghapp.report.check_run_state import repository_of
from ghapp.settings import Settings
from ghapp.store.connect import connect, connect_sync
from ghapp.store.installations import Installations
from ghapp.store.stores import Stores, stores_over
from jobs.events.deliver_event import EventDelivery

log = logger(__name__)

TICK_SECONDS = 0.25
PUT_OFF_SECONDS = 20.0
"""A sweep that was given out and says nothing more is given out again after this; a good one sets its own date."""

DISCOVER_SECONDS = 300.0
DRAIN_SECONDS = 1.0
"""How often a drain is asked for while deliveries wait. One that ended with some left, or missed the last, is followed
by another within this time; until then the worker is free for other queues."""

REDELIVERY_BATCH_SECONDS = 6.0
"""How often the next batch of redeliveries is asked for while any are left."""

NEGLECTED_SECONDS = 5.0
REPORT_SECONDS = 10.0
"""How often each org's report is looked at: much changes by time alone, and must be told within 15 s."""

GATE_SECONDS = 10.0
"""How often it is looked whether a deployed commit waits for the gate's answer."""

QUEUE_SECONDS = 15.0
"""How often each org is checked for jobs that wait for a minute or more."""

ACTIVE_SECONDS = 30.0
"""How often blue/green pools are asked which shard is active; the gate takes an answer for five minutes."""

REAP_SECONDS = 60.0
"""How often stamped pods are looked at; less often than every `leak.MOST_GAP_SECONDS`, no clock of theirs would run."""

NOTIFY_SECONDS = 15.0
"""How often conditions are observed and notifications sent, if any receiver is configured."""

WAIT_SECONDS = 1.0
"""For a Redis that is away."""


async def run_scheduler(settings: Settings) -> None:
    """Tick until SIGTERM or SIGINT. A Redis that goes away is waited for."""
    if settings.redis_url is None:
        raise ConfigurationError("GHAPP_REDIS_URL: not set; every role but `up` needs it")
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    clock = Scheduler(settings)
    try:
        await clock.begin()
        async with _delivering(settings, clock.stores):
            while not stopped.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(stopped.wait(), await clock.tick())
    finally:
        await clock.close()


@asynccontextmanager
async def _delivering(settings: Settings, stores: Stores) -> AsyncIterator[None]:
    """Events are delivered while the block runs."""
    delivery = asyncio.create_task(EventDelivery(settings, stores).run())
    try:
        yield
    finally:
        delivery.cancel()
        await asyncio.gather(delivery, return_exceptions=True)


class Scheduler:
    """Enqueues what is due. Each periodic task has a monotonic time of its own: a jump of the wall clock stops none."""

    def __init__(self, settings: Settings) -> None:
        if settings.redis_url is None:
            raise ConfigurationError("GHAPP_REDIS_URL: not set; every role but `up` needs it")
        self._settings = settings
        self.stores, self._desk = (
            stores_over(connect(settings.redis_url), settings.named),
            connect_sync(settings.redis_url),
        )
        self._schedule, self._installations = self.stores.schedule, self.stores.installations
        self._inbox = self.stores.inbox
        self._heartbeats, self._name = self.stores.heartbeats, f"{socket.gethostname()}-{os.getpid()}"
        self._chores: list[tuple[float, Callable[[], Awaitable[None]]]] = [
            (TICK_SECONDS, self._sweep),
            (TICK_SECONDS, self._promote),
            (NEGLECTED_SECONDS, self._beat),
            (DRAIN_SECONDS, self._drain),
            (NEGLECTED_SECONDS, self._requeue_lost),
            (REPORT_SECONDS, self._report),
            (ACTIVE_SECONDS, self._ask_shards),
            (QUEUE_SECONDS, self._explain_queue),
            *([(GATE_SECONDS, self._gates)] if any(pool.deploy_repository for pool in settings.pools) else []),
            (settings.policy.deliveries.redeliver_seconds, self._redeliver),
            (REDELIVERY_BATCH_SECONDS, self._redeliver_rest),
            (DISCOVER_SECONDS, self._discover),
            *([(NOTIFY_SECONDS, self._notify)] if settings.notify_urls else []),
            *([(REAP_SECONDS, self._reap)] if settings.namespaces else []),
        ]
        self._due = [0.0] * len(self._chores)
        self._missed: set[Enqueued] = set()

    async def begin(self) -> None:
        """Checks that Redis answers; raises StoreUnavailableError, which at the start is a configuration error."""
        await self.stores.redis.ping()

    async def tick(self) -> float:
        """Do the chores that are due; seconds until the next tick."""
        now = time.monotonic()
        try:
            for number, (every, chore) in enumerate(self._chores):
                if now >= self._due[number]:
                    await chore()
                    self._due[number] = now + every
        except StoreUnavailableError as error:
            log.warning("Redis unavailable, retrying", why=str(error))
            return WAIT_SECONDS
        return TICK_SECONDS

    async def close(self) -> None:
        """Let go of the connections."""
        await self.stores.redis.aclose()
        self._desk.close()

    async def _sweep(self) -> None:
        for installation in await self._schedule.take_due(time.time(), PUT_OFF_SECONDS):
            jobs.enqueue_sweep(self._desk, installation)

    async def _promote(self) -> None:
        jobs.promote_due(self._desk, time.time())

    async def _beat(self) -> None:
        await self._heartbeats.beat("clock", self._name, time.time())

    async def _drain(self) -> None:
        if await self._inbox.lag():
            jobs.enqueue(self._desk, JobName.INBOX, retry=False)

    async def _requeue_lost(self) -> None:
        """Jobs whose worker was killed between two steps: lost is what is found twice."""
        found = jobs.find_lost(self._desk)
        for lost in sorted(found & self._missed):
            if jobs.requeue_lost(self._desk, lost):
                log.warning("lost job requeued", job=lost.job_id)
        self._missed = found

    async def _report(self) -> None:
        for installation in await reporting(self._settings, self._installations):
            jobs.enqueue_report(self._desk, installation)

    async def _ask_shards(self) -> None:
        for each in await self._installations.all():
            if not each.suspended and any(pool.active_source for pool in self._settings.pools_of(each.org)):
                jobs.enqueue(self._desk, JobName.ACTIVE, each.id, key=f"active-{each.id}", retry=False)

    async def _gates(self) -> None:
        """Only while a commit waits: in most hours there is nothing to look at, and no job for it."""
        for each in await self._installations.all():
            if not each.suspended and await is_waited_for(self._settings, self.stores, each, time.time()):
                jobs.enqueue_gates(self._desk, each.id)

    async def _explain_queue(self) -> None:
        """Only where a job has waited for a minute, or a check run of the queue is known."""
        for each in await self._installations.all():
            if not each.suspended and await has_queue(self.stores, each, time.time()):
                jobs.enqueue(self._desk, JobName.QUEUE, each.id, key=f"queue-{each.id}", retry=False)

    async def _reap(self) -> None:
        """Only where an org's pools say where their pods are, and its reaper is not switched off."""
        for each in await self._installations.all():
            has_pods = any(pool.namespace for pool in self._settings.pools_of(each.org))
            if has_pods and not each.suspended and self._settings.of(each.org).leaks.mode != "off":
                jobs.enqueue(self._desk, JobName.REAP, each.id, key=f"reap-{each.id}", retry=False)

    async def _redeliver(self) -> None:
        jobs.enqueue(self._desk, JobName.REDELIVER, key="redeliver", retry=False)

    async def _redeliver_rest(self) -> None:
        """Only while a plan has attempts left: one short job a batch, so that other queues have their turns between."""
        if await self._inbox.planned_redeliveries():
            await self._redeliver()

    async def _notify(self) -> None:
        jobs.enqueue(self._desk, JobName.NOTIFICATIONS, key="notifications", retry=False)

    async def _discover(self) -> None:
        jobs.enqueue(self._desk, JobName.INSTALLATIONS, key="installations", retry=False)


async def reporting(settings: Settings, installations: Installations) -> list[int]:
    """The ids of installations that have a report repository of their own."""
    return [
        each.id
        for each in await installations.all()
        if not each.suspended and repository_of(settings.of(each.org).report.repository, each.org) is not None
    ]


async def has_queue(stores: Stores, installation: Installation, now: float) -> bool:
    """True if a job has waited for `NOT_ASSIGNED_SECONDS`, or a check run may have to be completed."""
    if await stores.queue_checks.any(installation.id):
        return True
    jobs = await stores.demand.all(installation.id)
    return any(
        job.status == "queued" and not job.waiting and now - job.queued_at >= NOT_ASSIGNED_SECONDS for job in jobs
    )


async def is_waited_for(settings: Settings, stores: Stores, installation: Installation, now: float) -> bool:
    """Whether a commit that was deployed in an org waits for the gate's answer."""
    pools = [pool for pool in settings.pools_of(installation.org) if pool.deploy_repository]
    known = await stores.gate_checks.rounds(installation.id) if pools else {}
    deploys = {pool.name: await stores.shards.deploys(installation.id, pool.name) for pool in pools}
    goes_on = any(open_gate_checks(pool, deploys[pool.name], known, now) for pool in pools)
    return goes_on or bool(superseded(pools, deploys, known))
