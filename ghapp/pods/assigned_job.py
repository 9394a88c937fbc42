"""The job that ARC's object names for its runner, as GitHub knows it. Pure; times are epoch seconds.

Without deliveries, the end of that job is not reported. ARC's object names its workflow run, and the jobs of a run name
the runner of each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from ghapp.installations.installation import Installation
from ghapp.installations.scope import owner_of
from ghapp.pods.pod import EphemeralRunner
from ghapp.runners import observations
from ghapp.runners.evidence import Evidence
from ghapp.workflow_jobs.job import Job

_NAME = re.compile(r"(?!\.{1,2}$)[\w.-]+", re.ASCII)
"""A repository's name. The object's text becomes part of a URL path and must not lead elsewhere."""


class JobOfRun(NamedTuple):
    """A job of a workflow run, and when it ended; None if it has not."""

    job: Job
    completed_at: float | None = None


class WorkflowRun(NamedTuple):
    """A workflow run, and its repository, `owner/name`."""

    repository: str
    id: int


def run_of(found: EphemeralRunner, installation: Installation) -> WorkflowRun | None:
    """Returns the run that an object names; None if it names no run, or one of another owner."""
    repository = installation.at_github(found.repository)
    owner, _, name = repository.partition("/")
    is_theirs = owner.lower() == owner_of(installation.called).lower()
    if found.workflow_run_id is None or not is_theirs or not _NAME.fullmatch(name):
        return None
    return WorkflowRun(f"{owner_of(installation.called)}/{name}", found.workflow_run_id)


def job_of_runner(jobs: Iterable[JobOfRun], evidence: Evidence) -> JobOfRun | None:
    """Returns the runner's job: an unfinished one, else the last that ended; None if no job names the runner."""
    own = [
        each for each in jobs if each.job.runner_name == evidence.name and each.job.runner_id in (None, 0, evidence.id)
    ]
    unfinished = [each for each in own if each.job.status != "over"]
    return max(unfinished or own, key=lambda each: (each.completed_at or 0.0, each.job.id), default=None)


def job_observed(evidence: Evidence, found: JobOfRun, at: float) -> Evidence:
    """Records a job's start and end as deliveries would; `at` replaces a time that GitHub omits.

    It is GitHub's answer about one job, and does not show that deliveries arrive.
    """
    job = found.job
    started_at = job.started_at if job.started_at is not None else job.queued_at
    if job.status != "over":
        observed = observations.job_started(evidence, job.id, started_at, at)
    else:
        is_dated = found.completed_at is not None
        ended_at = found.completed_at if found.completed_at is not None else at
        observed = observations.job_ended(evidence, job.id, ended_at, started_at, at, dated=is_dated)
    return observed._replace(last_delivery_at=evidence.last_delivery_at)
