"""Jobs and runners for tests of the queue. A job has waited for an hour; a runner is online, idle and settled."""

from __future__ import annotations

from ghapp.workflow_jobs.capacity import AvailableRunner
from ghapp.workflow_jobs.job import Job
from ghapp.workflow_jobs.job_queue import JobQueue, QueueInputs
from tests.rules.builders import LONG_AGO, NOW

POOL = "linux-4vcpu"
LABELS = ("self-hosted", "Linux", "X64", POOL)


def job(job_id=1, **changes):
    return Job(job_id, "queued", ("self-hosted", POOL), "acme/api", NOW - 3600, private=True)._replace(**changes)


def runner(**changes):
    return AvailableRunner(POOL, LABELS, online=True, busy=False, idle_since=LONG_AGO)._replace(**changes)


def busy(**changes):
    return runner(busy=True)._replace(**changes)


def offline(**changes):
    return runner(online=False, away_since=NOW - 600)._replace(**changes)


def missing(**changes):
    """A lost runner whose replacement was not accepted."""
    return runner(online=False, lost=True, away_since=NOW - 300)._replace(**changes)


def looping(**changes):
    """An ephemeral runner that ended a moment ago because it is too old."""
    return runner(online=False, too_old="2.335.1", loops=True)._replace(**changes)


def queue(jobs, runners, **inputs):
    return JobQueue(QueueInputs("acme", jobs, runners, **inputs), NOW)
