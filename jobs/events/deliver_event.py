"""Delivers the outbox's events to the URLs of their pools, independent of all jobs.

Each scheduler process runs this beside its ticks; one of them delivers, under a lock in Redis, and another takes over
within seconds. All URLs are served concurrently, so that a URL that never answers delays no other URL, no worker and no
sweep. `EventBacklog` decides what is sent when. It is kept in memory: a process that takes over tries each event once.

An event is sent at least once, under the same id each time, until it is accepted or a week old.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import NamedTuple

import msgspec
from httpx import AsyncClient

from ghapp.errors import LockLostError, ReplacerUnavailableError, StoreUnavailableError
from ghapp.health.pool_matching import rule_named, runner_pool
from ghapp.health.remediation.fuse import Fuse, fuse_of, fuse_of_runner
from ghapp.health.remediation.steps import (
    REPLACE,
    ReplacementPath,
    RequestStep,
    accepted,
    replacement_path,
    request_step,
)
from ghapp.log import logger
from ghapp.replace.cloudevents import open_client, post
from ghapp.replace.event_backlog import EventBacklog
from ghapp.settings import PoolSettings, Settings
from ghapp.store.events import Outgoing
from ghapp.store.fuses import WHOLE_ORG, Pause
from ghapp.store.stores import Stores

log = logger(__name__)

WORK = "deliver-event"
"""The label of failed attempts in the metric of failed jobs: they have no job, and matter as much."""

GIVEN_UP_SECONDS = 7 * 24 * 3600.0
"""As long as a lost runner waits. A URL that is down permanently must not fill the outbox."""

TICK_SECONDS = 0.25
"""Longest time between two reads of the outbox: an event's backoff or a pause may have ended."""

PAUSE_SECONDS = 0.1
"""Shortest time: what is added meanwhile is read together."""

ORGS_SECONDS = 5.0
"""Maximum age of the organization names by which an event's pool is found."""

STANDBY_SECONDS = 1.0
"""How often a process without the lock tries to acquire it."""

LOCK = ("events", "delivery")
LOCK_SECONDS = 5.0
"""The lock of a killed process expires after this."""


class Holds(NamedTuple):
    """What may hold back an installation's requests: pauses and fuses, by pool."""

    pauses: Mapping[str, Pause]
    fuses: Mapping[str, Fuse]


class EventAttempt(StrEnum):
    """What became of an attempt to deliver an event."""

    DONE = "done"
    """It left the outbox: accepted, dropped, or withdrawn."""
    LATER = "later"
    """Something holds it back."""
    SOON = "soon"
    """A worker looks again first."""


Look = Callable[[int, int], object]
"""Has a worker ask GitHub, for an installation and a lost runner, whether the runner or its name is registered."""


class Waits(NamedTuple):
    """An event of the outbox.

    Attributes:
        installation: its id.
        pool: the pool whose URL gets the event.
        at: when it happened (epoch seconds; 0 if unreadable).
        is_request: True for a replacement request; pauses, modes and fuses hold back these events and no others.
    """

    installation: int
    pool: str
    at: float
    is_request: bool = False


class EventDelivery:
    """Delivers events: `run` all of them while the process runs; `deliver` one."""

    def __init__(self, settings: Settings, stores: Stores, look: Look, clock: Callable[[], float] = time.time) -> None:
        """`clock` gives epoch seconds, for records and for the age of events."""
        self._settings, self._look, self._clock = settings, look, clock
        self._events, self._counters, self._fuses = stores.events, stores.counters, stores.fuses
        self._installations, self._runners = stores.installations, stores.runners
        self._locks = stores.locks.lasting(LOCK_SECONDS)
        self._orgs: dict[int, str] = {}
        self._orgs_due = 0.0

    async def run(self) -> None:
        """Delivers while this process holds the lock, and waits for the lock otherwise; until cancelled."""
        while True:
            try:
                async with self._locks.acquire(*LOCK) as acquired:
                    if acquired:
                        await self._deliver_all()
            except (StoreUnavailableError, LockLostError) as error:
                log.warning("event delivery interrupted, retrying", why=str(error))
            except Exception:
                log.exception("event delivery interrupted, retrying")
            await asyncio.sleep(STANDBY_SECONDS)

    async def deliver(self, event_id: str) -> None:
        """Posts one event of the outbox; does nothing if it was accepted before.

        Raises:
            ReplacerUnavailableError: the URL did not answer 2xx; after a week of that the event is dropped.
        """
        outgoing = await self._events.outgoing(event_id)
        if outgoing is not None:
            async with open_client() as client:
                await self._post(client, event_id, outgoing)

    async def _deliver_all(self) -> None:
        """Delivers until cancelled, or until Redis cannot be read."""
        backlog, known = EventBacklog(), dict[str, Waits]()
        async with open_client() as client:
            tasks: set[asyncio.Task[None]] = set()
            added = asyncio.create_task(self._events.await_added(TICK_SECONDS))
            try:
                while True:
                    await self._refresh(backlog, known)
                    for event_id in backlog.send(time.monotonic()):
                        task = asyncio.create_task(self._try(client, backlog, event_id))
                        tasks.add(task)
                        task.add_done_callback(tasks.discard)
                    changing = {added, *tasks}
                    await asyncio.sleep(PAUSE_SECONDS)
                    await asyncio.wait(changing, return_when=asyncio.FIRST_COMPLETED)
                    if added.done():
                        added.result()
                        added = asyncio.create_task(self._events.await_added(TICK_SECONDS))
            finally:
                for task in (added, *tasks):
                    task.cancel()
                await asyncio.gather(added, *tasks, return_exceptions=True)

    async def _refresh(self, backlog: EventBacklog, known: dict[str, Waits]) -> None:
        """Updates the backlog to what the outbox contains now."""
        unsent = set(await self._events.unsent())
        for event_id in known.keys() - unsent:
            del known[event_id]
        for event_id in unsent - known.keys():
            outgoing = await self._events.outgoing(event_id)
            if outgoing is not None:
                is_request = _type(outgoing) == REPLACE
                known[event_id] = Waits(outgoing.installation, outgoing.pool, _happened_at(outgoing), is_request)
        if known and time.monotonic() >= self._orgs_due:
            self._orgs = {each.id: each.org for each in await self._installations.all()}
            self._orgs_due = time.monotonic() + ORGS_SECONDS
        held = await self._held(known)
        backlog.keep({event_id: (self._url(each), each.at) for event_id, each in known.items() if event_id not in held})

    async def _held(self, known: Mapping[str, Waits]) -> set[str]:
        """Returns the ids of the requests that are held back.

        They are left out of the backlog: retries of them would delay other events to the same URL. Those of an
        organization that removed the App are not held: they are dropped.
        """
        requests = {event_id: each for event_id, each in known.items() if each.is_request}
        installations = {each.installation for each in requests.values()} & self._orgs.keys()
        holds = {each: await self._holds(each) for each in installations}
        return {
            event_id
            for event_id, each in requests.items()
            if each.installation in holds
            and self._is_held(holds[each.installation], self._orgs[each.installation], each.pool)
        }

    async def _holds(self, installation: int) -> Holds:
        return Holds(await self._fuses.pauses(installation), await self._fuses.all(installation))

    def _is_held(self, holds: Holds, org: str, pool: str, runner_id: int | None = None) -> bool:
        """True if the mode, a pause or a stopped fuse holds back the requests of this pool, or of this runner."""
        is_paused = WHOLE_ORG in holds.pauses or pool in holds.pauses
        acts = self._settings.of(org).remediation.mode == "act"
        fuse = fuse_of(holds.fuses, pool) if runner_id is None else fuse_of_runner(holds.fuses, pool, runner_id)
        return not acts or is_paused or fuse.holds_requests

    async def _try(self, client: AsyncClient, backlog: EventBacklog, event_id: str) -> None:
        """Posts one event and records the outcome in the backlog; raises only a cancellation."""
        url = backlog.waiting[event_id].url
        try:
            outgoing = await self._events.outgoing(event_id)
            if outgoing is None:  # it was accepted while the outbox was read
                backlog.drop(event_id)
                return
            match await self._post(client, event_id, outgoing):
                case EventAttempt.DONE:
                    if backlog.accepted(event_id):
                        log.info("event delivery recovered", url=url)
                case EventAttempt.SOON:
                    backlog.put_off(event_id, time.monotonic(), soon=True)
                case EventAttempt.LATER:
                    backlog.put_off(event_id, time.monotonic())
        except ReplacerUnavailableError as error:
            if backlog.refused(event_id, time.monotonic()):
                log.warning("event delivery failing", url=url, why=str(error))
            with suppress(StoreUnavailableError):
                await self._counters.add("ghapp_jobs_failed_total", work=WORK)
        except StoreUnavailableError as error:  # the URL may have the event, and gets it again under the same id
            backlog.put_off(event_id, time.monotonic())
            log.warning("Redis unavailable, retrying", event_id=event_id, why=str(error))
        except Exception:
            backlog.put_off(event_id, time.monotonic())
            log.exception("event not delivered", event_id=event_id)

    async def _post(self, client: AsyncClient, event_id: str, outgoing: Outgoing) -> EventAttempt:
        """Posts one event.

        A replace event goes to the URL of the pool that its runner has now. It waits while that pool is not configured
        or held back, or while its runner has a job; it is withdrawn if that pool has another replacer by now, whether
        or not the pool has a URL; once accepted, it is recorded on its runner first.

        Raises:
            ReplacerUnavailableError: the URL did not answer 2xx, and the event is not too old.
        """
        event = msgspec.json.decode(outgoing.event)
        installation = await self._installations.one(outgoing.installation)
        if installation is None:
            log.warning("event dropped, the App is not installed any more", event_id=event_id, pool=outgoing.pool)
            await self._events.accepted(event_id)
            return EventAttempt.DONE
        org, pool, runner_id, step = installation.org, outgoing.pool, None, RequestStep.SEND
        if event["type"] == REPLACE:
            runner_id = int(event["data"]["runner_id"])
            evidence = (await self._runners.some(outgoing.installation, [runner_id])).get(runner_id)
            if evidence is not None:
                pool = runner_pool(evidence, self._settings.pools_of(org))
            held = self._is_held(await self._holds(outgoing.installation), org, pool, runner_id)
            step = request_step(evidence, event_id, self._clock(), held=held)
        if step is RequestStep.WITHDRAW:
            log.info("replacement request withdrawn", event_id=event_id, pool=pool, runner=runner_id)
            await self._events.accepted(event_id)
            return EventAttempt.DONE
        rule = rule_named(pool, self._settings.pools_of(org))
        if runner_id is not None and rule is not None and replacement_path(rule) is not ReplacementPath.EVENT:
            log.info("replacement request withdrawn, its pool has another replacer", event_id=event_id, pool=pool)
            await self._events.accepted(event_id)  # the next plan has the runner replaced that way
            return EventAttempt.DONE
        if rule is None or rule.url is None or rule.secret_env is None:
            return await self._without_url(event_id, outgoing, pool, rule, is_request=runner_id is not None)
        if step is RequestStep.WAIT:
            return EventAttempt.LATER
        if step is RequestStep.LOOK and runner_id is not None:
            self._look(outgoing.installation, runner_id)
            return EventAttempt.SOON
        secret = self._settings.pool_secrets[rule.secret_env]
        try:
            await post(client, rule.url, secret, event_id, outgoing.event, time.time())
        except ReplacerUnavailableError as error:
            if not self._is_too_old(outgoing):
                raise
            log.warning("event given up", event_id=event_id, type=event["type"], pool=pool, why=str(error))
            await self._events.accepted(event_id)
            return EventAttempt.DONE
        if runner_id is not None:
            await self._record(outgoing.installation, runner_id, event_id)
        await self._events.accepted(event_id)
        return EventAttempt.DONE

    async def _without_url(
        self, event_id: str, outgoing: Outgoing, pool: str, rule: PoolSettings | None, *, is_request: bool
    ) -> EventAttempt:
        """Decides on an event whose pool has no URL now: a granted request is not lost by a change of configuration."""
        may_return = is_request or any(each.name == outgoing.pool for each in self._settings.pools)
        if rule is None and may_return and not self._is_too_old(outgoing):
            return EventAttempt.LATER
        log.warning("event dropped, pool has no URL", event_id=event_id, pool=pool)
        await self._events.accepted(event_id)
        return EventAttempt.DONE

    async def _record(self, installation: int, runner_id: int, event_id: str) -> None:
        fold = partial(accepted, event_id=event_id, at=self._clock())
        await self._runners.revise(installation, {runner_id: fold})

    def _url(self, waits: Waits) -> str:
        """Returns the URL by stored names, without another read; empty for none.

        A request of a pool that has another replacer by now waits for no URL: it is withdrawn.
        """
        rule = rule_named(waits.pool, self._settings.pools_of(self._orgs.get(waits.installation, "")))
        if rule is None or (waits.is_request and replacement_path(rule) is not ReplacementPath.EVENT):
            return ""
        return rule.url or ""

    def _is_too_old(self, outgoing: Outgoing) -> bool:
        return self._clock() - _happened_at(outgoing) > GIVEN_UP_SECONDS


def _type(outgoing: Outgoing) -> str:
    """Returns the type of an event; empty if unreadable."""
    try:
        return str(msgspec.json.decode(outgoing.event)["type"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return ""


def _happened_at(outgoing: Outgoing) -> float:
    try:
        return datetime.fromisoformat(msgspec.json.decode(outgoing.event)["time"]).timestamp()
    except (msgspec.DecodeError, KeyError, TypeError, ValueError):
        return 0.0
