"""Workflow jobs of one repository, and GitHub's annotations on them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, NamedTuple
from urllib.parse import quote

import msgspec

from ghapp.deaths.github_words import JobAnnotation
from ghapp.deaths.post_mortem import JobFacts
from ghapp.deaths.rerun import RunFacts
from ghapp.decoding import MOST_LABELS, Count, Id, Moment, Name, RowDecoder, Text
from ghapp.errors import GitHubUnavailableError
from ghapp.github.installation_client import InstallationClient
from ghapp.github.ports import Sender
from ghapp.github.response import PER_PAGE, expect
from ghapp.github.wire import read, read_rows
from ghapp.pods.assigned_job import JobOfRun
from ghapp.workflow_jobs.job import Job, known_status
from ghapp.workflow_jobs.job_steps import StepState, job_steps

MOST_RUN_PAGES = 20
"""2,000 jobs: a run has at most 256 for each attempt."""

MOST_LISTED_PAGES = 10
"""GitHub lists a thousand runs of a status, however many there are."""

LOG_TAIL_BYTES = 65_536
LONGEST_LOG_BYTES = 32 * 1_048_576
"""A longer log is not read: its address may not support ranges."""

NOTES_READ = 100
"""GitHub itself adds a handful of annotations; the workflow adds up to 50."""


class _Step(msgspec.Struct):
    number: Count = 0
    status: Text = ""
    conclusion: Text | None = None
    started_at: Text | None = None
    name: Text = ""


class _Job(msgspec.Struct):
    """A job. Its steps are read as a whole: those that cannot be read may have failed."""

    id: Id
    status: Text
    name: Text = ""
    head_sha: Text = ""
    conclusion: Text | None = None
    html_url: Text | None = None
    completed_at: Moment | None = None
    steps: msgspec.Raw = msgspec.Raw(b"[]")
    run_id: Count = 0
    run_attempt: Count = 1


class _Run(msgspec.Struct):
    id: Id
    workflow_id: Count
    status: Text | None = None
    conclusion: Text | None = None
    run_attempt: Count = 1
    event: Text = ""
    head_branch: Text | None = None
    run_started_at: Moment | None = None


class _Runs(msgspec.Struct):
    workflow_runs: list[_Run]


class _RunId(msgspec.Struct):
    id: Id


class _RunIds(msgspec.Struct):
    total_count: Count
    workflow_runs: list[_RunId]


class RunsInStatus(NamedTuple):
    """Runs in a status, by id, and how many there are."""

    ids: tuple[int, ...]
    total: int


class _RunJob(msgspec.Struct):
    id: Id
    status: Text
    name: Text = ""
    run_id: Count = 0
    run_attempt: Count = 1
    workflow_name: Text | None = None
    head_sha: Text = ""
    head_branch: Text | None = None
    html_url: Text | None = None
    runner_group_name: Text | None = None
    labels: Annotated[list[Name], msgspec.Meta(max_length=MOST_LABELS)] = []
    runner_id: Count | None = None
    runner_name: Text | None = None
    created_at: Moment | None = None
    started_at: Moment | None = None
    completed_at: Moment | None = None


class _RunJobs(msgspec.Struct):
    total_count: Count
    jobs: list[_RunJob]


class _Annotation(msgspec.Struct):
    message: str | None = None
    annotation_level: Text | None = None
    path: Text | None = None
    title: Text | None = None


_job = RowDecoder[_Job]("job", _Job)
_steps = msgspec.json.Decoder(list[_Step])
_run = RowDecoder[_Run]("workflow-run", _Run)
_runs = RowDecoder[_Runs]("workflow-run", _Runs)
_run_ids = RowDecoder[_RunIds]("workflow-run", _RunIds)
_run_jobs = RowDecoder[_RunJobs]("job", _RunJobs)
_annotations = RowDecoder[list[_Annotation]]("annotation", list[_Annotation])


class WorkflowRuns:
    """Workflow runs of one repository, `owner/name`, and their jobs. Each call may raise `GitHubError`."""

    def __init__(self, client: Sender, repository: str) -> None:
        self._sender, self._repository, self._path = client, repository, f"/repos/{quote(repository)}"

    async def in_status(self, status: Literal["queued", "in_progress"]) -> RunsInStatus:
        """Returns the newest runs in a status, and the oldest if there are more; needs `actions: read`.

        A run is `in_progress` from the start of its first job on, while others of its jobs may be queued. One call, or
        two for more than a hundred runs.
        """
        ids, total = await self._page_in_status(status, 1)
        last = min(-(-total // PER_PAGE), MOST_LISTED_PAGES)
        if last > 1:
            ids += (await self._page_in_status(status, last)).ids
        return RunsInStatus(tuple(dict.fromkeys(ids)), total)

    async def latest_finished(self, count: int) -> tuple[int, ...]:
        """Returns the ids of the newest completed runs; needs `actions: read`. One call."""
        return (await self._page_in_status("completed", 1, count)).ids

    async def _page_in_status(self, status: str, page: int, per_page: int = PER_PAGE) -> RunsInStatus:
        path = f"{self._path}/actions/runs"
        answer = await self._sender.send(
            "GET", path, status=status, per_page=per_page, page=page, exclude_pull_requests="true"
        )
        listed = read_rows(_run_ids, expect(answer, path), self._sender.left_out).value
        return RunsInStatus(tuple(each.id for each in listed.workflow_runs), listed.total_count)

    async def of_run(self, run_id: int, attempts: Literal["all", "latest"] = "all") -> list[JobOfRun]:
        """Returns all jobs of a workflow run, of all attempts or the latest one; needs `actions: read`.

        Raises:
            NotFoundError: the run does not exist, or the installation cannot see it.
            GitHubUnavailableError: the pages are not a complete list; a job that cannot be read may be any runner's.
        """
        path = f"{self._path}/actions/runs/{run_id}/jobs"
        found: dict[int, JobOfRun] = {}
        for page in range(1, MOST_RUN_PAGES + 1):
            answer = await self._sender.send("GET", path, filter=attempts, per_page=PER_PAGE, page=page)
            listed = read_rows(_run_jobs, expect(answer, path), self._sender.left_out).value
            found |= {each.id: self._of_run(each) for each in listed.jobs}
            if len(found) >= listed.total_count:
                return list(found.values())
            if not listed.jobs:
                break
        raise GitHubUnavailableError(f"GET {path}: the list is incomplete, with only {len(found)} jobs")

    def _of_run(self, job: _RunJob) -> JobOfRun:
        queued_at = _epoch(job.created_at) or _epoch(job.started_at) or 0.0
        status, is_waiting = known_status(job.status)
        was_taken = status == "running" or (status == "over" and bool(job.runner_id))  # queued jobs have a start, too
        known = Job(
            id=job.id,
            status=status,
            labels=tuple(job.labels),
            repository=self._repository,
            queued_at=queued_at,
            runner_id=job.runner_id or None,  # 0 and "" for a job that was cancelled before a runner took it
            runner_name=job.runner_name or None,
            started_at=_epoch(job.started_at) if was_taken else None,
            run_id=job.run_id or None,
            attempt=job.run_attempt,
            workflow=job.workflow_name or "",
            name=job.name,
            head_sha=job.head_sha,
            html_url=job.html_url or "",
            runner_group=job.runner_group_name or "",
            waiting=is_waiting,
            head_branch=job.head_branch or "",
        )
        return JobOfRun(known, _epoch(job.completed_at))


class Jobs(WorkflowRuns):
    """Jobs of one repository, `owner/name`, as one installation. Each call may raise `GitHubError`."""

    def __init__(self, installation_client: InstallationClient, repository: str) -> None:
        super().__init__(installation_client, repository)
        self._client = installation_client

    async def facts(self, job_id: int) -> JobFacts:
        """Returns the present state of one job; needs `actions: read`.

        Raises:
            NotFoundError: the job does not exist, or the installation cannot see it.
        """
        path = f"{self._path}/actions/jobs/{job_id}"
        job = read_rows(_job, expect(await self._client.send("GET", path), path), self._client.left_out).value
        found = read(_steps, bytes(job.steps))
        steps = [
            StepState(each.number, each.status, each.conclusion, each.started_at is not None, each.name)
            for each in found
        ]
        shown = job_steps(steps)
        return JobFacts(
            id=job.id,
            name=job.name,
            head_sha=job.head_sha,
            html_url=job.html_url or "",
            over=job.status == "completed",
            conclusion=(job.conclusion or "") if job.status == "completed" else "",
            completed_at=None if job.completed_at is None else job.completed_at.timestamp(),
            step_failed=shown.failed,
            run_id=job.run_id,
            attempt=job.run_attempt,
            begun=shown.begun,
            failed_steps=shown.failed_steps,
        )

    async def annotations(self, job_id: int) -> tuple[JobAnnotation, ...]:
        """Returns the annotations of a job, which include GitHub's message on how it ended; needs `checks: read`.

        A job's id is also that of its check run.
        """
        path = f"{self._path}/check-runs/{job_id}/annotations"
        body = expect(await self._client.send("GET", path, per_page=NOTES_READ), path)
        return tuple(
            JobAnnotation(each.message or "", each.annotation_level or "", each.path or "", each.title or "")
            for each in read_rows(_annotations, body, self._client.left_out).value
        )

    async def run_facts(self, run_id: int) -> RunFacts:
        """Returns the latest attempt of a workflow run, and whether a newer run goes on; needs `actions: read`.

        Raises:
            NotFoundError: the run does not exist, or the installation cannot see it.
        """
        path = f"{self._path}/actions/runs/{run_id}"
        run = read_rows(_run, expect(await self._client.send("GET", path), path), self._client.left_out).value
        is_over = run.status == "completed"
        return RunFacts(
            run.run_attempt,
            over=is_over,
            conclusion=(run.conclusion or "") if is_over else "",
            event=run.event,
            branch=run.head_branch or "",
            workflow_id=run.workflow_id,
            newer_goes_on=await self._newer_goes_on(run),
        )

    async def _newer_goes_on(self, run: _Run) -> bool:
        """True if a newer run of the same workflow and branch is not over, as far as one page of runs shows.

        An older run of which a later attempt goes on is newer, too. GitHub lists runs newest first. A page without this
        run, because it does not reach back so far or is no complete list, leaves it open, which is
        True, and so does a run that cannot be read.
        """
        if not run.head_branch:
            return False
        path = f"{self._path}/actions/runs"
        answer = await self._client.send(
            "GET", path, branch=run.head_branch, per_page=PER_PAGE, exclude_pull_requests="true"
        )
        listed, odd = read_rows(_runs, expect(answer, path), self._client.left_out)
        newer = [each for each in listed.workflow_runs if each.id > run.id]
        if not any(each.id == run.id for each in listed.workflow_runs) or any(each.is_row for each in odd):
            return True
        newer += [each for each in listed.workflow_runs if each.id < run.id and _began_later(each, run)]
        return any(each.workflow_id == run.workflow_id and each.status != "completed" for each in newer)

    async def rerun(self, job_id: int) -> None:
        """Has GitHub run a job again, and the jobs that depend on it; needs `actions: write`.

        Raises:
            PermissionMissingError: not permitted, or GitHub does not re-run this job (the run is not over, too old, or
                was re-run too often).
            NotFoundError: the job does not exist, or the installation cannot see it.
        """
        path = f"{self._path}/actions/jobs/{job_id}/rerun"
        expect(await self._client.send("POST", path), path)

    async def log_tail(self, job_id: int) -> tuple[str, ...]:
        """Returns the last lines of a job's raw log; needs `actions: read`. Empty if GitHub has no log of it."""
        path = f"{self._path}/actions/jobs/{job_id}/logs"
        tail = await self._client.tail(path, LOG_TAIL_BYTES, LONGEST_LOG_BYTES)
        return () if tail is None else tuple(tail.decode(errors="replace").splitlines())


def _began_later(run: _Run, other: _Run) -> bool:
    """True if the latest attempt of a run began after that of the other one."""
    began, other_began = run.run_started_at, other.run_started_at
    return began is not None and other_began is not None and began > other_began


def _epoch(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()
