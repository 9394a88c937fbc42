"""Records where the App is installed: at the start, regularly, and when a delivery reports a change.

An installation that is suspended, or lacks the permission to read runners, is not swept. A delivery may report that
sweeps are permitted again; deliveries get lost, so GitHub is also queried, as often as the installation would be swept.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import floor

from ghapp.github.deliveries import Delivery
from ghapp.installations.installation import (
    PERSON,
    UNINSTALLED_DISCOVERY_SECONDS,
    Installation,
    enterprise_scope,
)
from ghapp.installations.repositories import rules_of, to_list_again
from ghapp.installations.scope import ScopeKind
from ghapp.log import logger
from ghapp.queue.jobs import JobName, enqueue_for_each
from ghapp.runners.next_attempt import why_not_swept
from jobs.context import JobContext, configured, open_context
from jobs.installations.enrol import enrol, warn_of_name
from jobs.periodic_task import PeriodicTask, SchedulerContext, enqueue_one

log = logger(__name__)

DISCOVER_SECONDS, REDISCOVER_SECONDS = 300.0, 30.0

BEGUN = ("created", "unsuspend", "new_permissions_accepted")
ENDED = ("suspend", "deleted")

PER_PAGE = 100
CALLS_AN_HOUR = 1250
"""The budget for installations that prevent sweeps, of the App's own hourly limit of 5,000."""


async def discover() -> None:
    """The job: queries GitHub for all installations."""
    async with open_context(configured()) as context:
        await discover_installations(context)


async def discover_installations(context: JobContext) -> int:
    """Records every installation and schedules its sweeps, or ends them; returns how many exist, scopes included.

    Scopes of enterprises are recorded with them; those of repositories stay with their installation, and a job of each
    installation finds new ones.

    First sweeps are staggered over the interval by the installation's id, so that a restart spreads its calls. An
    installation that permits sweeps again is swept at once. While any does not, discovery runs again within its
    interval.
    """
    reported = await context.github.installations()
    before = {each.id: each for each in await context.installations.all()}
    of_app = {each.id: each for each in before.values() if each.kind is ScopeKind.ORGANIZATION}
    listed = [*reported.with_known(of_app), *_enterprises(context)]
    remaining = {each.id for each in listed}
    removed = [each.id for each in before.values() if each.caller not in remaining]
    await context.uninstalled.removed(removed, context.clock())
    found = await context.installations.replace_all(listed)
    await context.uninstalled.returned([each.id for each in found])
    for installation in found:
        await _renew_token(context, before.get(installation.id), installation)
        if not installation.parent:
            warn_of_name(context, installation)
        interval = context.settings.of(installation.org).sweep.interval_seconds
        offset = installation.id % max(1, int(interval)) if len(found) > 1 else 0
        known = before.get(installation.id)
        await enrol(context, installation, offset, at_once=known is not None and why_not_swept(known) is not None)
    for each in removed:
        await context.schedule.remove(each)
    await context.uninstalled.expire(context.clock())
    await _discover_again(context, found)
    _look_for_scopes(context, found)
    _ask_for_shards(context, (each for each in found if each.id not in before))
    log.info("installations", found=len(found), missing={each.org: each.missing() for each in found if each.missing()})
    return len(found)


def _enterprises(context: JobContext) -> list[Installation]:
    """Returns the scopes of the configured enterprises; GitHub is not asked, because Apps cannot see enterprises."""
    return [enterprise_scope(each.enterprise) for each in context.settings.scopes if each.enterprise is not None]


def _look_for_scopes(context: JobContext, found: Iterable[Installation]) -> None:
    """Enqueues the search for repositories that are scopes, of installations that have any or a rule for them."""
    with_scopes = {each.parent for each in found}
    searched = [
        each.id
        for each in found
        if each.id in with_scopes or (not each.suspended and rules_of(each, context.settings.scopes))
    ]
    enqueue_for_each(context.queue_redis, JobName.SCOPES, searched)


def _ask_for_shards(context: JobContext, new: Iterable[Installation]) -> None:
    """Enqueues the first query for the active shards of new installations: the next periodic one may be far."""
    pools_of = context.settings.pools_of
    with_source = [each.id for each in new if any(pool.active_source for pool in pools_of(each.org))]
    enqueue_for_each(context.queue_redis, JobName.ACTIVE, with_source)


async def _discover_again(context: JobContext, found: list[Installation]) -> None:
    """Schedules discovery within the interval of each installation that prevents sweeps, and records its date.

    What ends for an installation, ends for its repositories; a person's account is never swept. Without any
    installation it is due within `UNINSTALLED_DISCOVERY_SECONDS`. Runs begin at multiples of the wait, each with a key
    of its time, so that there is one at a time.
    """
    now = context.clock()
    due = now + DISCOVER_SECONDS
    waiting = [each for each in found if not each.parent and not each.is_personal and why_not_swept(each)]
    intervals = [context.settings.of(each.org).sweep.interval_seconds for each in waiting]
    if not found:
        intervals = [UNINSTALLED_DISCOVERY_SECONDS]
    if intervals:
        slot, at = _next_slot(now, min(intervals), _of_app(found))
        due = min(due, at)
        if due == at:
            context.ask(JobName.INSTALLATIONS, key=f"installations-{slot}", after_seconds=due - now)
    await context.schedule.discover_at(due)


async def discover_soon(context: JobContext) -> None:
    """Enqueues a discovery after deliveries about installations; all of them that arrive before it begins share it.

    Its key is of its time: a discovery that runs now may have read its list before the delivery.
    """
    now = context.clock()
    slot, at = _next_slot(now, UNINSTALLED_DISCOVERY_SECONDS, _of_app(await context.installations.all()))
    context.ask(JobName.INSTALLATIONS, key=f"installations-delivered-{slot}", after_seconds=at - now)


def _of_app(found: Iterable[Installation]) -> int:
    """Returns how many of these GitHub lists as the App's installations."""
    return sum(each.kind is ScopeKind.ORGANIZATION for each in found)


def _next_slot(now: float, wait: float, installations: int) -> tuple[int, float]:
    """Returns the number and the time of the next discovery; the wait is longer where a list takes many calls."""
    wait = max(wait, -(-installations // PER_PAGE) * 3600 / CALLS_AN_HOUR)
    slot = floor(now / wait) + 1
    return slot, slot * wait


async def list_repositories_again(context: JobContext, installation_id: int) -> None:
    """Has the next search for scopes list the installation's repositories, whose names or number have changed."""
    if (known := await context.scoped_repositories.get(installation_id)) is not None:
        await context.scoped_repositories.put(installation_id, to_list_again(known))


async def contradict(context: JobContext, installation_id: int) -> None:
    """Discards GitHub's cached answers about an installation and its repositories' scopes, after a delivery."""
    for each in (installation_id, *(scope.id for scope in await context.installations.scopes_of(installation_id))):
        await context.installation_states.contradict(each)


async def installation_changed(context: JobContext, delivery: Delivery) -> None:
    """Applies an `installation` delivery at once; the discovery that follows corrects it where needed."""
    payload, action = delivery.installation, delivery.action
    if payload is None or action not in (*BEGUN, *ENDED):
        return
    await contradict(context, payload.id)
    if action == "deleted":
        removed = [payload.id, *(each.id for each in await context.installations.scopes_of(payload.id))]
        await context.uninstalled.removed(removed, context.clock())
        await context.installations.remove(*removed)
        for each in removed:
            await context.schedule.remove(each)
    elif payload.account is not None:
        installation = Installation(
            payload.id,
            payload.account.login,
            payload.account.id,
            payload.permissions,
            suspended=action == "suspend",
            is_personal=payload.account.type == PERSON,
        )
        before = await context.installations.one(payload.id)
        known = await context.installations.put(installation)
        await context.uninstalled.returned([payload.id])
        await _renew_token(context, before, known)
        warn_of_name(context, known)
        await enrol(context, known, at_once=True)
        if why_not_swept(known) is not None:
            await _discover_again(context, await context.installations.all())
    await context.reports.try_again(payload.id)
    log.info("installation changed", installation=payload.id, action=action)


async def _renew_token(context: JobContext, before: Installation | None, now: Installation) -> None:
    """Deletes the installation's token when its permissions changed: a token keeps its first permissions."""
    if before is not None and dict(before.permissions) != dict(now.permissions):
        await context.github.forget_token(now.id)


_enqueue_discovery = enqueue_one(JobName.INSTALLATIONS, "installations")


async def _enqueue_without_date(context: SchedulerContext) -> None:
    if await context.schedule.next_discovery() is None:
        await _enqueue_discovery(context)


DISCOVER = PeriodicTask("discover", DISCOVER_SECONDS, _enqueue_discovery)
REDISCOVER = PeriodicTask("rediscover", REDISCOVER_SECONDS, _enqueue_without_date)
"""Discovers while Redis has no date of the next discovery: it lost its data, or no discovery has succeeded yet."""
