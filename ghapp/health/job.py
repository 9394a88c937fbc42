"""A workflow job, as its deliveries report it. Pure; times are epoch seconds."""

from __future__ import annotations

from typing import Literal, NamedTuple

from ghapp.health.runner.verdict import LONGEST_JOB_SECONDS

QUEUED_TOO_LONG_SECONDS = 24 * 3600.0
"""GitHub fails a job that nobody took for a day; a later word about it was lost."""

RUNNING_TOO_LONG_SECONDS = LONGEST_JOB_SECONDS


HOSTED_IMAGES = ("ubuntu-", "windows-", "macos-")
"""How the labels of GitHub's own machines begin."""


class Job(NamedTuple):
    """A workflow job as its deliveries told of it. Fields are only ever appended. Times are epoch seconds."""

    id: int
    status: Literal["queued", "running", "over"]
    labels: tuple[str, ...]
    repository: str
    queued_at: float
    runner_id: int | None = None
    runner_name: str | None = None
    started_at: float | None = None


def is_over(job: Job, now: float) -> bool:
    """Whether a job has ended, or must have: its last delivery was lost."""
    if job.status == "queued":
        return now - job.queued_at > QUEUED_TOO_LONG_SECONDS
    if job.status == "running":
        return now - (job.started_at or job.queued_at) > RUNNING_TOO_LONG_SECONDS
    return True


def asks_for_hosted(job: Job) -> bool:
    """Whether a job's labels name one of GitHub's own machines."""
    labels = [label.lower() for label in job.labels]
    return "self-hosted" not in labels and any(label.startswith(HOSTED_IMAGES) for label in labels)
