"""The page of one job: its story, and why it waits. Pure."""

from __future__ import annotations

from typing import NamedTuple

from ghapp.deaths.job_story import JobOutcome, StoryStep, job_story
from ghapp.web.pages.views.jobs import JobLine, job_line, mark_of, name_of, sentence
from ghapp.web.pages.views.wording import Moment, duration, moment, web_address
from ghapp.workflow_jobs.explanation import QueueExplanation, QueueStep, explain
from ghapp.workflow_jobs.job import Job
from ghapp.workflow_jobs.job_queue import JobQueue

SHORT_SHA = 7


class StepLine(NamedTuple):
    """A next step, and why, as sentences. `is_command`: the step is to be typed as it is."""

    step: str
    why: str
    is_command: bool


class WhyView(NamedTuple):
    """Why a queued job waits."""

    reason: str
    sentence: str
    since: Moment | None
    ahead: int | None
    typical: str
    steps: tuple[StepLine, ...]
    stuck: bool


class StoryLine(NamedTuple):
    """One event of the job's story; `at` is None if it is not known when it happened."""

    at: Moment | None
    text: str
    is_bad: bool


class JobPageView(NamedTuple):
    """The page of one job. `waited` and `ran` are lengths of time so far; empty if there is none."""

    id: int
    name: str
    repository: str
    workflow: str
    url: str
    state: str
    mark: str
    conclusion: str
    pool: str
    labels: tuple[str, ...]
    attempt: int
    sha: str
    runner: str
    runner_id: int | None
    runner_group: str
    queued: Moment | None
    started: Moment | None
    ended: Moment | None
    waited: str
    ran: str
    why: WhyView | None
    is_held: bool
    story: tuple[StoryLine, ...]


def job_page(queue: JobQueue, job: Job, outcome: JobOutcome, now: float) -> JobPageView:
    """Returns the page of a job that the visitor may see."""
    line, why = job_line(queue, job), explain(queue, job)
    begun = job.started_at if line.state != "queued" else None
    waited_until = begun or job.ended_at or now
    return JobPageView(
        id=job.id,
        name=name_of(job),
        repository=job.repository,
        workflow=job.workflow,
        url=web_address(job.html_url),
        state=line.state,
        mark=mark_of(line),
        conclusion=job.conclusion,
        pool=line.pool,
        labels=job.labels,
        attempt=job.attempt,
        sha=job.head_sha[:SHORT_SHA],
        runner=job.runner_name or "",
        runner_id=job.runner_id,
        runner_group=job.runner_group,
        queued=moment(job.queued_at, now),
        started=moment(begun, now),
        ended=moment(job.ended_at, now),
        waited=duration(max(0.0, waited_until - job.queued_at)),
        ran="" if begun is None else duration(max(0.0, (job.ended_at or now) - begun)),
        why=None if why is None else _why(line, why, now),
        is_held=job.waiting and line.state == "queued",
        story=tuple(
            StoryLine(moment(each.at, now), sentence(each.text), is_bad=each.step is StoryStep.DIED)
            for each in job_story(job, line.pool, why, outcome, now)
        ),
    )


def _why(line: JobLine, found: QueueExplanation, now: float) -> WhyView:
    typical = found.typical_wait_seconds
    return WhyView(
        reason=found.reason.value,
        sentence=sentence(found.text),
        since=moment(found.since, now),
        ahead=found.ahead,
        typical="" if typical is None else duration(typical),
        steps=tuple(_step(each) for each in found.next),
        stuck=line.stuck,
    )


def _step(found: QueueStep) -> StepLine:
    is_command = found.step.startswith("ghapp ")
    return StepLine(found.step if is_command else sentence(found.step), sentence(found.why), is_command)
