"""The demand document: queued and running jobs by pool, and jobs that no online runner can take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from ghapp.report.documents import Timestamp, timestamp
from ghapp.runners.evidence import Survey
from ghapp.workflow_jobs.demand import NONE_ASSIGNED, demand
from ghapp.workflow_jobs.job_queue import JobQueue
from ghapp.workflow_jobs.reason import QueueReason

Count = Annotated[int, msgspec.Meta(ge=0)]


class PoolDemandDocument(msgspec.Struct, frozen=True):
    """A pool's jobs and runners. `assigned` is the number of ARC's objects that name a job, null without a cluster."""

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
    reason: QueueReason


class DemandDocument(msgspec.Struct, frozen=True):
    """Jobs by pool, and jobs that no runner can take."""

    org: str
    observed_at: Timestamp | None
    pools: list[PoolDemandDocument]
    unserved: list[UnservedDocument]


def demand_document(queue: JobQueue, survey: Survey, assigned: Mapping[str, int] = NONE_ASSIGNED) -> DemandDocument:
    """Returns the document; `observed_at` is the time of the last runner list, None before any sweep.

    `assigned` is the number of ARC's objects that name a job, by pool; pools without such a count are missing from it.
    """
    pools, unserved = demand(queue, assigned)
    return DemandDocument(
        queue.inputs.org,
        None if survey.swept_at is None else timestamp(survey.swept_at),
        [PoolDemandDocument(row.pool, row.queued, row.running, row.online, row.idle, row.assigned) for row in pools],
        [
            UnservedDocument(row.job.id, row.job.repository, row.job.labels, timestamp(row.job.queued_at), row.reason)
            for row in unserved
        ],
    )
