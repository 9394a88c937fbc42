"""The result of a run: every runner, delivery and key is accounted for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median
from typing import Any, NamedTuple

from redis import Redis as SyncRedis
from redis.asyncio import Redis
from rq import Queue
from rq.job import Job
from rq.registry import ScheduledJobRegistry, StartedJobRegistry
from rq.serializers import JSONSerializer

from ghapp.deliveries.store import Inbox
from ghapp.installations.pacing import MOST_IN_FLIGHT
from ghapp.notifications.event_store import Events
from ghapp.queue.jobs import QUEUES
from ghapp.remediation.fuse import Position
from ghapp.remediation.store import Fuses
from ghapp.store.connect import connect_sync
from tests.chaos.installation import Installation

MOST_POINTS_A_MINUTE = 900
"""GitHub's secondary limit."""


class Stored(NamedTuple):
    """The state in Redis: deliveries kept and dead (GUIDs), backlogs, and positions of the fuses."""

    kept: set[str]
    dead: set[str]
    lag: int
    unsent: int
    fuses: dict[str, Position]


class Figure(NamedTuple):
    """A line of the account; `wrong` is the reason if it fails, else empty."""

    name: str
    value: str
    wrong: str = ""


class Account(NamedTuple):
    """All counts of a run.

    Attributes:
        seen: the sandbox' own account, `ghapp.sandbox.ledger`.
        sent: GUIDs of all deliveries that GitHub's record has.
        blocked: ids of jobs that block their key and will never run, and locks that never expire.
        resumed: how often a person had to resume a stopped fuse.
    """

    seen: dict[str, Any]
    stored: Stored
    sent: set[str]
    blocked: list[str]
    gave_up: list[str]
    started: int
    resumed: int

    @property
    def lost(self) -> list[dict[str, Any]]:
        """Registrations that were lost."""
        return list(self.seen["losses"])

    @property
    def own_end(self) -> list[dict[str, Any]]:
        """Lost registrations that came back, or whose runner ended by itself, before ghapp acted."""
        return [each for each in self.lost if not _noticed_at(each) and (each["restored_at"] or each["ended_at"])]

    @property
    def open(self) -> list[dict[str, Any]]:
        """Lost registrations that were not replaced and did not end by themselves."""
        return [each for each in self.lost if not (each["replace_event_at"] or each["restored_at"] or each["ended_at"])]

    @property
    def seconds_to_notice(self) -> list[float]:
        """Seconds from each loss to ghapp's first action on it."""
        return sorted(at - each["lost_at"] for each in self.lost if (at := _noticed_at(each)))

    @property
    def not_reflected(self) -> set[str]:
        """Deliveries in GitHub's log without an effect that are not dead letters."""
        return self.sent - self.stored.kept - self.stored.dead

    @property
    def settled(self) -> bool:
        """True if there is nothing left to wait for."""
        stored = self.stored
        waiting = self.open or self.not_reflected or self.blocked or stored.lag or stored.unsent
        return not waiting and all(position is Position.CLOSED for position in stored.fuses.values())

    def figures(self) -> Iterator[Figure]:
        """Yields the lines of the account."""
        noticed, seen, stored = self.seconds_to_notice, self.seen, self.stored
        yield Figure("runners lost", f"{len(self.lost)}, of them {len(self.own_end)} came back or ended by themselves")
        yield _none("lost and not replaced", [f"{each['name']} ({each['runner_id']})" for each in self.open])
        yield Figure("seconds to notice", f"median {median(noticed):.1f}, worst {noticed[-1]:.1f}" if noticed else "-")
        yield _none("wrongful removals", seen["wrongful_removals"])
        yield _none("wrongful replacements", seen["wrongful_replacements"])
        yield Figure("replacements asked", f"{seen['replacements']['asked']}")
        yield _none("asked twice", sorted(seen["replacements"]["doubled"]))
        reflected = len(self.sent) - len(self.not_reflected)
        attempts, dropped = seen["deliveries"], seen["deliveries"]["dropped"]
        yield Figure("deliveries sent", f"{len(self.sent)}, in {attempts['sent'] + attempts['failed']} attempts")
        yield Figure("deliveries lost", f"{dropped}, which only sweeps can compensate")
        yield Figure("deliveries reflected", f"{reflected}, of them {len(stored.dead)} dead letters")
        yield _none("deliveries not reflected", sorted(self.not_reflected))
        yield _none("keys still blocked", self.blocked)
        yield _none("events that wait for their url", ["event"] * stored.unsent)
        open_fuses = [f"{pool} {at}" for pool, at in stored.fuses.items() if at is not Position.CLOSED]
        yield _none("fuses not closed", open_fuses)
        yield Figure("fuses resumed by a person", f"{self.resumed}")
        yield Figure("processes started", f"{self.started}")
        yield _none("roles that gave up", self.gave_up)
        for org, pressure in seen["pressure"].items():
            yield _at_most(f"calls in flight, {org}", pressure["most_in_flight"], MOST_IN_FLIGHT)
            yield _at_most(f"points a minute, {org}", pressure["most_points_a_minute"], MOST_POINTS_A_MINUTE)

    def violations(self) -> list[str]:
        """What must not be, in words; empty when all held."""
        return [f"{figure.name}: {figure.wrong}" for figure in self.figures() if figure.wrong]


def account_of(context: Installation, resumed: int) -> Account:
    """Count everything as it is now."""
    deliveries, app = context.sandbox.world.deliveries, context.sandbox.app
    sent = context.sandbox.control.in_world(lambda: {each.guid for each in deliveries.log(app)})
    stored = context.ask(lambda redis: _stored(redis, context.installation, sent))
    with connect_sync(context.redis.url) as queue_redis:
        blocked = _blocked(queue_redis)
    seen = context.sandbox.control.account()
    return Account(seen, stored, sent, blocked, list(context.gave_up), context.started, resumed)


async def _stored(redis: Redis, installation: int, sent: set[str]) -> Stored:
    inbox = Inbox(redis)
    return Stored(
        kept=await inbox.known(sent, time.time()),
        dead={letter.guid for letter in await inbox.dead()},
        lag=await inbox.lag(),
        unsent=len(await Events(redis).unsent()),
        fuses={pool: fuse.position for pool, fuse in (await Fuses(redis).all(installation)).items()},
    )


def _blocked(queue_redis: SyncRedis) -> list[str]:
    """What is in no queue and in no registry, looked at twice: in between a job may be on its way."""
    first = _nowhere(queue_redis)
    if first:
        time.sleep(1.0)
    return sorted(first & _nowhere(queue_redis)) if first else []


def _nowhere(queue_redis: SyncRedis) -> set[str]:
    there: set[str] = set()
    for name in QUEUES:
        queue = Queue(name, connection=queue_redis, serializer=JSONSerializer)
        there.update(queue.job_ids)
        there.update(ScheduledJobRegistry(queue=queue).get_job_ids(cleanup=False))
        there.update(StartedJobRegistry(queue=queue).get_job_ids(cleanup=False))
        there.update(queue.failed_job_registry.get_job_ids(cleanup=False))  # blocks no key: `work.ask` clears it
    prefix = Job.redis_job_namespace_prefix
    kept = {key.decode().removeprefix(prefix) for key in queue_redis.scan_iter(f"{prefix}*", count=1000)}
    ids = {job_id for job_id in kept if ":" not in job_id}
    eternal = {key.decode() for key in queue_redis.scan_iter("ghapp:lock:*", count=1000) if queue_redis.ttl(key) == -1}
    return (ids - there) | eternal


def _noticed_at(loss: dict[str, Any]) -> float | None:
    return min((at for at in (loss["delete_asked_at"], loss["replace_event_at"]) if at is not None), default=None)


def _none(name: str, found: list[Any]) -> Figure:
    shown = ", ".join(str(each) for each in found[:5])
    return Figure(name, str(len(found)), f"{len(found)} and not 0: {shown}" if found else "")


def _at_most(name: str, value: int, most: int) -> Figure:
    return Figure(name, f"{value} of {most}", f"{value} exceeds {most}" if value > most else "")
