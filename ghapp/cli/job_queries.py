"""Reads workflow jobs from Redis for `ghapp jobs` and `ghapp why`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from ghapp.cli.backend import JobReference
from ghapp.cli.context import chosen
from ghapp.deaths.job_story import NOTHING_KNOWN
from ghapp.errors import GhappError
from ghapp.installations.installation import Installation
from ghapp.report.jobs import JOB_STATES, job_document, select_jobs
from ghapp.settings import Settings
from ghapp.store.job_outcomes import load_job_outcomes
from ghapp.store.stores import Stores
from ghapp.store.views import load_job_queue
from ghapp.untrusted_text import shell_command
from ghapp.workflow_jobs.job import EVERY_JOB, Job, JobSearch, PullReference
from ghapp.workflow_jobs.job_queue import JobQueue


async def job_documents(
    settings: Settings,
    stores: Stores,
    org: str | None,
    state: str | None,
    pool: str | None,
    search: JobSearch,
    pull: PullReference | None,
) -> list[Any]:
    """Returns the documents of the jobs of an org, or of all orgs, each with its `org`.

    Args:
        settings: the configuration.
        stores: read for each org.
        org: its name; None for all.
        state: `queued`, `running`, `over` or `unserved`; None: queued and running ones, or all that match the search.
        pool: only jobs of this pool; None for all.
        search: for a runner or a commit; then jobs of the last 30 days are found.
        pull: the same for the commits of a pull request.

    Raises:
        UnknownOrgError: the App is not installed there.
    """
    found: list[Any] = []
    for installation in await chosen(stores.installations, org):
        queue = await load_job_queue(stores, installation, settings, time.time())
        wanted = search if pull is None else await stores.demand.of_pull(installation.id, pull, search)
        among = None if wanted == EVERY_JOB else await _found(stores, installation, queue, wanted)
        jobs = _selected(queue, state, pool, among)
        found += await _documents(stores, installation, queue, jobs)
    return found


async def _found(stores: Stores, installation: Installation, queue: JobQueue, search: JobSearch) -> list[Job]:
    ended = await stores.demand.find_ended(installation.id, search)
    return [*ended, *filter(search.matches, queue.inputs.jobs)]


async def _documents(stores: Stores, installation: Installation, queue: JobQueue, jobs: Sequence[Job]) -> list[Any]:
    known = (*queue.inputs.jobs, *queue.inputs.ended)
    outcomes = await load_job_outcomes(stores, installation.id, jobs, known)
    return [{"org": installation.org, **job_document(queue, job, outcomes.get(job.id, NOTHING_KNOWN))} for job in jobs]


def _selected(queue: JobQueue, state: str | None, pool: str | None, among: Sequence[Job] | None) -> list[Job]:
    if state == "unserved":
        found = [job for job, _ in queue.unserved() if pool in (None, queue.pool(job))]
        return [job for job in found if among is None or job in among]
    states = JOB_STATES if state is not None or among is not None else ("queued", "running")
    return [job for each in states if state in (None, each) for job in select_jobs(queue, each, pool, among)]


async def jobs_referred_to(settings: Settings, stores: Stores, org: str, reference: JobReference) -> list[Any]:
    """Returns the document of a job, or of each known job of a run, by id.

    Raises:
        UnknownOrgError: the App is not installed there.
        GhappError: no such job is known.
    """
    (installation,) = await chosen(stores.installations, org)
    queue = await load_job_queue(stores, installation, settings, time.time())
    if reference.job_id is not None:
        job = await stores.demand.one(installation.id, reference.job_id)
        jobs = [] if job is None else [job]
    else:
        search = JobSearch(run_id=reference.run_id)
        jobs = select_jobs(queue, among=await _found(stores, installation, queue, search))
    if not jobs:
        raise GhappError(unknown_job(org, reference))
    return await _documents(stores, installation, queue, jobs)


def unknown_job(org: str, reference: JobReference) -> str:
    """Returns the message for a job that is not known."""
    return (
        f"{org} {reference}: not known; jobs are known from deliveries, until 30 days after their end; "
        f"see `{shell_command('ghapp', 'jobs', '--org', org)}`"
    )
