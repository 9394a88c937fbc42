"""The clock: gives due sweeps and due work to the workers. Two may run; each slot goes to one of them."""

from __future__ import annotations

import asyncio
import signal
import time

from redis.exceptions import RedisError

from ghapp import work
from ghapp.errors import ConfigurationError
from ghapp.health.posting import repository_of
from ghapp.log import logger
from ghapp.settings import Settings
from ghapp.store.connect import connect, connect_sync
from ghapp.store.events import Events
from ghapp.store.inbox import Inbox
from ghapp.store.installations import Installations
from ghapp.store.schedule import Schedule
from ghapp.work import Work

log = logger(__name__)

TICK_SECONDS = 0.25
PUT_OFF_SECONDS = 20.0
"""A sweep that was given out and says nothing more is given out again after this; a good one sets its own date."""

DISCOVER_SECONDS = 300.0
NEGLECTED_SECONDS = 60.0
REPORT_SECONDS = 10.0
"""How often each org's report is looked at: much changes by time alone, and must be told within 15 s."""


async def keep_time(settings: Settings) -> None:
    """Tick until SIGTERM or SIGINT. A Redis that is away is waited for."""
    if settings.redis_url is None:
        raise ConfigurationError("GHAPP_REDIS_URL: not set; every role but `up` needs it")
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    redis, desk = connect(settings.redis_url), connect_sync(settings.redis_url)
    schedule, events, inbox = Schedule(redis), Events(redis), Inbox(redis)
    discovered = neglected = reported = redelivered = 0.0
    while not stopped.is_set():
        now = time.time()
        try:
            if now - discovered >= DISCOVER_SECONDS:
                work.ask(desk, Work.INSTALLATIONS, key="installations", retry=False)
                discovered = now
            for installation in await schedule.take_due(now, PUT_OFF_SECONDS):
                work.ask_for_sweep(desk, installation)
            if now - reported >= REPORT_SECONDS:
                for installation in await reporting(settings, Installations(redis)):
                    work.ask_for_report(desk, installation)
                reported = now
            if now - redelivered >= settings.policy.deliveries.redeliver_seconds:
                work.ask(desk, Work.REDELIVER, key="redeliver", retry=False)
                redelivered = now
            if now - neglected >= NEGLECTED_SECONDS:
                for event_id in await events.unsent():
                    work.ask(desk, Work.NOTIFY, event_id, key=f"notify-{event_id}")
                if await inbox.lag():
                    work.ask(desk, Work.INBOX)
                neglected = now
            work.promote_due(desk, now)
        except RedisError as error:
            log.warning("clock waits for Redis", why=str(error))
            await asyncio.sleep(1)
        try:
            await asyncio.wait_for(stopped.wait(), TICK_SECONDS)
        except TimeoutError:
            continue
    await redis.aclose()
    desk.close()


async def reporting(settings: Settings, installations: Installations) -> list[int]:
    """The ids of installations that have a report repository of their own."""
    return [
        each.id
        for each in await installations.all()
        if not each.suspended and repository_of(settings.of(each.org).report.repository, each.org) is not None
    ]
