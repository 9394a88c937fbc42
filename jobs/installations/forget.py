"""Deletes records of runners that left and of jobs that are over: after each list, and where no list is read.

An installation that is suspended, or does not permit sweeps, still gets deliveries. Discovery, which looks for its
permission, deletes what they leave behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from ghapp.installations.installation import Installation
from ghapp.log import logger
from ghapp.remediation.fuse import open_since
from ghapp.runners.evidence import Evidence, Survey
from ghapp.runners.transitions import is_expendable, may_be_forgotten
from ghapp.runners.verdict import Limits, judge
from ghapp.workflow_jobs.job import Job, is_over
from jobs.context import JobContext
from jobs.history.incidents import record_deleted

log = logger(__name__)

MOST_LEFT = 200_000
"""Records of runners that are not listed, of an installation: those of a day in which 140 ephemeral runners end a
minute. Beyond that the oldest are deleted before their day is over; they are unknown then.
"""

MOST_JOBS = 50_000
"""Jobs of an installation that are not over; beyond that the oldest queued ones are deleted."""


async def forget_unswept(context: JobContext, installation: Installation) -> None:
    """Deletes what is outdated of an installation that is not swept; reads nothing if there is nothing."""
    if not await context.runners.count(installation.id) and not await context.demand.count(installation.id):
        return
    survey, records = await context.runners.survey(installation.id), await context.runners.all(installation.id)
    limits = context.settings.of(installation.org).evidence
    await forget_outdated(context, installation, records.values(), survey, context.clock(), limits)


async def forget_outdated(
    context: JobContext,
    installation: Installation,
    records: Iterable[Evidence],
    survey: Survey,
    now: float,
    limits: Limits,
) -> list[Job]:
    """Deletes records of runners that left a day ago, and of jobs that must be over; returns the jobs that are not."""
    gone = {each.id: each for each in records if not each.listed}
    since = open_since((await context.fuses.all(installation.id)).values()) if gone else None

    def is_old(evidence: Evidence) -> bool:
        return may_be_forgotten(evidence, judge(evidence, survey, now, limits), now, counted_since=since)

    def is_over_the_bound(evidence: Evidence) -> bool:
        return is_expendable(evidence, judge(evidence, survey, now, limits))

    old = [each for each in gone.values() if is_old(each)]
    await record_deleted(context, installation, old, now)
    await context.runners.revise(installation.id, {each.id: partial(_unless, is_old) for each in old})
    if (excess := len(gone) - len(old) - MOST_LEFT) > 0:
        for each in old:
            del gone[each.id]
        early = sorted(filter(is_over_the_bound, gone.values()), key=_last_seen)[:excess]
        await context.runners.revise(installation.id, {each.id: partial(_unless, is_over_the_bound) for each in early})
        log.warning(
            "too many runners left, records deleted early",
            installation=installation.id,
            org=installation.org,
            count=len(early),
        )
    return await _forget_jobs(context, installation, now)


def _unless(is_deleted: Callable[[Evidence], bool], evidence: Evidence | None) -> Evidence | None:
    """The fold that deletes a record, unless it has changed meanwhile so that it stays."""
    return None if evidence is None or is_deleted(evidence) else evidence


async def _forget_jobs(context: JobContext, installation: Installation, now: float) -> list[Job]:
    jobs = await context.demand.all(installation.id)
    present = [job for job in jobs if not is_over(job, now)]
    if len(present) > MOST_JOBS:
        waiting = sorted((job for job in present if job.status == "queued"), key=lambda job: job.queued_at)
        excess = {job.id for job in waiting[: len(present) - MOST_JOBS]}
        log.warning(
            "too many jobs wait, the oldest deleted",
            installation=installation.id,
            org=installation.org,
            count=len(excess),
        )
        present = [job for job in present if job.id not in excess]
    kept = {job.id for job in present}
    await context.demand.forget(installation.id, [job.id for job in jobs if job.id not in kept])
    return present


def _last_seen(evidence: Evidence) -> float:
    return max(evidence.last_sign_at or 0.0, evidence.first_seen)
