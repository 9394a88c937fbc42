"""Records where the App is installed: at the start, regularly, and when a delivery reports a change.

An installation that is suspended, or lacks the permission to read runners, is not swept. A delivery may report that
sweeps are permitted again; deliveries get lost, so GitHub is also queried, as often as the installation would be swept.
"""

from __future__ import annotations

from math import floor

from ghapp.github.deliveries import Delivery
from ghapp.installations.installation import UNINSTALLED_DISCOVERY_SECONDS, Installation, stale_name
from ghapp.log import logger
from ghapp.queue.jobs import JobName
from ghapp.runners.absence import survey_after_failure
from ghapp.runners.next_attempt import why_not_swept
from jobs.context import JobContext, configured, open_context
from jobs.installations.forget import forget_unswept
from jobs.scheduler import DISCOVER_SECONDS

log = logger(__name__)

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
    """Records every installation and schedules its sweeps, or ends them; returns how many installations exist.

    First sweeps are staggered over the interval by the installation's id, so that a restart spreads its calls. An
    installation that permits sweeps again is swept at once. While any does not, discovery runs again within its
    interval.
    """
    reported = await context.github.installations()
    before = {each.id: each for each in await context.installations.all()}
    listed = reported.with_known(before)
    removed = before.keys() - {each.id for each in listed}
    await context.uninstalled.removed(removed, context.clock())
    found = await context.installations.replace_all(listed)
    await context.uninstalled.returned([each.id for each in found])
    for installation in found:
        await _renew_token(context, before.get(installation.id), installation)
        warn_of_name(context, installation)
        interval = context.settings.of(installation.org).sweep.interval_seconds
        offset = installation.id % max(1, int(interval)) if len(found) > 1 else 0
        known = before.get(installation.id)
        await _enrol(context, installation, offset, at_once=known is not None and why_not_swept(known) is not None)
    for each in removed:
        await context.schedule.remove(each)
    await context.uninstalled.expire(context.clock())
    await _discover_again(context, found)
    log.info("installations", found=len(found), missing={each.org: each.missing() for each in found if each.missing()})
    return len(found)


async def _discover_again(context: JobContext, found: list[Installation]) -> None:
    """Schedules discovery within the interval of each installation that prevents sweeps, and records its date.

    Without any installation it is due within `UNINSTALLED_DISCOVERY_SECONDS`. Runs begin at multiples of the wait, each
    with a key of its time, so that there is one at a time.
    """
    now = context.clock()
    due = now + DISCOVER_SECONDS
    intervals = [context.settings.of(each.org).sweep.interval_seconds for each in found if why_not_swept(each)]
    if not found:
        intervals = [UNINSTALLED_DISCOVERY_SECONDS]
    if intervals:
        slot, at = _next_slot(now, min(intervals), len(found))
        due = min(due, at)
        if due == at:
            context.ask(JobName.INSTALLATIONS, key=f"installations-{slot}", after_seconds=due - now)
    await context.schedule.discover_at(due)


async def discover_soon(context: JobContext) -> None:
    """Enqueues a discovery after deliveries about installations; all of them that arrive before it begins share it.

    Its key is of its time: a discovery that runs now may have read its list before the delivery.
    """
    now = context.clock()
    slot, at = _next_slot(now, UNINSTALLED_DISCOVERY_SECONDS, len(await context.installations.all()))
    context.ask(JobName.INSTALLATIONS, key=f"installations-delivered-{slot}", after_seconds=at - now)


def _next_slot(now: float, wait: float, installations: int) -> tuple[int, float]:
    """Returns the number and the time of the next discovery; the wait is longer where a list takes many calls."""
    wait = max(wait, -(-installations // PER_PAGE) * 3600 / CALLS_AN_HOUR)
    slot = floor(now / wait) + 1
    return slot, slot * wait


async def installation_changed(context: JobContext, delivery: Delivery) -> None:
    """Applies an `installation` delivery at once; the discovery that follows corrects it where needed."""
    payload, action = delivery.installation, delivery.action
    if payload is None or action not in (*BEGUN, *ENDED):
        return
    await context.installation_states.contradict(payload.id)
    if action == "deleted":
        await context.uninstalled.removed([payload.id], context.clock())
        await context.installations.remove(payload.id)
        await context.schedule.remove(payload.id)
    elif payload.account is not None:
        installation = Installation(
            payload.id, payload.account.login, payload.account.id, payload.permissions, suspended=action == "suspend"
        )
        before = await context.installations.one(payload.id)
        known = await context.installations.put(installation)
        await context.uninstalled.returned([payload.id])
        await _renew_token(context, before, known)
        warn_of_name(context, known)
        await _enrol(context, known, at_once=True)
        if why_not_swept(known) is not None:
            await _discover_again(context, await context.installations.all())
    await context.reports.try_again(payload.id)
    log.info("installation changed", installation=payload.id, action=action)


async def _renew_token(context: JobContext, before: Installation | None, now: Installation) -> None:
    """Deletes the installation's token when its permissions changed: a token keeps its first permissions."""
    if before is not None and dict(before.permissions) != dict(now.permissions):
        await context.github.forget_token(now.id)


def warn_of_name(context: JobContext, installation: Installation) -> None:
    """Logs that an organization was renamed, and what to change, until the configuration has followed."""
    wrong = stale_name(installation, context.settings.named)
    if wrong is not None:
        log.warning(
            "the organization has another name",
            installation=installation.id,
            org=installation.org,
            login=installation.called,
            why=wrong.text,
            fix=wrong.fix,
        )


async def _enrol(
    context: JobContext, installation: Installation, offset_seconds: float = 0.0, *, at_once: bool = False
) -> None:
    """Schedules its sweeps if they are permitted; if not, logs since when, and why.

    A first sweep is due after the offset. With `at_once` the next one is due now, whatever its date was.
    """
    now, why = context.clock(), why_not_swept(installation)
    if why is None:
        await context.schedule.add(installation.id, now if at_once else now + offset_seconds)
        if at_once:
            await context.schedule.due_at(installation.id, now)
        return
    await context.schedule.remove(installation.id)
    survey = await context.runners.survey(installation.id)
    await context.runners.save_survey(installation.id, survey_after_failure(survey, why, now))
    await forget_unswept(context, installation)
