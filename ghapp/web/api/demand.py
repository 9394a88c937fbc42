"""The demand document: queued and running jobs by pool, and jobs that no online runner can take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

import msgspec

from ghapp.health.demand import NONE_ASSIGNED, AvailableRunner, UnservedReason, demand
from ghapp.health.job import Job
from ghapp.health.pool_matching import PoolRule, pool_of
from ghapp.health.runner.evidence import Evidence, Survey
from ghapp.health.runner.verdict import is_absent
from ghapp.report.documents import Timestamp, timestamp

Count = Annotated[int, msgspec.Meta(ge=0)]


class PoolDemandDocument(msgspec.Struct, frozen=True):
    """A pool's jobs and runners. `assigned` is the cluster's own count, null without one."""

    pool: str
    queued: Count
    running: Count
    online: Count
    idle: Count
    assigned: Count | None


class UnservedDocument(msgspec.Struct, frozen=True):
    """A queued job that no online runner can take."""

    job_id: int
    repository: str
    labels: Sequence[str]
    queued_at: Timestamp
    reason: UnservedReason


class DemandDocument(msgspec.Struct, frozen=True):
    """Jobs by pool, and jobs that no runner can take."""

    org: str
    observed_at: Timestamp | None
    pools: list[PoolDemandDocument]
    unserved: list[UnservedDocument]


def demand_document(
    org: str,
    survey: Survey,
    runners: Iterable[Evidence],
    jobs: Iterable[Job],
    rules: Sequence[PoolRule],
    now: float,
    assigned: Mapping[str, int] = NONE_ASSIGNED,
) -> DemandDocument:
    """Returns the document as of `now`; `observed_at` is the time of the last runner list, None before any sweep.

    `assigned` is the cluster's own count by pool; pools without such a count are missing from it.
    """
    pools, unserved = demand(jobs, workers(runners, rules), rules, now, assigned)
    return DemandDocument(
        org,
        None if survey.swept_at is None else timestamp(survey.swept_at),
        [PoolDemandDocument(row.pool, row.queued, row.running, row.online, row.idle, row.assigned) for row in pools],
        [
            UnservedDocument(row.job.id, row.job.repository, row.job.labels, timestamp(row.job.queued_at), row.reason)
            for row in unserved
        ],
    )


def workers(runners: Iterable[Evidence], rules: Sequence[PoolRule]) -> list[AvailableRunner]:
    """Returns the runners that can take a job, now or when they come back online."""
    return [
        AvailableRunner(
            pool_of(evidence.labels, evidence.custom_labels, rules),
            evidence.labels,
            evidence.online,
            evidence.busy or evidence.running_job is not None,
        )
        for evidence in runners
        if evidence.registered and evidence.retired_at is None and not is_absent(evidence) and not _is_done(evidence)
    ]


def _is_done(evidence: Evidence) -> bool:
    """True if an ephemeral runner has finished its only job; lists still contain it for a while."""
    return bool(evidence.ephemeral) and evidence.job_ended_at is not None
