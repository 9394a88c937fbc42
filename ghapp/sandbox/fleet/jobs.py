"""Workflow jobs and the repositories they come from."""

from __future__ import annotations

import hashlib
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Literal

#: Runs a repository remembers, newest first.
RUNS_KEPT = 300

JobAction = Literal["queued", "in_progress", "completed"]


@dataclass(slots=True)
class Job:
    """One job of one workflow run; all times in epoch seconds.

    Attributes:
        id: the job's id, and its check run's.
        duration: how long it will run once a runner took it, in seconds.
        annotations: what GitHub notes beside it, as check annotations.
    """

    id: int
    run_id: int
    repository: Repository
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


@dataclass(slots=True)
class Run:
    """One workflow run; without a job it was a push that hosted runners dealt with long ago."""

    id: int
    number: int
    head_sha: str
    created_at: float
    job: Job | None = None


@dataclass(slots=True, eq=False)
class Repository:
    """A repository, its head, its runs and the check runs that Apps posted to it."""

    id: int
    owner: str
    name: str
    head_sha: str = ""
    before_sha: str = "0" * 40
    default_branch: str = "main"
    pushes: int = 0
    runs: deque[Run] = field(default_factory=lambda: deque(maxlen=RUNS_KEPT))
    check_runs: dict[int, dict[str, Any]] = field(default_factory=dict)

    @property
    def full_name(self) -> str:
        """`owner/name`."""
        return f"{self.owner}/{self.name}"

    def push(self, now: float, sha: str = "") -> str:
        """Moves the default branch's head, to a made-up commit unless one is named, and answers it."""
        self.pushes += 1
        commit = f"{self.full_name} {self.pushes}"
        self.before_sha = self.head_sha or self.before_sha
        self.head_sha = sha or hashlib.sha1(commit.encode(), usedforsecurity=False).hexdigest()
        self.record_run(self.id * 1_000 + self.pushes, now)
        return self.head_sha

    def record_run(self, run_id: int, now: float, job: Job | None = None) -> None:
        """Remembers a run of the head."""
        number = self.runs[0].number + 1 if self.runs else 1
        self.runs.appendleft(Run(id=run_id, number=number, head_sha=self.head_sha, created_at=now, job=job))
