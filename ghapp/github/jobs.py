"""Workflow jobs of one repository: what became of each, and what GitHub noted beside it."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import quote

import msgspec

from ghapp.github.tenant import Tenant
from ghapp.github.transport import expect
from ghapp.github.wire import read
from ghapp.health.deaths.postmortem import JobFacts

NOTES_READ = 50
"""GitHub itself notes a handful; the rest are the workflow's own."""


class _Step(msgspec.Struct):
    conclusion: str | None = None


class _Job(msgspec.Struct):
    id: int
    name: str
    head_sha: str
    status: str
    conclusion: str | None = None
    html_url: str | None = None
    completed_at: datetime | None = None
    steps: list[_Step] = []


class _Annotation(msgspec.Struct):
    message: str | None = None


_job = msgspec.json.Decoder(_Job)
_annotations = msgspec.json.Decoder(list[_Annotation])


class Jobs:
    """Jobs of one repository, `owner/name`, as one installation sees them. Each call may raise `GitHubError`."""

    def __init__(self, tenant: Tenant, repository: str) -> None:
        self._tenant, self._path = tenant, f"/repos/{quote(repository)}"

    async def facts(self, job_id: int) -> JobFacts:
        """One job as it stands; needs `actions: read`.

        Raises:
            NotFoundError: there is no such job, or none that this installation may see.
        """
        path = f"{self._path}/actions/jobs/{job_id}"
        job = read(_job, expect(await self._tenant.send("GET", path), path))
        return JobFacts(
            id=job.id,
            name=job.name,
            head_sha=job.head_sha,
            html_url=job.html_url or "",
            over=job.status == "completed",
            conclusion=(job.conclusion or "") if job.status == "completed" else "",
            completed_at=None if job.completed_at is None else job.completed_at.timestamp(),
            step_failed=any(step.conclusion in ("failure", "timed_out") for step in job.steps),
        )

    async def notes(self, job_id: int) -> tuple[str, ...]:
        """What was noted beside a job: GitHub's own words on how it ended are among them; needs `checks: read`.

        A job's id is its check run's.
        """
        path = f"{self._path}/check-runs/{job_id}/annotations"
        body = expect(await self._tenant.send("GET", path, per_page=NOTES_READ), path)
        return tuple(each.message or "" for each in read(_annotations, body))
