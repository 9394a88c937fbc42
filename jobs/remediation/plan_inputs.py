"""Reads what a plan of remediation needs besides runners and fuses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ghapp.installations.installation import Installation
from ghapp.installations.pool_matching import runner_pool
from ghapp.installations.scope import ScopeKind
from ghapp.remediation.decision import DecisionInputs, deliveries_flow
from ghapp.remediation.fuse import Position
from ghapp.remediation.job_proof import KnownJobs
from ghapp.remediation.steps import (
    ReplacementPath,
    is_open,
    replacement_path,
)
from ghapp.report.org_view import OrgView
from ghapp.runners.delivery_lag import DeliveryGap, GapCause
from ghapp.runners.evidence import Evidence
from ghapp.settings import PoolSettings
from ghapp.workflow_jobs.demand import known_jobs
from ghapp.workflow_jobs.job import Job
from jobs.context import JobContext
from jobs.delivery_gaps import delivery_gaps

GRANT_MATTERS_SECONDS = 2 * 3600.0
"""A fuse of several scopes that is not among those of the installation may prove the batch of a grant for so long."""

LATE = {GapCause.LATE, GapCause.BACKLOG}
"""Gaps that affect all deliveries alike; of any other, those of just the missing runners may be missing."""

LOG_LASTS_SECONDS = 120.0
"""GitHub's delivery log is read again if it is older, which redelivery usually prevents."""


async def load_inputs(
    context: JobContext, installation: Installation, view: OrgView, runners: Mapping[int, Evidence], now: float
) -> DecisionInputs:
    """Returns the inputs beside runners and fuses."""
    window = context.settings.of(installation.org).fuse.window_seconds
    return DecisionInputs(
        view.survey,
        now,
        await _known_jobs(context, installation, view, runners, now),
        view.claimed,
        await context.leaks.reaped_by_pool(installation.id, now - window),
        _open_requests(runners.values(), context.settings.pools_of(installation.org)),
    )


async def _known_jobs(
    context: JobContext, installation: Installation, view: OrgView, runners: Mapping[int, Evidence], now: float
) -> KnownJobs | None:
    """Returns the jobs that deliveries report; None without deliveries.

    While a fuse is not closed, jobs may prove its batch, and decide whether losses are written off: then it matters
    whether deliveries are missing or late, and which jobs have ended. Late ones prove a batch: they are late for all.
    """
    if not deliveries_flow(runners.values(), now):
        return None
    jobs = await context.demand.all(installation.id)
    is_granted = any(now - each.granted_at < GRANT_MATTERS_SECONDS for each in runners.values() if each.granted_at)
    is_written_off = any(each.not_needed_at is not None for each in runners.values())
    is_open = any(fuse.position is not Position.CLOSED for fuse in view.fuses.values())
    gaps: Sequence[DeliveryGap] = ()
    if is_open or is_granted:
        gaps = await delivery_gaps(context, installation, now - LOG_LASTS_SECONDS)
        if any(gap.cause not in LATE for gap in gaps):
            return None
        jobs += await context.demand.over(installation.id)
    if is_open or is_granted or is_written_off:
        jobs += await _waiting_elsewhere(context, installation)
    return known_jobs(jobs, now)._replace(is_behind=bool(gaps))


async def _waiting_elsewhere(context: JobContext, installation: Installation) -> list[Job]:
    """Returns the jobs that wait, count in another scope, and may be taken by runners of this one.

    A job that waits for runners of an enterprise counts in its organization; one that fits the runners of a repository
    and of its organization, in the repository's scope, and one that fits no runner there, in the organization's.
    """
    if installation.kind is ScopeKind.REPOSITORY:
        jobs = await context.demand.all(installation.caller)
        return [job for job in jobs if job.status == "queued" and job.repository.lower() == installation.org.lower()]
    if not context.settings.scopes:
        return []
    found: list[Job] = []
    for other in await context.installations.all():
        is_within = installation.kind is ScopeKind.ENTERPRISE or other.caller == installation.id
        if other.id != installation.id and is_within:
            found += [job for job in await context.demand.all(other.id) if job.status == "queued"]
    return found


def _open_requests(runners: Iterable[Evidence], rules: Sequence[PoolSettings]) -> Counter[str]:
    """Counts the requests that wait for their pool's URL; a controller that polls may leave them open."""
    pools = Counter(runner_pool(each, rules) for each in runners if is_open(each) and each.replaced_at is None)
    sent = {rule.name for rule in rules if replacement_path(rule) is ReplacementPath.EVENT}
    return Counter({pool: count for pool, count in pools.items() if pool in sent})
