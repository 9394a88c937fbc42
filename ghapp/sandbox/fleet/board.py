"""Matches jobs with runners."""

from __future__ import annotations

from ghapp.sandbox.fleet.jobs import SandboxJob
from ghapp.sandbox.fleet.runners import GroupAccess, Runner

#: Completed jobs that are kept.
JOBS_KEPT = 5_000


class JobBoard:
    """Jobs that wait for runners, and runners that wait for jobs. A job goes to a runner that has all its labels.

    Attributes:
        queue: jobs that wait for a runner, oldest first.
        jobs: recent jobs in any status, by id.
        access: of the runner group of all runners.
    """

    def __init__(self) -> None:
        self.access = GroupAccess()
        self.queue: list[SandboxJob] = []
        self.jobs: dict[int, SandboxJob] = {}
        self._idle: dict[frozenset[str], dict[int, Runner]] = {}

    def remember(self, job: SandboxJob) -> None:
        """Stores a job by its id."""
        self.jobs[job.id] = job
        if len(self.jobs) > JOBS_KEPT:
            del self.jobs[next(iter(self.jobs))]

    def runner_for(self, job: SandboxJob) -> Runner | None:
        """Returns an idle runner that can run a job; without one the job waits."""
        for labels, runners in self._idle.items() if self.access.admits(job.repository.name) else ():
            if runners and labels.issuperset(job.labels):
                return next(iter(runners.values()))
        self.queue.append(job)
        return None

    def job_for(self, runner: Runner) -> SandboxJob | None:
        """Returns the oldest job that an idle runner can run, which waits no longer; without one the runner waits."""
        labels = frozenset(runner.labels)
        for job in self.queue:
            if labels.issuperset(job.labels) and self.access.admits(job.repository.name):
                self.queue.remove(job)
                return job
        self._idle.setdefault(labels, {})[runner.id] = runner
        return None

    def rest(self, runner: Runner) -> None:
        """Removes a runner from those that wait for jobs."""
        self._idle.get(frozenset(runner.labels), {}).pop(runner.id, None)
