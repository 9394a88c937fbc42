"""A workflow job as reported by deliveries. Pure; times are epoch seconds."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Literal, NamedTuple

from ghapp.installations.pool_matching import PoolRule, metric_pool, pool_of
from ghapp.runners.evidence import Evidence, looks_hosted
from ghapp.runners.verdict import LONGEST_JOB_SECONDS
from ghapp.workflow_jobs.job_steps import JobSteps

QUEUED_TOO_LONG_SECONDS = 24 * 3600.0
"""GitHub fails a job that no runner took within a day; an older queued job lost its later deliveries."""

UNAPPROVED_TOO_LONG_SECONDS = 30 * 86_400.0
"""GitHub fails a job that was not approved within 30 days."""

RUNNING_TOO_LONG_SECONDS = LONGEST_JOB_SECONDS


HOSTED_GROUP = "GitHub Actions"
"""The runner group of GitHub-hosted runners, which this App ignores."""


class Job(NamedTuple):
    """A workflow job as reported by deliveries. Fields are only ever appended. Times are epoch seconds.

    `queued_at` is since when a runner could take it: when it was queued or, after an approval, approved.
    """

    id: int
    status: Literal["queued", "running", "over"]
    labels: tuple[str, ...]
    repository: str
    queued_at: float
    runner_id: int | None = None
    runner_name: str | None = None
    started_at: float | None = None
    run_id: int | None = None
    attempt: int = 1
    """Number of the run's attempt; above 1 for a re-run."""
    workflow: str = ""
    name: str = ""
    head_sha: str = ""
    html_url: str = ""
    conclusion: str = ""
    """As GitHub names it, once the job has ended; else empty."""
    ended_at: float | None = None
    runner_group: str = ""
    """Name of the group of the runner that took the job; empty while none did, or if GitHub does not report it."""
    private: bool | None = None
    """Whether the repository is private; None if the delivery does not report it."""
    waiting: bool = False
    """True while GitHub offers the job to no runner yet, see `known_status`; its status is then `queued`."""
    steps: JobSteps | None = None
    """What its steps show, once it has ended badly; None before, or if the delivery does not report them."""
    deploys: bool = False
    """True if the job deploys to an environment, or waited for an approval, as its deliveries report."""
    waited_for: str = ""
    """The last `QueueReason` for which it waited before a runner took it, or before it ended without one; empty if it
    waited briefly, or not known."""
    head_branch: str = ""
    actor: str = ""
    """Login of who triggered the run, as the sender of the job's deliveries; empty if no delivery reported it.

    Of a re-run by ghapp: of who requested the re-run or, where ghapp did that unasked, of the earlier attempt."""
    sent_at: float | None = None
    """When GitHub made the delivery that shows a job as queued; None if that is not known, and of other jobs."""
    rerun_by: str = ""
    """Who requested this attempt from ghapp, a login or `auto`; empty for others."""
    lacked_labels: tuple[str, ...] = ()
    """Labels that no runner had, if it waited for that as `waited_for` has it."""


_STATUSES: Mapping[str, Literal["queued", "running", "over"]] = {
    "queued": "queued",
    "in_progress": "running",
    "completed": "over",
}


class KnownStatus(NamedTuple):
    """A job's status as `Job` has it; `waiting` as there."""

    status: Literal["queued", "running", "over"]
    waiting: bool = False


class JobSearch(NamedTuple):
    """What jobs are searched by; empty fields select all.

    Attributes:
        runner: name of the runner that took the job, in any case.
        sha: of its commit, or the first `SHORTEST_SHA` digits of it or more.
        run_id: of its workflow run.
        repository: `owner/name`, in any case.
        commits: ids of commits, as those of a pull request; None: any.
    """

    runner: str = ""
    sha: str = ""
    run_id: int | None = None
    repository: str = ""
    commits: frozenset[str] | None = None

    def matches(self, job: Job) -> bool:
        """True if the job has all that is asked for."""
        is_runners = not self.runner or (job.runner_name or "").lower() == self.runner.lower()
        is_repositorys = not self.repository or job.repository.lower() == self.repository.lower()
        is_commits = job.head_sha.startswith(self.sha.lower()) and (
            self.commits is None or job.head_sha in self.commits
        )
        return is_runners and is_repositorys and is_commits and self.run_id in (None, job.run_id)


class JobOrigin(NamedTuple):
    """Where jobs come from, to select some of those that are listed; empty fields select all.

    Attributes:
        branch: as GitHub spells it.
        actor: login of who triggered the run, in any case.
    """

    branch: str = ""
    actor: str = ""

    def matches(self, job: Job) -> bool:
        """True if the job comes from there."""
        return self.branch in ("", job.head_branch) and self.actor.lower() in ("", job.actor.lower())


ANY_ORIGIN = JobOrigin()


SHORTEST_SHA = 7
"""Digits of a commit's id that a search needs."""

_SHA = re.compile(rf"[0-9a-fA-F]{{{SHORTEST_SHA},64}}")

EVERY_JOB = JobSearch()


class PullReference(NamedTuple):
    """A pull request: `owner/name`, and its number."""

    repository: str
    number: int

    @classmethod
    def parse(cls, text: str) -> PullReference | None:
        """Parses `owner/name#7`, or the URL of a pull request; None for anything else."""
        found = _PULL.fullmatch(text)
        return None if found is None else cls(found[1], int(found[2]))


_PULL = re.compile(
    r"(?:https?://[^/\s]+/)?([\w.-]{1,100}/[\w.-]{1,100})(?:#|/pull/)([1-9][0-9]{0,9})(?:[/?]\S*)?", re.ASCII
)


def is_sha(text: str) -> bool:
    """True if a text may be the id of a commit, or its beginning."""
    return _SHA.fullmatch(text) is not None


def known_status(status: str) -> KnownStatus:
    """Returns what GitHub's status of a job means.

    GitHub holds a job that is `waiting` (for an approval), `pending` (for its concurrency group) or `requested`. A
    status that this version does not know is no demand either.
    """
    known = _STATUSES.get(status)
    return KnownStatus("queued", waiting=True) if known is None else KnownStatus(known)


def configured_pool(job: Job, runner: Evidence | None, rules: Iterable[PoolRule]) -> str:
    """Returns the configured pool of the job's runner, or, if no list had the runner yet, of the job's labels."""
    rules = tuple(rules)
    labels = runner.labels if runner is not None and runner.labels else job.labels
    return metric_pool(pool_of(labels, (), rules), rules)


def was_taken(job: Job) -> bool:
    """True if a runner took the job."""
    return job.status == "running" or job.started_at is not None or job.runner_id is not None


def was_hosted(job: Job) -> bool:
    """True if a GitHub-hosted runner took the job."""
    return job.runner_group == HOSTED_GROUP


def is_over(job: Job, now: float) -> bool:
    """True if a job has ended, or must have ended because its last delivery was lost."""
    if job.status == "queued":
        return now - job.queued_at > (UNAPPROVED_TOO_LONG_SECONDS if job.waiting else QUEUED_TOO_LONG_SECONDS)
    if job.status == "running":
        return now - (job.started_at or job.queued_at) > RUNNING_TOO_LONG_SECONDS
    return True


def asks_for_hosted(job: Job, ours: Collection[str]) -> bool:
    """True if a job's labels request a GitHub-hosted runner; those have no label of ours beside their image's.

    Args:
        job: the job.
        ours: labels of the configured pools and of any runner ever seen, in lower case: these are ours, whatever they
            look like, also while no such runner is registered.
    """
    labels = [label.lower() for label in job.labels]
    return not any(label == "self-hosted" or label in ours for label in labels) and any(map(looks_hosted, labels))


def may_be_ours(job: Job, ours: Collection[str]) -> bool:
    """True if runners of ours may be meant; `ours` as of `asks_for_hosted`.

    A job without labels requests a runner group alone, which GitHub does not report of a queued job. It may be a group
    of GitHub's own larger runners.
    """
    return bool(job.labels) and not asks_for_hosted(job, ours)
