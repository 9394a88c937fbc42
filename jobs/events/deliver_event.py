"""Delivers the outbox's events to the URLs of their pools, independent of all jobs.

Each scheduler process runs this beside its ticks; one of them delivers, under a lock in Redis, and another takes over
within seconds. All URLs are served concurrently, so that a URL that never answers delays no other URL, no worker and no
sweep. `EventBacklog` decides what is sent when. It is kept in memory: a process that takes over tries each event once.

A tick reads what was added to the outbox and, each second, what holds back requests; the whole outbox is read now and
then. So events that wait for a URL that is down cost next to nothing.

An event is sent at least once, under the same id each time, until it is accepted or a week old.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple

import msgspec
from httpx import AsyncClient

from ghapp.errors import LockLostError, ReplacerUnavailableError, StoreUnavailableError
from ghapp.installations.pool_matching import ALL_POOLS, rule_named, runner_pool
from ghapp.log import logger
from ghapp.notifications.event_store import Outgoing
from ghapp.queue.jobs import JOBS_FAILED
from ghapp.remediation.fuse import Fuse, fuse_of, fuse_of_runner
from ghapp.remediation.pause import Pause
from ghapp.remediation.steps import (
    REPLACE,
    ReplacementPath,
    RequestStep,
    accepted,
    replacement_path,
    request_step,
)
from ghapp.replace.cloudevents import open_client, post
from ghapp.replace.event_backlog import OutboxCopy, OutboxGroup
from ghapp.settings import PoolSettings, Settings
from ghapp.store.stores import Stores

log = logger(__name__)

WORK = "deliver-event"
"""The label of failed attempts in the metric of failed jobs: they have no job, and matter as much."""

GIVEN_UP_SECONDS = 7 * 24 * 3600.0
"""As long as a lost runner waits. A URL that is down permanently must not fill the outbox."""

TICK_SECONDS = 0.25
"""Longest time between two ticks: an event's backoff may have ended."""

PAUSE_SECONDS = 0.1
"""Shortest time: what is added meanwhile is read together."""

OUTBOX_SECONDS = 10.0
"""Seconds between two reads of the ids of the whole outbox, which find what the feed of added events has lost."""

READ_AT_ONCE = 500
"""Events that are read by one command."""

PLACES_SECONDS = 1.0
"""Maximum age of what holds back requests; it is read again before a request is sent."""

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


class EventDelivery:
    """Delivers events: `run` all of them while the process runs; `deliver` one."""

    def __init__(self, settings: Settings, stores: Stores, look: Look, clock: Callable[[], float] = time.time) -> None:
        """`clock` gives epoch seconds, for records and for the age of events."""
        self._settings, self._look, self._clock = settings, look, clock
        self._events, self._counters, self._fuses = stores.events, stores.counters, stores.fuses
        self._installations, self._runners = stores.installations, stores.runners
        self._locks = stores.locks.lasting(LOCK_SECONDS)
        self._orgs: dict[int, str] = {}
        self._places: dict[OutboxGroup, str | None] = {}
        self._orgs_due = self._places_due = self._outbox_due = 0.0

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
        outbox, self._outbox_due, self._places_due = OutboxCopy(), 0.0, 0.0
        async with open_client() as client:
            tasks: set[asyncio.Task[None]] = set()
            adding, added = asyncio.create_task(self._events.added(TICK_SECONDS)), list[str]()
            try:
                while True:
                    await self._refresh(outbox, added)
                    for event_id in outbox.backlog.send(time.monotonic()):
                        task = asyncio.create_task(self._try(client, outbox, event_id))
                        tasks.add(task)
                        task.add_done_callback(tasks.discard)
                    changing: set[asyncio.Task[Any]] = {adding, *tasks}
                    await asyncio.sleep(PAUSE_SECONDS)
                    await asyncio.wait(changing, return_when=asyncio.FIRST_COMPLETED)
                    added = []
                    if adding.done():
                        added = adding.result()
                        adding = asyncio.create_task(self._events.added(TICK_SECONDS))
            finally:
                for running in (adding, *tasks):
                    running.cancel()
                await asyncio.gather(adding, *tasks, return_exceptions=True)

    async def _refresh(self, outbox: OutboxCopy, added: Sequence[str]) -> None:
        """Updates the copy: what was added and, now and then, what left the outbox, and what is held back."""
        now = time.monotonic()
        if now >= self._outbox_due:
            added = await self._events.unsent()
            outbox.keep(added)
            self._outbox_due = now + OUTBOX_SECONDS
        fresh = [event_id for event_id in added if event_id not in outbox]
        for start in range(0, len(fresh), READ_AT_ONCE):
            found = await self._events.several_outgoing(fresh[start : start + READ_AT_ONCE])
            for event_id, outgoing in found.items():
                group = OutboxGroup(outgoing.installation, outgoing.pool, _type(outgoing) == REPLACE)
                outbox.add(event_id, group, _happened_at(outgoing))
        if now >= self._places_due or outbox.groups.keys() - self._places.keys():
            self._places = await self._places_of(outbox.groups.keys())
            self._places_due = now + PLACES_SECONDS
        outbox.place(self._places)

    async def _places_of(self, groups: Collection[OutboxGroup]) -> dict[OutboxGroup, str | None]:
        """Returns the URL of each group; None for requests that are held back.

        Those of an organization that removed the App are not held: they are dropped.
        """
        if groups and time.monotonic() >= self._orgs_due:
            self._orgs = {each.id: each.org for each in await self._installations.all()}
            self._orgs_due = time.monotonic() + ORGS_SECONDS
        with_requests = {each.installation for each in groups if each.is_request} & self._orgs.keys()
        holds = {each: await self._holds(each) for each in with_requests}
        held = {
            each
            for each in groups
            if each.is_request
            and each.installation in holds
            and self._is_held(holds[each.installation], self._orgs[each.installation], each.pool)
        }
        return {each: None if each in held else self._url(each) for each in groups}

    async def _holds(self, installation: int) -> Holds:
        return Holds(await self._fuses.pauses(installation), await self._fuses.all(installation))

    def _is_held(self, holds: Holds, org: str, pool: str, runner_id: int | None = None) -> bool:
        """True if the mode, a pause or a stopped fuse holds back the requests of this pool, or of this runner."""
        is_paused = ALL_POOLS in holds.pauses or pool in holds.pauses
        acts = self._settings.of(org).remediation.mode == "act"
        fuse = fuse_of(holds.fuses, pool) if runner_id is None else fuse_of_runner(holds.fuses, pool, runner_id)
        return not acts or is_paused or fuse.holds_requests

    async def _try(self, client: AsyncClient, outbox: OutboxCopy, event_id: str) -> None:
        """Posts one event and records the outcome in the backlog; raises only a cancellation."""
        backlog = outbox.backlog
        url = backlog.waiting[event_id].url
        try:
            outgoing = await self._events.outgoing(event_id)
            if outgoing is None:  # it was accepted, or dropped, while the outbox was read
                backlog.drop(event_id)
                outbox.remove(event_id)
                return
            match await self._post(client, event_id, outgoing):
                case EventAttempt.DONE:
                    if backlog.accepted(event_id):
                        log.info("event delivery recovered", url=url)
                    outbox.remove(event_id)
                case EventAttempt.SOON:
                    backlog.put_off(event_id, time.monotonic(), soon=True)
                case EventAttempt.LATER:
                    backlog.put_off(event_id, time.monotonic())
        except ReplacerUnavailableError as error:
            if backlog.refused(event_id, time.monotonic()):
                log.warning("event delivery failing", url=url, why=str(error))
            with suppress(StoreUnavailableError):
                await self._counters.add(JOBS_FAILED, work=WORK)
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
            await self._events.accepted(event_id, outgoing)
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
            await self._events.accepted(event_id, outgoing)
            return EventAttempt.DONE
        rule = rule_named(pool, self._settings.pools_of(org))
        if runner_id is not None and rule is not None and replacement_path(rule) is not ReplacementPath.EVENT:
            log.info("replacement request withdrawn, its pool has another replacer", event_id=event_id, pool=pool)
            await self._events.accepted(event_id, outgoing)  # the next plan has the runner replaced that way
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
            await self._events.accepted(event_id, outgoing)
            return EventAttempt.DONE
        if runner_id is not None:
            await self._record(outgoing.installation, runner_id, event_id)
        await self._events.accepted(event_id, outgoing)
        return EventAttempt.DONE

    async def _without_url(
        self, event_id: str, outgoing: Outgoing, pool: str, rule: PoolSettings | None, *, is_request: bool
    ) -> EventAttempt:
        """Decides on an event whose pool has no URL now: a granted request is not lost by a change of configuration."""
        may_return = is_request or any(each.name == outgoing.pool for each in self._settings.pools)
        if rule is None and may_return and not self._is_too_old(outgoing):
            return EventAttempt.LATER
        log.warning("event dropped, pool has no URL", event_id=event_id, pool=pool)
        await self._events.accepted(event_id, outgoing)
        return EventAttempt.DONE

    async def _record(self, installation: int, runner_id: int, event_id: str) -> None:
        fold = partial(accepted, event_id=event_id, at=self._clock())
        await self._runners.revise(installation, {runner_id: fold})

    def _url(self, group: OutboxGroup) -> str:
        """Returns the URL by stored names, without another read; empty for none.

        A request of a pool that has another replacer by now waits for no URL: it is withdrawn.
        """
        rule = rule_named(group.pool, self._settings.pools_of(self._orgs.get(group.installation, "")))
        if rule is None or (group.is_request and replacement_path(rule) is not ReplacementPath.EVENT):
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
