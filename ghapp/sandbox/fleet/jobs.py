"""Workflow jobs and their repositories."""

from __future__ import annotations

import hashlib
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any, Literal

#: Runs that a repository keeps, newest first; one whose job has not ended is kept longer.
RUNS_KEPT = 300
SHUTDOWN_SIGNAL = (
    "The runner has received a shutdown signal. This can happen when the runner service is stopped, or a manually"
    " started runner is canceled."
)
LOST_COMMUNICATION = "The self-hosted runner lost communication with the server."

JobAction = Literal["queued", "in_progress", "completed"]


@dataclass(slots=True)
class SandboxJob:
    """One job of one workflow run; all times in epoch seconds.

    Attributes:
        id: the job's id, and its check run's.
        duration: how long it runs after its start, in seconds.
        annotations: GitHub's annotations of the job.
        attempt: of its run; above 1 for a re-run.
        branch: of its run; empty for the default branch.
        rerun_by: login of the App that ran it again; empty for a first attempt, or if a person did.
        own_steps: False if only "Set up job" had begun.
        left_open: the end of its last step was never reported.
        step_conclusion: of its last step, if that is not the job's own.
        abandoned: its runner died, and does not end it any more.
        log: its raw log; None if none was uploaded.
    """

    id: int
    run_id: int
    repository: SandboxRepository
    labels: tuple[str, ...]
    head_sha: str
    created_at: float
    duration: float
    status: JobAction = "queued"
    conclusion: str | None = None
    started_at: float | None = None
    completed_at: float | None = None
    runner_id: int | None = None
    runner_name: str | None = None
    annotations: list[dict[str, Any]] = field(default_factory=list)
    attempt: int = 1
    branch: str = ""
    rerun_by: str = ""
    own_steps: bool = True
    left_open: bool = False
    step_conclusion: str = ""
    abandoned: bool = False
    log: str | None = None

    def fail_without_runner(self, note: str = LOST_COMMUNICATION) -> None:
        """Leaves its last step open, and adds the annotation that GitHub adds to a job whose runner was lost."""
        self.conclusion, self.left_open = "failure", True
        self.note(note)

    def note(self, message: str) -> None:
        """Adds an annotation, unless the text is empty."""
        place = {"path": ".github", "start_line": 1, "end_line": 1, "annotation_level": "failure"}
        if message:
            self.annotations.append(place | {"title": "", "message": message})

    def with_clock_ahead(self, ahead: float) -> SandboxJob:
        """Returns the job with its times by a clock that is so many seconds ahead."""
        if not ahead:
            return self
        started, completed = (None if at is None else at + ahead for at in (self.started_at, self.completed_at))
        return replace(self, created_at=self.created_at + ahead, started_at=started, completed_at=completed)


@dataclass(slots=True)
class Run:
    """One workflow run; without a job it was a push that hosted runners completed long ago.

    Attributes:
        branch: empty for the default branch.
        conclusion: if it is not that of its job: a person cancelled the run, or another job of it decided.
    """

    id: int
    number: int
    head_sha: str
    created_at: float
    job: SandboxJob | None = None
    event: str = "push"
    branch: str = ""
    conclusion: str = ""

    @property
    def is_over(self) -> bool:
        """True if no job of it waits or runs."""
        return self.job is None or self.job.status == "completed"

    def with_clock_ahead(self, ahead: float) -> Run:
        """Returns the run with its times by a clock that is so many seconds ahead."""
        return replace(self, created_at=self.created_at + ahead) if ahead else self


@dataclass(slots=True, eq=False)
class SandboxRepository:
    """A repository, its head, its runs and the check runs that Apps posted to it."""

    id: int
    owner: str
    name: str
    head_sha: str = ""
    before_sha: str = "0" * 40
    default_branch: str = "main"
    pushes: int = 0
    topics: tuple[str, ...] = ()
    runs: deque[Run] = field(default_factory=deque)
    check_runs: dict[int, dict[str, Any]] = field(default_factory=dict)

    @property
    def full_name(self) -> str:
        """`owner/name`."""
        return f"{self.owner}/{self.name}"

    def push(self, now: float, sha: str = "") -> str:
        """Moves the head of the default branch, to a random commit unless one is given, and returns it."""
        self.pushes += 1
        commit = f"{self.full_name} {self.pushes}"
        self.before_sha = self.head_sha or self.before_sha
        self.head_sha = sha or hashlib.sha1(commit.encode(), usedforsecurity=False).hexdigest()
        self.record_run(self.id * 1_000 + self.pushes, now)
        return self.head_sha

    def record_run(self, run_id: int, now: float, job: SandboxJob | None = None) -> None:
        """Stores a run of the head."""
        number = self.runs[0].number + 1 if self.runs else 1
        branch = "" if job is None else job.branch
        run = Run(id=run_id, number=number, head_sha=self.head_sha, created_at=now, job=job, branch=branch)
        self.runs.appendleft(run)
        if len(self.runs) > RUNS_KEPT:
            self.runs.remove(next((each for each in reversed(self.runs) if each.is_over), run))
