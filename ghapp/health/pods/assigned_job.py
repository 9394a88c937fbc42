"""The job that ARC's object says its runner has, as GitHub knows it. Pure; times are epoch seconds.

Where deliveries do not reach ghapp, nobody reports how that job ended. ARC's object names its workflow run, and the
jobs of a run say which runner took each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from ghapp.health.installation import Installation
from ghapp.health.job import Job
from ghapp.health.pods.pod import EphemeralRunner
from ghapp.health.runner import observations
from ghapp.health.runner.evidence import Evidence

_NAME = re.compile(r"(?!\.{1,2}$)[\w.-]+", re.ASCII)
"""Of a repository. What an object says goes into a path, and must not lead elsewhere."""


class JobOfRun(NamedTuple):
    """A job of a workflow run, and when it ended; None while it has not."""

    job: Job
    completed_at: float | None = None


class WorkflowRun(NamedTuple):
    """A workflow run, and its repository, `owner/name`."""

    repository: str
    id: int


def run_of(found: EphemeralRunner, installation: Installation) -> WorkflowRun | None:
    """The run that an object names; None where it names none, or one of another owner."""
    owner, _, name = found.repository.partition("/")
    is_theirs = installation.answers_to(owner) or owner.lower() == installation.called.lower()
    if found.workflow_run_id is None or not is_theirs or not _NAME.fullmatch(name):
        return None
    return WorkflowRun(f"{installation.called}/{name}", found.workflow_run_id)


def job_of_runner(jobs: Iterable[JobOfRun], evidence: Evidence) -> JobOfRun | None:
    """The job of this runner: one that is not over, else the last that ended; None where no job names the runner."""
    own = [
        each for each in jobs if each.job.runner_name == evidence.name and each.job.runner_id in (None, 0, evidence.id)
    ]
    unfinished = [each for each in own if each.job.status != "over"]
    return max(unfinished or own, key=lambda each: (each.completed_at or 0.0, each.job.id), default=None)


def job_observed(evidence: Evidence, found: JobOfRun, at: float) -> Evidence:
    """Start and end of a job as deliveries would have told them; `at` stands in for a time that GitHub leaves out."""
    job = found.job
    started_at = min(at, job.started_at if job.started_at is not None else job.queued_at)
    if job.status != "over":
        return observations.job_started(evidence, job.id, started_at)
    ended_at = min(at, found.completed_at if found.completed_at is not None else at)
    return observations.job_ended(evidence, job.id, ended_at, started_at)
