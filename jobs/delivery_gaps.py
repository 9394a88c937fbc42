"""Whether deliveries are complete: a condition of each confirmation, and of each pod that the reaper deletes.

While some are missing or late, a runner that may have left after its job is not confirmed as lost. GitHub's delivery
log is read regularly by redelivery, and when a confirmation or the reaper needs it: from its newest end. Of very many
failures one read covers a part; redelivery continues before it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

from ghapp.deliveries.redelivery import KEPT_SECONDS, Redeliveries, by_installation, to_redeliver
from ghapp.deliveries.store import TOP, RedeliveryCursor
from ghapp.errors import GitHubError
from ghapp.github.delivery_log import CONFIRMATION_LIMITS, LIMITS, Failures, failed_attempts
from ghapp.installations.installation import Installation
from ghapp.installations.pacing import CallLimits
from ghapp.installations.scope import ScopeKind
from ghapp.log import logger
from ghapp.runners.delivery_lag import (
    DeliveryGap,
    DeliveryLog,
    LogReading,
    MissingDeliveries,
    completeness,
    confirmation_deferred,
    expected_at,
    has_waited,
    in_words,
    left_in_gap,
    log_after,
    log_after_failure,
)
from ghapp.runners.evidence import Evidence, Survey, missing_since
from jobs.context import JobContext

OVERLAP_SECONDS = 600.0
"""By how much clocks may differ, GitHub's and those of all workers, and by how much GitHub's record may lag."""

log = logger(__name__)

MEMORY_SECONDS = 10.0
"""How long the log need not be read again for a confirmation. GitHub ends an attempt after ten seconds."""


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


async def expect_deliveries(context: JobContext, installation: Installation, records: Collection[Evidence]) -> None:
    """Records since when a delivery must have come, according to a list that was just recorded.

    While a list has such work, what is known of deliveries does not expire.
    """
    if not any(each.busy and each.listed and each.running_job is None for each in records):
        return
    if installation.kind is ScopeKind.ENTERPRISE:
        return  # its jobs may be of organizations without the App
    facts = (await context.delivery_status.facts([installation.caller]))[installation.caller]
    at = expected_at(records, facts.arrivals, facts.expected_at, context.clock())
    if at is not None:
        await context.delivery_status.expect(installation.caller, at)


async def without_deferred(
    context: JobContext, installation: Installation, suspects: Mapping[int, Evidence], survey: Survey
) -> dict[int, Evidence]:
    """Returns the suspects that may be confirmed; records of the others that their confirmation is deferred.

    Args:
        context: the context of the job.
        installation: of these runners.
        suspects: with a first 404, by id.
        survey: of the last list.
    """
    now = context.clock()
    if not suspects:
        return {}
    first_404_at = max(each.first_404_at or 0.0 for each in suspects.values())
    gaps = await delivery_gaps(context, installation, max(first_404_at, now - MEMORY_SECONDS))
    doubtful = [each for each in suspects.values() if left_in_gap(each, gaps, survey)]
    deferred = {each.id for each in doubtful if not has_waited(each, survey, now)}
    if deferred:
        fold = partial(confirmation_deferred, at=now)
        await context.runners.revise(installation.id, dict.fromkeys(deferred, fold))
        why = in_words(gaps)
        log.info(
            "confirmation deferred", installation=installation.id, org=installation.org, runners=len(deferred), why=why
        )
    waited = [each for each in doubtful if each.id not in deferred]
    if waited:
        log.warning(
            "deliveries stay behind, confirmation continues",
            installation=installation.id,
            org=installation.org,
            runners=len(waited),
            absent_since=min(missing_since(each) for each in waited),
            why=in_words(gaps),
        )
    return {runner_id: each for runner_id, each in suspects.items() if runner_id not in deferred}


async def delivery_gaps(context: JobContext, installation: Installation, log_since: float) -> tuple[DeliveryGap, ...]:
    """Returns the gaps of the installation's deliveries, by GitHub's log as read at `log_since` or later.

    A repository's deliveries are its installation's. Those of an enterprise's jobs are of any installation.
    """
    delivery_log = await log_read_since(context, log_since)
    sources = [installation.caller]
    if installation.kind is ScopeKind.ENTERPRISE:
        known = await context.installations.all()
        sources = [each.id for each in known if each.kind is ScopeKind.ORGANIZATION]
    facts, now = await context.delivery_status.facts(sources), context.clock()
    return tuple(gap for each in sources for gap in completeness(facts[each]._replace(log=delivery_log), now))
