"""Reads GitHub's delivery log, and records which deliveries are missing, for all installations.

Redelivery reads it regularly, a confirmation and the reaper when they need it. GitHub's log is read from its newest
end. Of very many failures one read covers a part; redelivery continues before it.
"""

from __future__ import annotations

from ghapp.deliveries.redelivery import KEPT_SECONDS, Redeliveries, by_installation, to_redeliver
from ghapp.deliveries.store import TOP, RedeliveryCursor
from ghapp.errors import GitHubError
from ghapp.github.delivery_log import CONFIRMATION_LIMITS, LIMITS, Failures, failed_attempts
from ghapp.installations.pacing import CallLimits
from ghapp.log import logger
from ghapp.runners.delivery_lag import DeliveryLog, LogReading, MissingDeliveries, log_after, log_after_failure
from jobs.context import JobContext

log = logger(__name__)

OVERLAP_SECONDS = 600.0
"""By how much clocks may differ, GitHub's and those of all workers, and by how much GitHub's record may lag."""


async def plan_from_log(context: JobContext) -> tuple[int, ...]:
    """Returns the ids of the attempts that GitHub should repeat now; records how far the read came.

    Only the read that reaches the oldest failure knows since when all deliveries arrived.

    Raises:
        GitHubError: the log cannot be read; that is recorded.
    """
    async with context.locks.acquire("delivery-log", "app", context.locks.outliving_seconds) as mine:
        if not mine:
            return ()
        # The cursor is used once: if GitHub no longer knows it, the next read starts again.
        place = await context.inbox.take_cursor()
        now, failures, found = await _read(context, place, LIMITS, begins=place == TOP)
        if failures.before and failures.attempts:
            await context.inbox.save_cursor(RedeliveryCursor(failures.before, failures.attempts[-1].at))
        else:
            all_came_until = now if place == TOP else place.at
            await context.inbox.mark_complete_until(all_came_until if found.since is None else found.since)
        return found.ask


async def log_read_since(context: JobContext, since: float) -> DeliveryLog:
    """Returns GitHub's delivery log as read at that time (our clock) or later; reads it if it was not read since.

    Without such an answer the result shows the log as unreadable.
    """
    known = await context.delivery_status.log()
    if _is_recent(known, since, context.clock()):
        return known
    why = "another process is reading it"
    async with context.locks.acquire("delivery-log", "app", context.locks.outliving_seconds) as mine:
        known = await context.delivery_status.log()
        if mine and not _is_recent(known, since, context.clock()):
            try:
                await _read(context, TOP, CONFIRMATION_LIMITS, begins=False)
            except GitHubError as error:
                why = str(error)
            known = await context.delivery_status.log()
    now = context.clock()
    return known if _is_recent(known, since, now) else log_after_failure(known, why, now)


def _is_recent(known: DeliveryLog, since: float, now: float) -> bool:
    read_at = known.read_at
    return known.failing_since is None and read_at is not None and since <= read_at <= now


async def _read(
    context: JobContext, place: RedeliveryCursor, limits: CallLimits, *, begins: bool
) -> tuple[float, Failures, Redeliveries]:
    """Reads the log from a place back; returns when that began, what failed, and what to request again."""
    now, complete_until = context.clock(), await context.inbox.complete_until() or 0.0
    if complete_until > now:  # written by a clock that ran ahead
        complete_until = 0.0
    since = max(complete_until - OVERLAP_SECONDS, now - KEPT_SECONDS)
    known = await context.delivery_status.log()
    try:
        failures = await failed_attempts(context.github, since, place.cursor, limits)
    except GitHubError as error:
        await context.delivery_status.save_log(log_after_failure(known, str(error), now))
        raise
    kept = await context.inbox.known({attempt.guid for attempt in failures.attempts}, now)
    found = to_redeliver(failures.attempts, kept, now)
    await context.delivery_status.mark_missing([attempt.guid for attempt in found.missing], now)
    missing = tuple(
        MissingDeliveries(installation, several[0].at, several[-1].at, len(several))
        for installation, several in by_installation(found.missing).items()
    )
    until = failures.attempts[-1].at if failures.before and failures.attempts else None
    reading = LogReading(now, missing, since, until, place == TOP, begins)
    await context.delivery_status.save_log(log_after(known, reading))
    return now, failures, found
