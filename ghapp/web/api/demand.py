"""The demand document: queued and running jobs by pool, and jobs that no online runner can take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ghapp.health.demand import NONE_ASSIGNED, AvailableRunner, demand
from ghapp.health.job import Job
from ghapp.health.pool_matching import PoolRule, runner_pool
from ghapp.health.runner.evidence import Evidence, Survey
from ghapp.health.runner.verdict import is_absent
from ghapp.report.documents import Document, timestamp


def demand_document(
    org: str,
    survey: Survey,
    runners: Iterable[Evidence],
    jobs: Iterable[Job],
    rules: Sequence[PoolRule],
    now: float,
    assigned: Mapping[str, int] = NONE_ASSIGNED,
) -> Document:
    """Returns the document as of `now`; `observed_at` is the time of the last runner list, None before any sweep.

    `assigned` is the cluster's own count by pool; pools without such a count are missing from it.
    """
    pools, unserved = demand(jobs, workers(runners, rules), rules, now, assigned)
    return {
        "org": org,
        "observed_at": None if survey.swept_at is None else timestamp(survey.swept_at),
        "pools": [
            {
                "pool": row.pool,
                "queued": row.queued,
                "running": row.running,
                "online": row.online,
                "idle": row.idle,
                "assigned": row.assigned,
            }
            for row in pools
        ],
        "unserved": [
            {
                "job_id": row.job.id,
                "repository": row.job.repository,
                "labels": row.job.labels,
                "queued_at": timestamp(row.job.queued_at),
                "reason": row.reason.value,
            }
            for row in unserved
        ],
    }


def workers(runners: Iterable[Evidence], rules: Sequence[PoolRule]) -> list[AvailableRunner]:
    """Returns the runners that can take a job, now or when they come back online."""
    return [
        AvailableRunner(
            runner_pool(evidence, rules),
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
