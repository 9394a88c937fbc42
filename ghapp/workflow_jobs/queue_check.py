"""When the check run "Runner queue" of a commit is created, updated and completed. Pure; times are epoch seconds.

One check run for each commit, however many of its jobs wait. It is created when a job waits for something that never
passes by itself (`STUCK`) for `explain_after_seconds`, or for busy runners for `busy_after_seconds`. From then on it
follows all queued jobs of the commit, and is completed when none waits any more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ghapp.workflow_jobs.job import Job, is_over, was_taken
from ghapp.workflow_jobs.job_queue import JobQueue
from ghapp.workflow_jobs.reason import STUCK, QueueReason

MOST_JOBS = 200
"""Jobs of one commit that its check run follows: those that wait, the oldest first, and then others. A matrix has up to
256.
"""

SETTLE_SECONDS = 60.0
"""Least time between updates while a job waits: a reason may change back and forth with every list of runners."""

REFRESH_SECONDS = 720.0
"""Least time between updates whose meaning is the same: jobs started or came, busy runners were idle for a moment, or
other numbers. So a busy hour has five."""

COMPLETED_SECONDS = 3600.0
"""How long a completed check is kept. If another job of its commit waits later, its check run is found on GitHub."""

FORGOTTEN_SECONDS = 2 * 86_400.0
"""A check that could not be completed for so long after its last post is given up."""


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """The `[queue]` table.

    Attributes:
        report: False: no check run "Runner queue".
        explain_after_seconds: wait after which a job is explained that cannot start by itself.
        busy_after_seconds: wait after which a job is explained that waits for busy runners.
    """

    report: bool = True
    explain_after_seconds: float = 300.0
    busy_after_seconds: float = 1800.0


class FollowedJob(NamedTuple):
    """A job that the check run follows. Fields are only ever appended.

    Attributes:
        id: the job's id.
        queued_at: when it was queued.
        name: its name.
        html_url: its page.
        left_at: when it stopped waiting: it started, or ended; None while it waits.
        started: True if a runner took it.
        workflow: the name of its workflow.
        conclusion: as GitHub names it, if it ended without a runner; empty if no delivery reported its end.
        waited_for: the last reason for which it waited, see `Job`.
        lacked_labels: as of `Job`.
    """

    id: int
    queued_at: float
    name: str = ""
    html_url: str = ""
    left_at: float | None = None
    started: bool = False
    workflow: str = ""
    conclusion: str = ""
    waited_for: str = ""
    lacked_labels: tuple[str, ...] = ()


class QueueCheck(NamedTuple):
    """The check run of one commit. Fields are only ever appended.

    Attributes:
        repository: `owner/name`, as deliveries name it.
        sha: the commit.
        jobs: the followed jobs, oldest first.
        check_run: its id; None before it is created, or if that is not known.
        digest: of the last post; empty before the first.
        reasons_digest: of what the last post meant, see `report.queue_report.reasons_digest`; empty before the first.
        posted_at: when it was last posted.
        over: True if it is completed.
        setback: why the last attempt to post failed; empty if it did not.
        again_at: GitHub is not asked before this.
        more: how many further jobs of the commit wait.
        overflowed: True if ever more than `MOST_JOBS` waited: then the jobs that it follows are not all that did.
    """

    repository: str
    sha: str
    jobs: tuple[FollowedJob, ...] = ()
    check_run: int | None = None
    digest: str = ""
    reasons_digest: str = ""
    posted_at: float = 0.0
    over: bool = False
    setback: str = ""
    again_at: float = 0.0
    more: int = 0
    overflowed: bool = False


def place_of(repository: str, sha: str) -> str:
    """Returns the key of a commit's check."""
    return f"{repository.lower()}@{sha}"


def is_due(queue: JobQueue, job: Job, limits: QueueLimits) -> bool:
    """True if a queued job has waited long enough for its commit to get a check run."""
    waited = queue.now - job.queued_at
    if waited < min(limits.explain_after_seconds, limits.busy_after_seconds):
        return False
    reason = queue.reason(job)
    if reason in STUCK:
        return waited >= limits.explain_after_seconds
    return reason is QueueReason.ALL_BUSY and waited >= limits.busy_after_seconds


def waiting_by_commit(queue: JobQueue) -> dict[str, list[Job]]:
    """Returns the queued jobs of each commit, oldest first, without those that may be GitHub's own machines'."""
    found: dict[str, list[Job]] = defaultdict(list)
    for job in queue.queued:
        if job.head_sha and job.repository and queue.is_ours(job):
            found[place_of(job.repository, job.head_sha)].append(job)
    return found


def checks_to_follow(queue: JobQueue, known: Mapping[str, QueueCheck], limits: QueueLimits) -> dict[str, QueueCheck]:
    """Returns the checks that are open or to be opened, with the jobs that they follow now.

    A completed check is opened again if another job of its commit is due. A check keeps what is known of jobs that it
    followed, so that it can be completed with how long they waited.
    """
    waiting = waiting_by_commit(queue)
    found: dict[str, QueueCheck] = {}
    for place, jobs in waiting.items():
        check = known.get(place)
        if check is not None and not check.over:
            found[place] = _following(check, jobs)
        elif any(is_due(queue, job, limits) for job in jobs):
            begun = check or QueueCheck(jobs[0].repository, jobs[0].head_sha)
            found[place] = _following(begun._replace(jobs=(), over=False, overflowed=False), jobs)
    for place, check in known.items():
        if not check.over and place not in found:
            found[place] = check._replace(more=0)
    return found


def _following(check: QueueCheck, jobs: Sequence[Job]) -> QueueCheck:
    followed = {each.id: each for each in check.jobs}
    for job in jobs:
        new = FollowedJob(job.id, job.queued_at, job.name, job.html_url, workflow=job.workflow)
        followed.setdefault(job.id, new)
    waiting = {job.id for job in jobs}
    kept = sorted(followed.values(), key=lambda each: (each.id not in waiting, each.queued_at, each.id))[:MOST_JOBS]
    more = len(waiting.difference(each.id for each in kept))
    return check._replace(
        jobs=tuple(sorted(kept, key=lambda each: (each.queued_at, each.id))),
        more=more,
        overflowed=check.overflowed or len(followed) > MOST_JOBS,
    )


def unknown_jobs(check: QueueCheck, queue: JobQueue) -> list[int]:
    """Returns the ids of followed jobs that are not among the queued ones, and whose end of waiting is not known."""
    return [each.id for each in check.jobs if each.left_at is None and each.id not in queue.queued_by_id]


def with_outcomes(check: QueueCheck, known: Iterable[Job | None], ids: Sequence[int], now: float) -> QueueCheck:
    """Records when followed jobs stopped waiting.

    Args:
        check: the check.
        known: the jobs of these ids as they are known now; None for a job that is not known any more.
        ids: of followed jobs that do not wait any more.
        now: the time that replaces an unknown end.
    """
    outcomes = dict(zip(ids, known, strict=True))
    return check._replace(
        jobs=tuple(_left(each, outcomes[each.id], now) if each.id in outcomes else each for each in check.jobs)
    )


def _left(followed: FollowedJob, job: Job | None, now: float) -> FollowedJob:
    if job is None:
        return followed._replace(left_at=now)
    if job.status == "queued" and not is_over(job, now):  # a late delivery, or an approval
        return followed
    is_taken = was_taken(job)
    left_at = job.started_at if is_taken else job.ended_at
    return followed._replace(
        left_at=now if left_at is None else left_at,
        started=is_taken,
        conclusion="" if is_taken else job.conclusion,
        waited_for=job.waited_for,
        lacked_labels=job.lacked_labels,
    )


def is_done(check: QueueCheck) -> bool:
    """True if no job of the commit waits any more."""
    return not check.more and all(each.left_at is not None for each in check.jobs)


def is_to_be_posted(check: QueueCheck, digest: str, reasons_digest: str, now: float) -> bool:
    """True if GitHub shows something else that is due.

    The completion is due at once, another meaning once a minute, anything else after `REFRESH_SECONDS`.
    """
    if check.digest == digest:
        return False
    age = now - check.posted_at
    is_settling, is_recent = 0 <= age < SETTLE_SECONDS, 0 <= age < REFRESH_SECONDS
    if is_done(check) and not check.over:
        return True
    return not is_settling if check.reasons_digest != reasons_digest else not is_recent


def is_forgotten(check: QueueCheck, now: float) -> bool:
    """True if a check was completed an hour ago, or could not be completed for two days."""
    if check.over:
        return now - check.posted_at > COMPLETED_SECONDS
    oldest = max((each.left_at or each.queued_at for each in check.jobs), default=0.0)
    return now - max(check.posted_at, oldest) > FORGOTTEN_SECONDS
