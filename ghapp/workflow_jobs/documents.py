"""The JSON document of a workflow job, and which jobs a listing selects. Pure. Times are RFC 3339 in UTC."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypedDict

from ghapp.deaths.cause import HAPPENED, Cause
from ghapp.deaths.death import Death
from ghapp.deaths.job_outcome import (
    NOTHING_KNOWN,
    FailedBy,
    JobOutcome,
    JobStep,
    LaterAttempt,
    failed_by,
    job_summary,
    next_steps,
    run_again_as,
)
from ghapp.deaths.job_story import StoryEvent, StoryStep, how_known, job_story
from ghapp.deaths.rerun import Rerun, RerunState
from ghapp.deaths.texts import last_line
from ghapp.report.documents import StepDocument, Timestamp, timestamp
from ghapp.workflow_jobs.explanation import QueueExplanation, QueueStep, explain
from ghapp.workflow_jobs.job import ANY_ORIGIN, Job, JobOrigin, is_over
from ghapp.workflow_jobs.job_queue import JobQueue
from ghapp.workflow_jobs.reason import QueueReason

JobState = Literal["queued", "running", "over"]
JOB_STATES: tuple[JobState, ...] = ("queued", "running", "over")


class JobStepDocument(StepDocument):
    """What the developer of a job can do. `url` is where; null if that is not known, or the step has no page."""

    url: str | None


class WhyDocument(TypedDict):
    """Why a job waits. `ahead` is null if no runner may take the job, the typical wait if none is known.

    `fails_at` is when GitHub fails the job if no runner takes it; null while one can.
    """

    reason: QueueReason
    text: str
    since: Timestamp
    ahead: int | None
    typical_wait_seconds: float | None
    next: list[JobStepDocument]
    fails_at: Timestamp | None


class JobDeathDocument(TypedDict):
    """How a job's runner died. `last_line` is that of the runner's log, which `…/deaths/{runner_name}` has."""

    at: Timestamp
    cause: Cause
    reason: str
    text: str
    known_by: str
    memory_limit: str
    last_line: str
    advice: str


class JobRerunDocument(TypedDict):
    """The re-run of a job that ghapp requested. `job_id` is null until a delivery of that attempt has come."""

    at: Timestamp
    by: str
    state: RerunState
    attempt: int
    why: str
    job_id: int | None


class LaterAttemptDocument(TypedDict):
    """The latest attempt of a job that was run again, by ghapp or at GitHub.

    `at` is when it was queued or, where no delivery of it has come, requested; `job_id` is then null, and `text`, which
    has where it is, or how it ended, empty.
    """

    attempt: int
    job_id: int | None
    at: Timestamp | None
    text: str


def list_order(
    state: str, *, is_stuck: bool, queued_at: float, latest_at: float, job_id: int
) -> tuple[int, bool, float, int]:
    """Returns the place of a job in a list: queued ones first, of them those that no runner can take, and the oldest.

    Those that run or are over follow with the latest first: `latest_at` is the start or the end (epoch seconds).
    """
    place = JOB_STATES.index(state)
    return (place, not is_stuck, queued_at, job_id) if state == "queued" else (place, False, -latest_at, -job_id)


class StoryEventDocument(TypedDict):
    """One event of a job's story. `at` is null if it is not known when it happened."""

    at: Timestamp | None
    step: StoryStep
    text: str


class JobDocument(TypedDict):
    """A workflow job and its story, in the order of time. `why` is null unless it waits for a known reason.

    `actor` is the login of who triggered the run; it and `head_branch` are empty if no delivery reported them. Of a
    job that ghapp ran again `actor` is who requested that, and `rerun_by` the same or `auto`: then the pool requested
    it, and `actor` is that of the earlier attempt. `rerun_by` is null for other jobs.
    `pool` is empty if no pool has its labels: none is configured for them, and no runner has them. `next` is what to
    do, also about a job that waits, as `why` has it. `summary` is how its runner died or what it failed by, and whether
    it runs again; of a job that ended without a runner how long it waited, and why; null if it did not fail.
    `failed_by` is null unless it failed. `waited_for` is the last reason for which the job waited, once it waits no
    more; null if that is not known: a wait of less than half a minute is not recorded.
    """

    job_id: int
    run_id: int | None
    attempt: int
    repository: str
    workflow: str
    name: str
    head_sha: str
    head_branch: str
    actor: str
    rerun_by: str | None
    html_url: str
    labels: list[str]
    pool: str
    state: JobState
    queued_at: Timestamp
    started_at: Timestamp | None
    ended_at: Timestamp | None
    conclusion: str | None
    runner: str | None
    why: WhyDocument | None
    waited_for: str | None
    death: JobDeathDocument | None
    rerun: JobRerunDocument | None
    later_attempt: LaterAttemptDocument | None
    summary: str | None
    failed_by: FailedBy | None
    story: list[StoryEventDocument]
    next: list[JobStepDocument]


def state_of(job: Job, now: float) -> JobState:
    """Returns a job's state; a job whose end was never delivered but must have come is over."""
    return "over" if is_over(job, now) else job.status


def select_jobs(
    queue: JobQueue,
    state: str | None = None,
    pool: str | None = None,
    origin: JobOrigin = ANY_ORIGIN,
    among: Iterable[Job] | None = None,
) -> list[Job]:
    """Returns the jobs in that state and pool (None: any) and of that origin, each once, by id.

    `among`: the jobs that a search found; None: those that are not over, and those that ended within the last hour.
    """
    known = {job.id: job for job in ((*queue.inputs.ended, *queue.inputs.jobs) if among is None else among)}
    return [
        job
        for _, job in sorted(known.items())
        if state in (None, state_of(job, queue.now))
        and pool in (None, queue.existing_pool(job))
        and origin.matches(job)
    ]


def job_document(queue: JobQueue, job: Job, outcome: JobOutcome = NOTHING_KNOWN) -> JobDocument:
    """Returns the document of a job; `why` is null unless the job is queued and the reason is known."""
    why, summary = explain(queue, job), job_summary(job, outcome, queue.now)
    steps: list[QueueStep | JobStep] = [*(() if why is None else why.next), *next_steps(job, outcome, queue.now)]
    return {
        "job_id": job.id,
        "run_id": job.run_id,
        "attempt": job.attempt,
        "repository": job.repository,
        "workflow": job.workflow,
        "name": job.name,
        "head_sha": job.head_sha,
        "head_branch": job.head_branch,
        "actor": job.actor,
        "rerun_by": job.rerun_by or None,
        "html_url": job.html_url,
        "labels": list(job.labels),
        "pool": queue.existing_pool(job),
        "state": state_of(job, queue.now),
        "queued_at": timestamp(job.queued_at),
        "started_at": _time(job.started_at),
        "ended_at": _time(job.ended_at),
        "conclusion": job.conclusion or None,
        "runner": job.runner_name,
        "why": why_document(why),
        "waited_for": job.waited_for or None,
        "death": None if outcome.death is None else _death(outcome.death),
        "rerun": None if outcome.rerun is None else _rerun(outcome.rerun, outcome.attempts),
        "later_attempt": _later_attempt(run_again_as(job, outcome, queue.now)),
        "summary": None if summary is None else str(summary),
        "failed_by": failed_by(job, outcome, queue.now),
        "story": [_event(each) for each in job_story(job, queue.existing_pool(job), why, outcome, queue.now)],
        "next": [_step(each) for each in steps],
    }


def _death(death: Death) -> JobDeathDocument:
    return {
        "at": timestamp(death.ended_at),
        "cause": death.cause,
        "reason": death.reason,
        "text": HAPPENED[death.cause],
        "known_by": how_known(death),
        "memory_limit": death.memory_limit,
        "last_line": last_line(death.runner_log),
        "advice": death.advice,
    }


def _rerun(rerun: Rerun, attempts: Iterable[Job]) -> JobRerunDocument:
    number = rerun.attempt + 1
    return {
        "at": timestamp(rerun.at),
        "by": rerun.by,
        "state": rerun.state,
        "attempt": number,
        "why": rerun.why,
        "job_id": next((each.id for each in attempts if each.attempt == number), None),
    }


def _later_attempt(found: LaterAttempt | None) -> LaterAttemptDocument | None:
    if found is None:
        return None
    return {"attempt": found.attempt, "job_id": found.job_id, "at": _time(found.at), "text": found.where}


def _event(event: StoryEvent) -> StoryEventDocument:
    return {"at": _time(event.at), "step": event.step, "text": event.full_text}


def _step(found: JobStep | QueueStep) -> JobStepDocument:
    return {"step": found.step, "why": found.why, "url": found.url or None}


def why_document(found: QueueExplanation | None) -> WhyDocument | None:
    """Returns the document of why a job waits; None if that is not known."""
    if found is None:
        return None
    typical = found.typical_wait_seconds
    return {
        "reason": found.reason,
        "text": found.text,
        "since": timestamp(found.since),
        "ahead": found.ahead,
        "typical_wait_seconds": None if typical is None else round(typical, 1),
        "next": [_step(each) for each in found.next],
        "fails_at": _time(found.fails_at),
    }


def _time(at: float | None) -> str | None:
    return None if at is None else timestamp(at)
