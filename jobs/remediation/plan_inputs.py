"""Reads what a plan of remediation needs besides runners and fuses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ghapp.installations.installation import Installation
from ghapp.installations.pool_matching import runner_pool
from ghapp.remediation.decision import DecisionInputs, deliveries_flow
from ghapp.remediation.fuse import Position
from ghapp.remediation.steps import (
    ReplacementPath,
    is_open,
    replacement_path,
)
from ghapp.report.org_view import OrgView
from ghapp.runners.evidence import Evidence
from ghapp.settings import PoolSettings
from ghapp.workflow_jobs.demand import queued_jobs
from jobs.context import JobContext
from jobs.delivery_gaps.completeness import delivery_gaps

LOG_LASTS_SECONDS = 120.0
"""GitHub's delivery log is read again if it is older, which redelivery usually prevents."""


async def load_inputs(
    context: JobContext, installation: Installation, view: OrgView, runners: Mapping[int, Evidence], now: float
) -> DecisionInputs:
    """Returns the inputs beside runners and fuses.

    Without deliveries, and while some are missing or late, it is unknown whether a job waits. That matters only while a
    fuse is stopped: then losses may be written off. What jobs ended matters while a fuse is not closed: a job that was
    queued before one of them is overtaken.
    """
    queued = None
    positions = {fuse.position for fuse in view.fuses.values()}
    is_known = deliveries_flow(runners.values(), now)
    if is_known and Position.STOPPED in positions:
        is_known = not await delivery_gaps(context, installation, now - LOG_LASTS_SECONDS)
    if is_known:
        ended = await context.demand.over(installation.id) if positions - {Position.CLOSED} else ()
        queued = queued_jobs([*await context.demand.all(installation.id), *ended], now)
    window = context.settings.of(installation.org).fuse.window_seconds
    reaped = await context.leaks.reaped_by_pool(installation.id, now - window)
    open_requests = _open_requests(runners.values(), context.settings.pools_of(installation.org))
    return DecisionInputs(view.survey, now, queued, view.claimed, reaped, open_requests)


def _open_requests(runners: Iterable[Evidence], rules: Sequence[PoolSettings]) -> Counter[str]:
    """Counts the requests that wait for their pool's URL; a controller that polls may leave them open."""
    pools = Counter(runner_pool(each, rules) for each in runners if is_open(each) and each.replaced_at is None)
    sent = {rule.name for rule in rules if replacement_path(rule) is ReplacementPath.EVENT}
    return Counter({pool: count for pool, count in pools.items() if pool in sent})
