"""Workflow jobs, why each queued one waits, and the demand document: jobs by pool, and those that nothing can take."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ghapp.deaths.job_outcome import NOTHING_KNOWN
from ghapp.report.documents import Timestamp, timestamp
from ghapp.runners.evidence import Survey
from ghapp.web.fleet_view import FleetReader
from ghapp.web.operation import (
    CURSOR,
    DEFAULT_PAGE,
    IF_NONE_MATCH,
    LIMIT,
    MOST_AT_ONCE,
    NOT_A_CURSOR,
    NOT_A_LIMIT,
    POOL,
    RUNNER_ID,
    Answer,
    Clock,
    Handler,
    Operation,
    Parameter,
    etag_matches,
    problems,
    whole_number,
)
from ghapp.web.problems import problem
from ghapp.workflow_jobs.demand import NONE_ASSIGNED, demand
from ghapp.workflow_jobs.documents import JOB_STATES, JobDocument, job_document, select_jobs
from ghapp.workflow_jobs.job import SHORTEST_SHA, JobOrigin, JobSearch, PullReference, is_sha
from ghapp.workflow_jobs.job_queue import JobQueue
from ghapp.workflow_jobs.reason import QueueReason
from ghapp.workflow_jobs.texts import KNOWN_JOBS


class JobsPage(msgspec.Struct, frozen=True):
    """A page of the jobs, by id. `total` counts all matches."""

    jobs: list[JobDocument]
    total: Annotated[int, msgspec.Meta(ge=0)]
    next_cursor: str | None


PULL = "^([A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}#[1-9][0-9]{0,9})?$"
"""A pull request, or nothing."""

LIST_JOBS = Operation(
    "GET",
    "/v1/orgs/{org}/jobs",
    "Jobs, by id, in pages: queued, running, and those that ended within the last hour (the latest 5,000); with "
    "`runner`, `sha` (a commit, or its first digits), `run_id` or `pull` (`OWNER/REPOSITORY#NUMBER`) those of the last "
    "30 days; with `check_run` those that a check run of ghapp, by its id, is about. `branch` "
    "and `actor` (a login) select among these. `why` is the reason why a queued job waits; null in its first minute "
    "while a runner is idle.",
    {200: Answer("A page.", JobsPage), 304: Answer("Nothing has changed."), **problems(404)},
    "read",
    parameters=[
        Parameter("state", {"type": "string", "enum": list(JOB_STATES)}),
        POOL,
        Parameter("runner"),
        Parameter("sha", {"type": "string", "pattern": f"^([0-9a-fA-F]{{{SHORTEST_SHA},64}})?$"}),
        Parameter("run_id", RUNNER_ID),
        Parameter("pull", {"type": "string", "pattern": PULL}),
        Parameter("check_run", RUNNER_ID),
        Parameter("branch"),
        Parameter("actor"),
        LIMIT,
        CURSOR,
        IF_NONE_MATCH,
    ],
)
GET_JOB = Operation(
    "GET",
    "/v1/orgs/{org}/jobs/{job_id}",
    "One job and its story: queued, running, or over for less than 30 days.",
    {
        200: Answer("The job.", JobDocument),
        **problems(404, because="No delivery reported the job, or the App is not installed there."),
    },
    "read",
    in_path={"job_id": RUNNER_ID},
)
OPERATIONS = (LIST_JOBS, GET_JOB)


class JobEndpoints:
    """The endpoints."""

    def __init__(self, reader: FleetReader, clock: Clock) -> None:
        self._reader, self._clock = reader, clock

    def handlers(self) -> Mapping[Operation, Handler]:
        """Returns the handlers."""
        return {LIST_JOBS: self._list, GET_JOB: self._one}

    async def _list(self, request: Request) -> Response:
        """A page of jobs by id; 304 if it is the page that the client has."""
        org, now, query = request.path_params["org"], self._clock(), request.query_params
        state, cursor = query.get("state"), query.get("cursor", "0")
        limit, after = whole_number(query.get("limit", str(DEFAULT_PAGE))), whole_number(cursor)
        if state is not None and state not in JOB_STATES:
            return problem(400, f"{state!r} is not a state of a job; states are {', '.join(JOB_STATES)}")
        if limit is None or not 1 <= limit <= MOST_AT_ONCE:
            return problem(400, NOT_A_LIMIT)
        if after is None:
            return problem(400, NOT_A_CURSOR)
        run_id = whole_number(query["run_id"]) if "run_id" in query else None
        search = JobSearch(query.get("runner", ""), query.get("sha", ""), run_id)
        if "run_id" in query and not run_id:
            return problem(400, "run_id takes the id of a workflow run, a whole number of 1 or more")
        check_run = whole_number(query["check_run"]) if "check_run" in query else None
        if "check_run" in query and not check_run:
            return problem(400, "check_run takes the id of a check run, a whole number of 1 or more")
        if search.sha and not is_sha(search.sha):
            return problem(400, f"sha takes the id of a commit, or its first {SHORTEST_SHA} digits or more")
        pull = PullReference.parse(query.get("pull", ""))
        if query.get("pull") and pull is None:
            return problem(400, "pull takes OWNER/REPOSITORY#NUMBER, or the URL of a pull request")
        org_state = await self._reader.installed(org)
        queue = await self._reader.job_queue(org_state, now)
        if pull is not None:
            search = await self._reader.search_of_pull(org_state, pull, search)
        found = await self._reader.find_jobs(org_state, queue, search)
        if check_run:
            found = [*filter(search.matches, await self._reader.jobs_of_check_run(org_state, check_run))]
        origin = JobOrigin(query.get("branch", ""), query.get("actor", ""))
        chosen = select_jobs(queue, state, query.get("pool"), origin, found)
        start = bisect_right(chosen, after, key=lambda job: job.id)
        page = chosen[start : start + limit]
        following = str(page[-1].id) if len(chosen) > start + limit else None
        outcomes = await self._reader.job_outcomes(org_state, page, queue)
        documents = [job_document(queue, job, outcomes.get(job.id, NOTHING_KNOWN)) for job in page]
        body = msgspec.json.encode(JobsPage(documents, len(chosen), following))
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        headers = {"ETag": f"W/{tag}"}
        if etag_matches(tag, request.headers.get("if-none-match")):
            return Response(status_code=304, headers=headers)
        return Response(body, headers=headers, media_type="application/json")

    async def _one(self, request: Request) -> Response:
        """One job: queued, running, or over for less than 30 days."""
        org, given, now = request.path_params["org"], request.path_params["job_id"], self._clock()
        if not (job_id := whole_number(given)):
            return problem(400, f"{given!r}: a job id is a whole number of 1 or more")
        org_state = await self._reader.installed(org)
        job = await self._reader.job(org_state, job_id)
        if job is None:
            return problem(404, f"job {job_id} of {org} is not known: {KNOWN_JOBS}")
        queue = await self._reader.job_queue(org_state, now)
        outcome = (await self._reader.job_outcomes(org_state, [job], queue)).get(job_id, NOTHING_KNOWN)
        document = job_document(queue, job, outcome)
        return Response(msgspec.json.encode(document), media_type="application/json")


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
    # A pool without a runner that is not configured is named by labels: what scales it from zero needs that name.
    pools, unserved = demand(queue, assigned, queue.pool)
    return DemandDocument(
        queue.inputs.org,
        None if survey.swept_at is None else timestamp(survey.swept_at),
        [PoolDemandDocument(row.pool, row.queued, row.running, row.online, row.idle, row.assigned) for row in pools],
        [
            UnservedDocument(row.job.id, row.job.repository, row.job.labels, timestamp(row.job.queued_at), row.reason)
            for row in unserved
        ],
    )
