"""The demand document: queued and running jobs by pool, and jobs that no online runner can take."""

from __future__ import annotations

from collections.abc import Mapping

from ghapp.health.demand import NONE_ASSIGNED, demand
from ghapp.health.queue.job_queue import JobQueue
from ghapp.health.runner.evidence import Survey
from ghapp.report.documents import Document, timestamp


def demand_document(queue: JobQueue, survey: Survey, assigned: Mapping[str, int] = NONE_ASSIGNED) -> Document:
    """Returns the document; `observed_at` is the time of the last runner list, None before any sweep.

    `assigned` is the cluster's own count by pool; pools without such a count are missing from it.
    """
    pools, unserved = demand(queue, assigned)
    return {
        "org": queue.inputs.org,
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
