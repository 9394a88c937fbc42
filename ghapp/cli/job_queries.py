"""Reads workflow jobs from Redis for `ghapp jobs` and `ghapp why`."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from ghapp.cli.context import chosen, opened
from ghapp.errors import GhappError
from ghapp.settings import Settings

if TYPE_CHECKING:
    from ghapp.health.job import Job
    from ghapp.health.queue.job_queue import JobQueue

_ID = r"([1-9][0-9]{0,17})"
_JOB = re.compile(rf"{_ID}|https?://\S*/(?:runs/[0-9]+/job|actions/jobs)/{_ID}(?:[/?#]\S*)?", re.ASCII)
_RUN = re.compile(rf"https?://\S*/actions/runs/{_ID}(?:[/?#]\S*)?", re.ASCII)


class JobReference(NamedTuple):
    """What a person names: a job, or all jobs of a run."""

    job_id: int | None = None
    run_id: int | None = None

    @classmethod
    def parse(cls, text: str) -> JobReference | None:
        """Parses the id of a job, or the URL of a job or a run, of the pages or of the API; None for anything else."""
        if found := _JOB.fullmatch(text):
            return cls(job_id=int(found[1] or found[2]))
        if found := _RUN.fullmatch(text):
            return cls(run_id=int(found[1]))
        return None

    def __str__(self) -> str:
        return f"job {self.job_id}" if self.run_id is None else f"run {self.run_id}"


async def job_documents(settings: Settings, org: str | None, state: str | None, pool: str | None) -> list[Any]:
    """Returns the documents of the queued and running jobs of an org, or of all orgs, each with its `org`.

    Args:
        settings: the configuration.
        org: its name; None for all.
        state: `queued`, `running` or `unserved`; None for queued and running ones.
        pool: only jobs of this pool; None for all.

    Raises:
        UnknownOrgError: the App is not installed there.
    """
    from ghapp.report.jobs import job_document
    from ghapp.store.org_views import load_job_queue

    found: list[Any] = []
    async with opened(settings) as stores:
        for installation in await chosen(stores.installations, org):
            queue = await load_job_queue(stores, installation, settings, time.time())
            jobs = [job for job in _selected(queue, state) if pool in (None, queue.pool(job))]
            found += [{"org": installation.org, **job_document(queue, job)} for job in jobs]
    return found


def _selected(queue: JobQueue, state: str | None) -> list[Job]:
    from ghapp.report.jobs import select_jobs

    if state == "unserved":
        return [job for job, _ in queue.unserved()]
    return [job for each in ("queued", "running") if state in (None, each) for job in select_jobs(queue, each)]


async def jobs_referred_to(settings: Settings, org: str, reference: JobReference) -> list[Any]:
    """Returns the document of a job, or of each known job of a run, by id.

    Raises:
        UnknownOrgError: the App is not installed there.
        GhappError: no such job is known.
    """
    from ghapp.report.jobs import job_document, select_jobs
    from ghapp.store.org_views import load_job_queue

    async with opened(settings) as stores:
        (installation,) = await chosen(stores.installations, org)
        queue = await load_job_queue(stores, installation, settings, time.time())
        if reference.job_id is not None:
            job = await stores.demand.one(installation.id, reference.job_id)
            jobs = [] if job is None else [job]
        else:
            jobs = [job for job in select_jobs(queue) if job.run_id == reference.run_id]
    if not jobs:
        raise GhappError(
            f"{org} {reference}: not known; jobs are known from deliveries, until an hour after their end; "
            f"see `ghapp jobs --org {org}`"
        )
    return [{"org": installation.org, **job_document(queue, job)} for job in jobs]
