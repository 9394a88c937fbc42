"""Resumes remediation for an admin: recorded under their name, published, and followed by a sweep."""

from __future__ import annotations

from math import inf

from ghapp.health.installation import Installation
from ghapp.health.remediation.decision import DecisionInputs, by_pool, counts_for
from ghapp.store.fuses import Resumption
from jobs.checks.health_report import enqueue_report_if_wanted
from jobs.context import JobContext
from jobs.events.publish import publish_fuse_changes


async def resume_installation(
    context: JobContext, installation: Installation, by: str, until: float = inf
) -> Resumption:
    """Ends the pauses of an org that were made by `until` (epoch seconds), and restarts fuses stopped by then.

    A sweep comes first, so that lost runners are checked again before anything acts on them.
    """
    now, policy = context.clock(), context.settings.of(installation.org)
    done = await context.fuses.resume(installation, None, by, now, policy.fuse, until)
    survey = await context.runners.survey(installation.id)  # first, so that the runners are not older than the survey
    runners = await context.runners.all(installation.id)
    rules = context.settings.pools_of(installation.org)
    pools = by_pool(runners.values(), survey, rules, now, policy.evidence)
    counts = counts_for(pools, done.proving, rules, policy.fuse, DecisionInputs(survey, now))
    await publish_fuse_changes(context, installation, done.proving, counts, now)
    await context.schedule.due_at(installation.id, now)
    enqueue_report_if_wanted(context, installation)
    return done
