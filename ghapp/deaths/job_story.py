"""The story of one workflow job: what it waited for, which runner took it, how that ended, and where it runs again.

One function composes it for all surfaces: the terminal, the job's page, the API and the check run of the post-mortem.
What is not known is stated as not known. Pure; times are epoch seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple
from urllib.parse import urlsplit

from ghapp.deaths.cause import HAPPENED, OwnReason, needed_change, not_yours
from ghapp.deaths.death import DeadJob, Death
from ghapp.deaths.job_death import RunnerAfter
from ghapp.deaths.rerun import AUTO, Rerun, RerunNote, RerunRefusal, RerunState, why_not
from ghapp.untrusted_text import shell_command
from ghapp.wording import clock_time, duration
from ghapp.workflow_jobs.capacity import NOT_ASSIGNED_SECONDS
from ghapp.workflow_jobs.explanation import QueueExplanation
from ghapp.workflow_jobs.job import Job, is_over
from ghapp.workflow_jobs.labels import labels_text
from ghapp.workflow_jobs.reason import QueueReason


class StoryStep(StrEnum):
    """What an event of the story is about, in the order in which the steps follow each other."""

    QUEUED = "queued"
    WAITS = "waits"
    TAKEN = "taken"
    SEEN = "seen"
    DIED = "died"
    ENDED = "ended"
    CAUSE = "cause"
    RERUN = "rerun"
    NEXT_ATTEMPT = "next-attempt"


_ORDER = {step: place for place, step in enumerate(StoryStep)}


class StoryEvent(NamedTuple):
    """One event: when (None: not known), which step, and what happened, as a part of a sentence.

    `command` runs the job again, where that is still to be done; `needs_change`: it ends in the same way unless
    something is changed first. `follows_rerun`: it came of the re-run, and stands after it: GitHub's dates are whole
    seconds, of another clock. `job_id`: of the later attempt that it is about.
    """

    at: float | None
    step: StoryStep
    text: str
    follows_rerun: bool = False
    command: str = ""
    needs_change: bool = False
    job_id: int | None = None

    @property
    def before_command(self) -> str:
        """The text as it stands before the command."""
        return f"{self.text}; to run it again{' unchanged' if self.needs_change else ''}: "

    @property
    def full_text(self) -> str:
        """The text with the command between backticks; the text itself may have backticks of anybody's names."""
        return f"{self.before_command}`{self.command}`" if self.command else self.text


class LaterAttempt(NamedTuple):
    """The latest attempt of a job's run, and where it is in words: `running on runner linux-1`.

    `result` is how it ended, in a word without anybody's text; empty while it goes on, or if that is not known.
    """

    attempt: int
    job_id: int | None = None
    where: str = ""
    result: str = ""

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
    """

    death: Death | None = None
    rerun: Rerun | None = None
    note: RerunNote | None = None
    attempts: tuple[Job, ...] = ()
    reruns: tuple[Rerun, ...] = ()
    exited: bool = False
    runner_after: RunnerAfter | None = None


NOTHING_KNOWN = JobOutcome()


class JobStep(NamedTuple):
    """What the developer of a job can do after its end, and why.

    `url` is where; empty if that is not known, or the step is not taken at GitHub.
    """

    step: str
    why: str
    url: str


RUN_AGAIN = "run it again at GitHub (Re-run jobs)"
UNCHANGED = "unchanged, it may end in the same way"

A_STEP_FAILED = "a step of the job failed"

HELD = "GitHub holds it back, for an approval or for its concurrency group"

_WAITED_FOR = {
    QueueReason.NO_RUNNER_WITH_LABELS: "no runner had its labels",
    QueueReason.GROUP_EXCLUDES_REPOSITORY: "the runner group excluded its repository",
    QueueReason.POOL_PAUSED: "its pool's runners were lost, and remediation was paused",
    QueueReason.FUSE_STOPPED: "its pool's runners were lost, and the fuse was stopped",
    QueueReason.RUNNERS_LOST: "its pool's runners were lost",
    QueueReason.RUNNERS_OFFLINE: "its pool's runners were offline",
    QueueReason.RUNNERS_TOO_OLD: "its pool's runners were too old to get jobs",
    QueueReason.ALL_BUSY: "all runners of its pool were busy",
    QueueReason.NOT_ASSIGNED: "runners were idle, and GitHub assigned none",
}

_KNOWN_BY = {
    OwnReason.SHUTDOWN_SIGNAL: "GitHub's log of the job has the signal that stopped the runner",
    OwnReason.LOST_COMMUNICATION: "GitHub reported that the runner lost communication",
    OwnReason.STEP_LEFT_OPEN: "the end of a step was never reported",
    OwnReason.WENT_OFFLINE: "GitHub listed the runner as offline while the job ran",
    OwnReason.REGISTRATION_LOST: "its registration was missing while the job ran",
    OwnReason.REMOVED: "its controller reported that it removed the runner while the job ran",
}


def job_story(
    job: Job, pool: str, why: QueueExplanation | None, outcome: JobOutcome, now: float
) -> tuple[StoryEvent, ...]:
    """Returns what happened to a job, in the order of time; events without a known time stand where they belong.

    Args:
        job: as its latest delivery shows it.
        pool: that it waits for or ran in; empty if no pool has its labels, or none is known.
        why: why it waits; None if it does not, or if that is not known.
        outcome: what else is known.
        now: the present time.
    """
    events = [_queued(job, pool, outcome), *_waits(job, why, now), *_taken(job, now)]
    if outcome.death is not None:
        events += [*_seen(outcome.death), *_died(job, outcome.death, now)]
    events += [*_ended(job, now), *_cause(outcome, now)]
    later = [each for each in outcome.attempts if each.attempt > job.attempt]
    if is_over(job, now):
        again = "" if job.conclusion in NOT_TO_REPEAT else rerun_command(job.id, job.repository, job.html_url)
        events += [*_rerun(outcome, later, now, again), *_next_attempts(outcome, later, now)]
    return tuple(_in_order(events))


def death_story(job: Job, death: Death, outcome: JobOutcome, now: float) -> tuple[StoryEvent, ...]:
    """Returns the story of a job that no delivery has reported; `job`: as of `job_of_death`, with its end."""
    events = [StoryEvent(each.at, StoryStep.TAKEN, each.text) for each in death.last_minutes if each.what == _STARTED]
    events += [*_seen(death), *_died(job, death, now), *_ended(job, now)]
    return tuple(_in_order([*events, *_rerun(outcome, (), now, ""), *_next_attempts(outcome, (), now)]))


def attempts_story(job: Job, outcome: JobOutcome, now: float) -> tuple[StoryEvent, ...]:
    """Returns the part of the story about later attempts of a job: who requested them, and where they are."""
    return tuple(_next_attempts(outcome, [each for each in outcome.attempts if each.attempt > job.attempt], now))


NOT_TO_REPEAT = frozenset({"success", "neutral", "skipped"})
"""Conclusions after which there is nothing to run again."""


def rerun_command(job_id: int, repository: str, html_url: str = "") -> str:
    """Returns the command of GitHub's own tool with which a person runs one job, and what depends on it, again.

    Args:
        job_id: GitHub's id.
        repository: `owner/name`; empty if it is not known: then the result is empty.
        html_url: the job's page; its host is named if it is not github.com. The tool reaches a GitHub by HTTPS at the
            usual port alone: for another one, as the sandbox's is, the result is empty.
    """
    page = urlsplit(html_url)
    host = page.netloc
    if html_url and (page.scheme != "https" or ":" in host):
        return ""
    place = f"{host}/{repository}" if host and host != "github.com" else repository
    return shell_command("gh", "run", "rerun", "--job", str(job_id), "--repo", place) if repository else ""


def job_summary(job: Job, outcome: JobOutcome, now: float) -> JobSummary | None:
    """Returns what a job failed by, and whether the job runs again; None if it did not fail, or that is not known."""
    later = later_attempt(job, outcome, now)
    if outcome.death is not None:
        cause = outcome.death.cause
        died = f"its runner died ({cause}): {_within(HAPPENED[cause])}"
        return JobSummary(died, _again(job, outcome, now) if later is None else later.text, later)
    if (after := outcome.runner_after) is None or failed_by(job, outcome, now) is None:
        return None
    ended = A_STEP_FAILED if after.a_step_failed else f"the job ended: {_conclusion(job)}"
    return JobSummary(f"{ended}; {_of_runner(after, now)[0]}", "" if later is None else later.text, later)


def _again(job: Job, outcome: JobOutcome, now: float) -> str:
    """Returns whether a job runs again of which no later attempt is known."""
    rerun, note = outcome.rerun, outcome.note
    if rerun is not None and rerun.state is not RerunState.REFUSED:
        return f"its re-run as attempt {rerun.attempt + 1} was requested"
    if not is_over(job, now):
        return "GitHub has not ended the job yet"
    is_tried_again = note is not None and (note.next_at or 0.0) > now
    return f"it was not run again{' yet' if is_tried_again else ''}"


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


def may_be_run_again(job: Job, outcome: JobOutcome) -> bool:
    """True if the job failed by its runner, is over, and no re-run of it was accepted or is under way."""
    is_asked = outcome.rerun is not None and outcome.rerun.state is RerunState.REQUESTED
    failed = outcome.death is not None and job.status == "over" and job.conclusion not in NOT_TO_REPEAT
    return failed and not is_asked and not is_run_again(job.attempt, outcome)


def next_steps(job: Job, outcome: JobOutcome, now: float) -> tuple[JobStep, ...]:
    """Returns what the developer of a job that ended can do, in the order in which it is done."""
    after = outcome.runner_after
    if outcome.death is None:
        if after is None or after.pending_until(now) is not None or is_run_again(job.attempt, outcome):
            return ()
        return (JobStep("see the job's log at GitHub", "the log of its steps shows what failed", job.html_url),)
    if not may_be_run_again(job, outcome):
        return ()
    cause, reason = outcome.death.cause, outcome.death.reason
    why = _within(not_yours(cause, reason).removesuffix("."))
    if change := needed_change(cause, reason):
        return JobStep(change, why, ""), JobStep(RUN_AGAIN, UNCHANGED, job.html_url)
    return (JobStep(RUN_AGAIN, why, job.html_url),)


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


def how_known(death: Death) -> str:
    """Returns what shows that a runner died, without names of hosts or pods."""
    if death.exit_code is not None:
        signal = "" if death.signal is None else f", signal {death.signal}"
        reason = f" ({death.reason})" if death.reason else ""
        return f"its container ended with exit code {death.exit_code}{signal}{reason}"
    if death.reason in _KNOWN_BY:
        return _KNOWN_BY[OwnReason(death.reason)]
    reason = f" ({death.reason})" if death.reason else ""
    return f"its pod disappeared before an end was seen{reason}" if death.pod else f"how is not on record{reason}"


def _within(sentence: str) -> str:
    """Returns a sentence as a part of another one."""
    return f"{sentence[:1].lower()}{sentence[1:]}"


def _queued(job: Job, pool: str, outcome: JobOutcome) -> StoryEvent:
    if pool:
        text = f"queued for pool {pool}"
    else:
        text = f"queued for a runner with the {labels_text(job.labels)}" if job.labels else "queued"
    if job.attempt > 1:
        earlier = [each for each in outcome.attempts if each.attempt < job.attempt]
        before = f", after job {earlier[-1].id} ({_conclusion(earlier[-1])})" if earlier else ""
        text += f" as attempt {job.attempt} of its run{before}"
    return StoryEvent(job.queued_at, StoryStep.QUEUED, text)


def _waits(job: Job, why: QueueExplanation | None, now: float) -> Iterable[StoryEvent]:
    if job.status != "queued" or is_over(job, now):
        return
    if why is not None:
        yield StoryEvent(why.since, StoryStep.WAITS, f"waits: {why.text}")
    elif job.waiting:
        yield StoryEvent(None, StoryStep.WAITS, f"waits: {HELD}")
    else:
        yield StoryEvent(None, StoryStep.WAITS, "waits: GitHub has assigned no runner yet; no other reason is known")


def _taken(job: Job, now: float) -> Iterable[StoryEvent]:
    if job.started_at is None:
        if job.status == "running":
            yield StoryEvent(None, StoryStep.TAKEN, f"taken by {_runner(job)}; when is not known")
        elif is_over(job, now) and job.runner_id is None and job.conclusion:
            yield StoryEvent(None, StoryStep.TAKEN, f"no runner took it{_reason(job)}")
        return
    waited = max(0.0, job.started_at - job.queued_at)
    text = f"taken by {_runner(job)} after {duration(waited)}"
    text += _reason(job) or ("; what it waited for is not on record" if waited >= NOT_ASSIGNED_SECONDS else "")
    yield StoryEvent(job.started_at, StoryStep.TAKEN, text)


def _reason(job: Job) -> str:
    words = _WAITED_FOR.get(QueueReason(job.waited_for)) if job.waited_for in set(QueueReason) else job.waited_for
    return f": {words}" if words else ""


def _runner(job: Job) -> str:
    return f"runner {job.runner_name}" if job.runner_name else "a runner that GitHub did not name"


def _died(job: Job, death: Death, now: float) -> Iterable[StoryEvent]:
    yield StoryEvent(death.ended_at, StoryStep.DIED, f"{_within(HAPPENED[death.cause])}: {how_known(death)}")
    if not is_over(job, now):
        yield StoryEvent(
            None,
            StoryStep.ENDED,
            "GitHub has not ended the job yet: it does so some ten minutes after a runner is lost",
        )


_STARTED, _JOB_ENDED = "job-started", "job-ended"


def _seen(death: Death) -> Iterable[StoryEvent]:
    """Yields what was seen of a runner that died, apart from what the story has of its job and of its death."""
    for each in death.last_minutes:
        if each.what not in (_STARTED, _JOB_ENDED) and each.at != death.at:
            yield StoryEvent(each.at, StoryStep.SEEN, each.text)


def _ended(job: Job, now: float) -> Iterable[StoryEvent]:
    if not is_over(job, now):
        return
    if job.status != "over":
        yield StoryEvent(None, StoryStep.ENDED, "must have ended: no delivery reported how, and it is too old to go on")
    else:
        yield StoryEvent(job.ended_at, StoryStep.ENDED, f"ended: {_conclusion(job)}")


def _cause(outcome: JobOutcome, now: float) -> Iterable[StoryEvent]:
    """Yields whether the runner is the cause of a job's bad end, while no death of it is known."""
    after = outcome.runner_after
    if outcome.death is not None or after is None:
        return
    ended = f"{A_STEP_FAILED}; " if after.a_step_failed else ""
    yield StoryEvent(None, StoryStep.CAUSE, ended + ": ".join(filter(None, _of_runner(after, now))))


def _of_runner(after: RunnerAfter, now: float) -> tuple[str, str]:
    """Returns whether a runner died of which no death is known, and how that is known; empty if nothing shows it."""
    if (until := after.pending_until(now)) is not None:
        by = clock_time(until)
        return "its cause is being looked for", f"whether its runner died is known by {by} at the latest"
    if after.exited:
        return "its runner did not die", "it exited normally"
    if after.is_online:
        return "its runner did not die", "GitHub listed it as online after the job's end"
    if not after.is_watched:
        return "no death of its runner is known", "none is looked for, because its pool is not configured"
    return f"no death of its runner {'is known' if after.examined_until is None else 'was found'}", ""


def _conclusion(job: Job) -> str:
    return job.conclusion.replace("_", " ") or "no conclusion was delivered"


def _rerun(outcome: JobOutcome, later: Sequence[Job], now: float, command: str) -> Iterable[StoryEvent]:
    """Yields what is known of a re-run; `command` runs the job again, where that is still to be done."""
    rerun, note = outcome.rerun, outcome.note
    death = outcome.death
    by_hand = command if death is not None and not later else ""
    is_changed_first = death is not None and bool(needed_change(death.cause, death.reason))
    if rerun is not None:
        result = {
            RerunState.REQUESTED: "GitHub has not confirmed it yet",
            RerunState.ACCEPTED: f"it is attempt {rerun.attempt + 1} of the run",
            RerunState.REFUSED: f"GitHub refused it{f': {rerun.why}' if rerun.why else ''}",
        }[rerun.state]
        text = f"a re-run was requested by {rerun_requester(rerun.by)}; {result}"
        offered = by_hand if rerun.state is RerunState.REFUSED else ""
        yield StoryEvent(rerun.at, StoryStep.RERUN, text, command=offered, needs_change=is_changed_first)
    elif note is not None:
        reason = RerunRefusal(note.reason) if note.reason in set(RerunRefusal) else None
        words = note.reason if reason is None else why_not(reason)
        again = (note.next_at or 0.0) - now
        retry = f"; tried again in {duration(again)}" if again > 0 else ""
        by = "" if note.by == AUTO else f" by {note.by}"
        offered = "" if retry else by_hand
        text = f"not run again{by}: {words}{retry}"
        yield StoryEvent(note.at, StoryStep.RERUN, text, command=offered, needs_change=is_changed_first)
    elif death is not None and not later:
        text = "no re-run is known"
        yield StoryEvent(None, StoryStep.RERUN, text, command=by_hand, needs_change=is_changed_first)


def run_again_as(job: Job, outcome: JobOutcome, now: float) -> LaterAttempt | None:
    """Returns the latest attempt of a job that was run again; None if it was not, as far as is known.

    Of a re-run that GitHub accepted, and of which no delivery has come, the number alone is known.
    """
    rerun, later = outcome.rerun, later_attempt(job, outcome, now)
    if later is None and rerun is not None and rerun.state is RerunState.ACCEPTED:
        return LaterAttempt(rerun.attempt + 1)
    return later


_RESULTS = {
    "success": "succeeded",
    "failure": "failed",
    "timed_out": "timed out",
    "cancelled": "was cancelled",
    "skipped": "was skipped",
}


def rerun_requester(by: str) -> str:
    """Returns who requested a re-run."""
    return "ghapp, as its pool is configured" if by == AUTO else by


def later_attempt(job: Job, outcome: JobOutcome, now: float) -> LaterAttempt | None:
    """Returns the latest attempt of the job's run that is known; None if no later one is."""
    later = max((each for each in outcome.attempts if each.attempt > job.attempt), key=_attempt, default=None)
    if later is None:
        return None
    result = _RESULTS.get(later.conclusion, "ended") if is_over(later, now) else ""
    return LaterAttempt(later.attempt, later.id, _where(later, now), result)


def _attempt(job: Job) -> int:
    return job.attempt


def _next_attempts(outcome: JobOutcome, later: Sequence[Job], now: float) -> Iterable[StoryEvent]:
    rerun = outcome.rerun
    by_attempt = {each.attempt + 1: each for each in outcome.reruns if each.state is RerunState.ACCEPTED}
    for each in later:
        is_ours = rerun is not None and rerun.state is RerunState.ACCEPTED and each.attempt == rerun.attempt + 1
        who = "" if is_ours else ", started at GitHub, it is not known by whom"
        if not is_ours and (known := by_attempt.get(each.attempt)) is not None:
            who = f", requested by {rerun_requester(known.by)}"
        text = f"attempt {each.attempt} of the run is job {each.id}{who}: {_where(each, now)}"
        since = _where_since(each, now)
        yield StoryEvent(since, StoryStep.NEXT_ATTEMPT, text, follows_rerun=is_ours, job_id=each.id)
    if rerun is not None and rerun.state is RerunState.ACCEPTED and not later:
        text = f"no delivery of attempt {rerun.attempt + 1} is known, so neither is where it is now"
        yield StoryEvent(None, StoryStep.NEXT_ATTEMPT, text)


def _where(job: Job, now: float) -> str:
    if is_over(job, now):
        on = f" on {job.runner_name}" if job.runner_name else ""
        return f"ended{on}: {_conclusion(job)}"
    return f"running on {_runner(job)}" if job.status == "running" else "queued"


def _where_since(job: Job, now: float) -> float | None:
    """Returns the time of what `_where` says; None if it is not known."""
    if is_over(job, now):
        return job.ended_at
    return job.started_at if job.status == "running" else job.queued_at


def _in_order(events: Iterable[StoryEvent]) -> list[StoryEvent]:
    """Sorts by time; an event without a time follows what it depends on.

    A runner dies, and a job ends, after the runner took the job, and a job is run again after its end: a node's clock
    and ours may be behind GitHub's, and GitHub dates the end of some jobs before their start. A container may end, by
    its node's clock, after GitHub ended the job.
    """
    keyed: list[tuple[float, int, StoryEvent]] = []
    latest, earliest, rerun_at = 0.0, 0.0, 0.0
    for each in sorted(events, key=lambda event: _ORDER[event.step]):
        at = latest if each.at is None else max(each.at, earliest)
        if each.step is StoryStep.RERUN:
            at = rerun_at = max(at, latest)
        if each.follows_rerun:
            at = max(at, rerun_at)
        latest = max(latest, at)
        if each.step in (StoryStep.QUEUED, StoryStep.WAITS, StoryStep.TAKEN, StoryStep.ENDED):
            earliest = max(earliest, at)
        keyed.append((at, _ORDER[each.step], each))
    return [each for _, _, each in sorted(keyed, key=lambda item: item[:2])]
