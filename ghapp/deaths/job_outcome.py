"""What a workflow job failed by, whether it runs again, and what its developer can do.

`job_story` has the events that led there, in the same words. Pure; times are epoch seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from math import ceil
from typing import NamedTuple

from ghapp.deaths.cause import HAPPENED, LESS_MEMORY, needed_change, not_yours, rerun_label
from ghapp.deaths.death import DeadJob, Death, LargerPool
from ghapp.deaths.job_death import RunnerAfter
from ghapp.deaths.post_mortem import ENDED_LATE_SECONDS
from ghapp.deaths.rerun import AUTO, Rerun, RerunNote, RerunRefusal, RerunState
from ghapp.wording import clock_time, duration
from ghapp.workflow_jobs.job import Job, is_over, was_taken
from ghapp.workflow_jobs.reason import waited_for_text


class LaterAttempt(NamedTuple):
    """The latest attempt of a job's run, and where it is in words: `running on runner linux-1`.

    `result` is how it ended, in a word without anybody's text; empty while it goes on, or if that is not known. `at`:
    when it was queued or, of an attempt of which only the request is known, requested (epoch seconds).
    """

    attempt: int
    job_id: int | None = None
    where: str = ""
    result: str = ""
    at: float | None = None

    @property
    def text(self) -> str:
        """The same as a part of a sentence."""
        return f"attempt {self.attempt} of the run: {self.where}"


class JobSummary(NamedTuple):
    """What a job failed by, and whether the job runs again: what every surface begins with.

    Attributes:
        text: how the runner died, or that it did not, as a part of a sentence.
        again: the latest attempt, if one is known; else, of a job whose runner died, whether it runs again, or empty.
        later: that attempt; None without one.
    """

    text: str
    again: str = ""
    later: LaterAttempt | None = None

    def __str__(self) -> str:
        return "; ".join(each for each in (self.text, self.again) if each)


class FailedBy(StrEnum):
    """What a job failed by. `pending`: its runner's death is being looked for; `job`: its runner did not die."""

    RUNNER = "runner"
    STEP = "step"
    JOB = "job"
    PENDING = "pending"
    UNKNOWN = "unknown"


_FAILED_BY = {
    FailedBy.STEP: "a step failed",
    FailedBy.JOB: "its runner did not die",
    FailedBy.PENDING: "cause being looked for",
    FailedBy.UNKNOWN: "cause not known",
}


class JobOutcome(NamedTuple):
    """What is known of a job beside its deliveries.

    Attributes:
        death: of its runner while it ran; None if none is known.
        rerun: its one re-run by ghapp; None if none was requested.
        note: why the last try sent no request; None if there was none.
        attempts: jobs that may be other attempts of it, see `other_attempts`.
        reruns: re-runs of these attempts by ghapp.
        exited: True if a normal end of its runner is on record.
        runner_after: what is known of its runner after its end; None if that was not looked up, or says nothing.
        button: the address of the check run whose button runs it again; empty on that check run itself, None if there
            is no such button.
        larger: pools with more memory than its runner had, where memory ran out.
    """

    death: Death | None = None
    rerun: Rerun | None = None
    note: RerunNote | None = None
    attempts: tuple[Job, ...] = ()
    reruns: tuple[Rerun, ...] = ()
    exited: bool = False
    runner_after: RunnerAfter | None = None
    button: str | None = None
    larger: tuple[LargerPool, ...] = ()


NOTHING_KNOWN = JobOutcome()


class JobStep(NamedTuple):
    """What the developer of a job can do after its end, and why.

    `url` is where; empty if that is not known, or the step is not taken at GitHub. `runs_again`: the job, unchanged.
    """

    step: str
    why: str
    url: str
    runs_again: bool = False


POST_MORTEM = "Runner post-mortem"
"""The name of the check run that has the button."""

RUN_AGAIN = "run it again at GitHub (Re-run jobs)"
"""Where no button is."""

RUNS_AGAIN = (
    "runs this job and the jobs that depend on it again; "
    'GitHub\'s own "Re-run failed jobs" does that for all failed jobs of the run'
)
"""What the button does, as the end of a sentence."""


START_AGAIN = "start its workflow again, for example by a new commit"
"""Where GitHub runs the job itself again no more."""


UNCHANGED = "unchanged, it may end in the same way"


NOT_TO_REPEAT = frozenset({"success", "neutral", "skipped"})
"""Conclusions after which there is nothing to run again."""


def job_summary(job: Job, outcome: JobOutcome, now: float) -> JobSummary | None:
    """Returns what a job failed by, and whether the job runs again; None if it did not fail, or that is not known.

    Of a job that ended without a runner: how long it waited, and why.
    """
    later = later_attempt(job, outcome, now)
    if waited := wait_text(job):
        return JobSummary(waited, "" if later is None else later.text, later)
    if outcome.death is not None:
        cause = outcome.death.cause
        died = f"its runner died ({cause}): {within(HAPPENED[cause])}"
        return JobSummary(died, _again(job, outcome, now) if later is None else later.text, later)
    if (after := outcome.runner_after) is None or failed_by(job, outcome, now) is None:
        return None
    ended = _step_failed(job) if after.a_step_failed else f"the job ended: {conclusion_text(job)}"
    return JobSummary(f"{ended}; {known_of_runner(after, now)[0]}", "" if later is None else later.text, later)


def wait_text(job: Job) -> str:
    """Returns how long a job waited that ended without a runner, why, and how it ended; empty for other jobs.

    Its parts are those of a sentence: `waited 34 min: no runner had the label gpu; cancelled`.
    """
    if job.status != "over" or was_taken(job) or job.ended_at is None or job.conclusion in ("", *NOT_TO_REPEAT):
        return ""
    why = waited_for_text(job.waited_for, job.lacked_labels)
    waited = f"waited {duration(max(0.0, job.ended_at - job.queued_at))}"
    return f"{waited}{f': {why}' if why else ', and no runner took it'}; {conclusion_text(job)}"


def _step_failed(job: Job) -> str:
    name = "" if job.steps is None else job.steps.failed_step
    return f'step "{name}" of the job failed' if name else "a step of the job failed"


def _again(job: Job, outcome: JobOutcome, now: float) -> str:
    """Returns whether a job runs again of which no later attempt is known."""
    rerun, note = outcome.rerun, outcome.note
    if rerun is not None and rerun.state is not RerunState.REFUSED:
        return f"its re-run as attempt {rerun.attempt + 1} was requested"
    if not is_over(job, now):
        return "GitHub has not ended the job yet"
    if note is None or not (note.is_final or note.waits(now)):
        return "it was not run again"
    if note.is_final:
        return f"it was not run again: {note.text}"
    return "it was not run again yet" if note.by == AUTO else f"its re-run was requested by {note.by}, and waits"


def failed_by(job: Job, outcome: JobOutcome, now: float) -> FailedBy | None:
    """Returns what a job failed by: its runner, or its own steps; None if it did not fail, or was not taken."""
    if not is_over(job, now) or job.conclusion in NOT_TO_REPEAT:
        return None
    if outcome.death is not None:
        return FailedBy.RUNNER
    if (after := outcome.runner_after) is None:
        return None
    if after.pending_until(now) is not None:
        return FailedBy.PENDING
    if after.a_step_failed:
        return FailedBy.STEP
    return FailedBy.JOB if after.exited or after.is_online else FailedBy.UNKNOWN


def failure_text(conclusion: str, by: str | None, cause: str = "") -> str:
    """Returns how a job ended, and by what, in the few words of a column.

    Args:
        conclusion: as GitHub names it.
        by: a `FailedBy`, possibly of another version; None if it did not fail.
        cause: of its runner's death.
    """
    if cause:
        return f"runner died: {cause}"
    ended = conclusion.replace("_", " ")
    return f"{ended}: {_FAILED_BY[FailedBy(by)]}" if by in set(_FAILED_BY) else ended


def job_of_death(death: Death) -> Job:
    """Returns the job of a death as far as the death's record has it, where no delivery has reported it."""
    known = death.job or DeadJob(0)
    return Job(
        known.id,
        "over" if known.conclusion else "running",
        (),
        known.repository,
        death.at,
        name=known.name,
        head_sha=known.head_sha,
        html_url=known.html_url,
        conclusion=known.conclusion,
    )


def lacks_rerun(job: Job, outcome: JobOutcome) -> bool:
    """True if the job failed by its runner, is over, and was not run again, nor is about to be."""
    failed = outcome.death is not None and job.status == "over" and job.conclusion not in NOT_TO_REPEAT
    is_asked = outcome.rerun is not None and outcome.rerun.state is RerunState.REQUESTED
    is_superseded = outcome.note is not None and outcome.note.reason == RerunRefusal.LATER_ATTEMPT
    return failed and not is_asked and not is_superseded and not is_run_again(job.attempt, outcome)


def next_steps(job: Job, outcome: JobOutcome, now: float) -> tuple[JobStep, ...]:
    """Returns what the developer of a job can do that ended, or whose runner died, in the order in which it is done.

    What has to change about the job after its runner's death stays true of a job that was run again.
    """
    after = outcome.runner_after
    if outcome.death is None:
        if after is None or after.pending_until(now) is not None or is_run_again(job.attempt, outcome):
            return ()
        return (JobStep("see the job's log at GitHub", "the log of its steps shows what failed", job.html_url),)
    if job.conclusion in NOT_TO_REPEAT:
        return ()
    note, cause, reason = outcome.note, outcome.death.cause, outcome.death.reason
    why, change = within(not_yours(cause, reason).removesuffix(".")), needed_change(cause, reason)
    if change == LESS_MEMORY and (limit := outcome.death.memory_limit):
        pools = " or ".join(each.text for each in outcome.larger)
        change += f": {pools}" if pools else f"; ask the platform team which pool has more than {limit}"
    changes = (JobStep(change, why, ""),) if change else ()
    goes_on = not is_over(job, now) and not is_run_again(job.attempt, outcome)
    if not goes_on and not lacks_rerun(job, outcome):
        return changes
    again = JobStep(RUN_AGAIN, UNCHANGED if change else why, job.html_url, runs_again=True)
    if goes_on:
        wait = f"wait until GitHub ends the job{ended_by_github(outcome.death, now)}, or cancel the run at GitHub"
        again = JobStep(wait, "it can be run again then, and not before", job.html_url)
    elif note is not None and note.by != AUTO and note.waits(now):
        again = JobStep(f"wait for the re-run that {note.by} requested", f"{note.text}; {retry_text(note)}", "")
    elif note is not None and note.is_final:
        again = JobStep(START_AGAIN, note.text, "")
    elif outcome.button is not None:
        where = f'in the check run "{POST_MORTEM}"' if outcome.button else "above"
        press = f'press "{rerun_label(cause, reason)}" {where}'
        again = again._replace(step=press, why=f"that {RUNS_AGAIN}; {again.why}", url=outcome.button)
    return (*changes, again)


def retry_text(note: RerunNote) -> str:
    """Returns when a re-run that waits is tried again, as a part of a sentence."""
    return f"next try at {clock_time(note.next_at)}" if note.next_at is not None else ""


def ended_by_github(death: Death, now: float) -> str:
    """Returns by when GitHub ends the job of a death, as the end of a sentence; empty if it is later than that."""
    at = death.ended_at + ENDED_LATE_SECONDS
    minute = datetime.fromtimestamp(ceil(at / 60) * 60, UTC)
    return f", by about {minute:%H:%M} UTC" if now < at else ""


def other_attempts(job: Job, jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Returns the jobs that are other attempts of a job, by attempt: GitHub gives each attempt another id.

    Only the name connects them. Of an attempt with several jobs of that name none is taken for this job's.
    """
    by_attempt: dict[int, dict[int, Job]] = {}
    for each in jobs:
        if (each.run_id, each.repository, each.name) == (job.run_id, job.repository, job.name):
            by_attempt.setdefault(each.attempt, {})[each.id] = each
    if job.run_id is None or set(by_attempt.get(job.attempt, ())) - {job.id}:
        return ()
    found = (each for attempt, each in sorted(by_attempt.items()) if attempt != job.attempt)
    return tuple(next(iter(each.values())) for each in found if len(each) == 1)


def is_run_again(attempt: int, outcome: JobOutcome) -> bool:
    """True if a job of that attempt was run again: by ghapp, or by a person at GitHub."""
    rerun = outcome.rerun
    return (rerun is not None and rerun.state is RerunState.ACCEPTED) or any(
        each.attempt > attempt for each in outcome.attempts
    )


def run_again_as(job: Job, outcome: JobOutcome, now: float) -> LaterAttempt | None:
    """Returns the latest attempt of a job that was run again; None if it was not, as far as is known.

    Of a re-run that GitHub accepted, and of which no delivery has come, the number alone is known.
    """
    rerun, later = outcome.rerun, later_attempt(job, outcome, now)
    if later is None and rerun is not None and rerun.state is RerunState.ACCEPTED:
        return LaterAttempt(rerun.attempt + 1, at=rerun.at)
    return later


def later_attempt(job: Job, outcome: JobOutcome, now: float) -> LaterAttempt | None:
    """Returns the latest attempt of the job's run that is known; None if no later one is."""
    later = max((each for each in outcome.attempts if each.attempt > job.attempt), key=_attempt, default=None)
    if later is None:
        return None
    result = _RESULTS.get(later.conclusion, "ended") if is_over(later, now) else ""
    return LaterAttempt(later.attempt, later.id, where_text(later, now), result, later.queued_at)


_RESULTS = {
    "success": "succeeded",
    "failure": "failed",
    "timed_out": "timed out",
    "cancelled": "was cancelled",
    "skipped": "was skipped",
}


def _attempt(job: Job) -> int:
    return job.attempt


def where_text(job: Job, now: float) -> str:
    """Returns where a job is, or how it ended, as a part of a sentence."""
    if is_over(job, now):
        on = f" on {job.runner_name}" if job.runner_name else ""
        return f"ended{on}: {conclusion_text(job)}"
    return f"running on {runner_text(job)}" if job.status == "running" else "queued"


def runner_text(job: Job) -> str:
    """Returns a job's runner."""
    return f"runner {job.runner_name}" if job.runner_name else "a runner that GitHub did not name"


def conclusion_text(job: Job) -> str:
    """Returns a job's conclusion in words."""
    return job.conclusion.replace("_", " ") or "no conclusion was delivered"


def known_of_runner(after: RunnerAfter, now: float) -> tuple[str, str]:
    """Returns whether a runner died of which no death is known, and what shows that; empty if nothing does."""
    if (until := after.pending_until(now)) is not None:
        by = clock_time(until)
        return "its cause is being looked for", f"whether its runner died is known by {by} at the latest"
    if after.exited:
        return "its runner did not die", "its runner exited normally"
    if after.is_online:
        return "its runner did not die", "GitHub listed its runner as online after the job's end"
    if not after.is_watched:
        return "no death of its runner is known", "no death is looked for, because its pool is not configured"
    return f"no death of its runner {'is known' if after.examined_until is None else 'was found'}", ""


def within(sentence: str) -> str:
    """Returns a sentence as a part of another one."""
    return f"{sentence[:1].lower()}{sentence[1:]}"
