"""The story of one workflow job: what it waited for, which runner took it, how that ended, and where it runs again.

One function composes it for all surfaces: the terminal, the job's page, the API and the check run of the post-mortem.
What is not known is stated as not known. Pure; times are epoch seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple
from urllib.parse import urlsplit

from ghapp.deaths.cause import HAPPENED, OwnReason, needed_change
from ghapp.deaths.death import Death
from ghapp.deaths.job_outcome import (
    NOT_TO_REPEAT,
    JobOutcome,
    conclusion_text,
    ended_by_github,
    known_of_runner,
    retry_text,
    runner_text,
    where_text,
    within,
)
from ghapp.deaths.post_mortem import ENDED_LATE_SECONDS
from ghapp.deaths.rerun import AUTO, RerunNote, RerunState
from ghapp.untrusted_text import shell_command
from ghapp.wording import duration
from ghapp.workflow_jobs.capacity import NOT_ASSIGNED_SECONDS
from ghapp.workflow_jobs.explanation import QueueExplanation
from ghapp.workflow_jobs.job import Job, is_over
from ghapp.workflow_jobs.labels import labels_text
from ghapp.workflow_jobs.reason import waited_for_text


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
    seconds, of another clock. `job_id`: of the other attempt that it is about.
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


HELD = "GitHub holds it back, for an approval or for its concurrency group"

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


def _queued(job: Job, pool: str, outcome: JobOutcome) -> StoryEvent:
    if pool:
        text = f"queued for pool {pool}"
    else:
        text = f"queued for a runner with the {labels_text(job.labels)}" if job.labels else "queued"
    if job.attempt > 1:
        earlier = [each for each in outcome.attempts if each.attempt < job.attempt]
        before = f", after job {earlier[-1].id} ({conclusion_text(earlier[-1])})" if earlier else ""
        text += f" as attempt {job.attempt} of its run{before}"
        if earlier:
            return StoryEvent(job.queued_at, StoryStep.QUEUED, text, job_id=earlier[-1].id)
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
            yield StoryEvent(None, StoryStep.TAKEN, f"taken by {runner_text(job)}; when is not known")
        elif is_over(job, now) and job.runner_id is None and job.conclusion:
            yield StoryEvent(None, StoryStep.TAKEN, f"no runner took it{_reason(job)}")
        return
    waited = max(0.0, job.started_at - job.queued_at)
    text = f"taken by {runner_text(job)} after {duration(waited)}"
    text += _reason(job) or ("; what it waited for is not on record" if waited >= NOT_ASSIGNED_SECONDS else "")
    yield StoryEvent(job.started_at, StoryStep.TAKEN, text)


def _reason(job: Job) -> str:
    words = waited_for_text(job.waited_for, job.lacked_labels)
    return f": {words}" if words else ""


def _died(job: Job, death: Death, now: float) -> Iterable[StoryEvent]:
    yield StoryEvent(death.ended_at, StoryStep.DIED, f"{within(HAPPENED[death.cause])}: {how_known(death)}")
    if not is_over(job, now):
        after = f"{ENDED_LATE_SECONDS / 60:.0f} minutes after a runner is lost{ended_by_github(death, now)}"
        yield StoryEvent(None, StoryStep.ENDED, f"GitHub has not ended the job yet: it does so about {after}")


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
        yield StoryEvent(job.ended_at, StoryStep.ENDED, f"ended: {conclusion_text(job)}")


def _cause(outcome: JobOutcome, now: float) -> Iterable[StoryEvent]:
    """Yields what shows whether the runner is the cause of a job's bad end, while no death of it is known.

    Whether it is, as far as that is known, is in the job's summary, which stands above the story.
    """
    after = outcome.runner_after
    if outcome.death is None and after is not None and (shown_by := known_of_runner(after, now)[1]):
        yield StoryEvent(None, StoryStep.CAUSE, shown_by)


def _rerun(outcome: JobOutcome, later: Sequence[Job], now: float, command: str) -> Iterable[StoryEvent]:
    """Yields what is known of a re-run; `command` runs the job again, where that is still to be done."""
    rerun, note = outcome.rerun, outcome.note
    death = outcome.death
    by_hand = command if death is not None and not later and outcome.button is None else ""
    is_changed_first = death is not None and bool(needed_change(death.cause, death.reason))
    if rerun is not None:
        result = {
            RerunState.REQUESTED: f"GitHub has not confirmed it yet{'' if note is None else _retry(note, now)}",
            RerunState.ACCEPTED: f"it is attempt {rerun.attempt + 1} of the run",
            RerunState.REFUSED: f"GitHub refused it{f': {rerun.why}' if rerun.why else ''}",
        }[rerun.state]
        at = min(note.at, rerun.at) if note is not None and note.awaits(rerun.by, rerun.at) else rerun.at
        waited = f", and waited for {duration(rerun.at - at)}" if rerun.at - at >= 1 else ""
        text = f"a re-run was requested by {rerun_requester(rerun.by)}{waited}; {result}"
        offered = by_hand if rerun.state is RerunState.REFUSED else ""
        yield StoryEvent(at, StoryStep.RERUN, text, command=offered, needs_change=is_changed_first)
    elif note is not None:
        retry = _retry(note, now)
        request = "not run again" if note.by == AUTO else f"a re-run was requested by {note.by}"
        offered = "" if retry or note.is_final else by_hand
        text = f"{request}{'; it waits' if retry and note.by != AUTO else ''}: {note.text}{retry}"
        yield StoryEvent(note.at, StoryStep.RERUN, text, command=offered, needs_change=is_changed_first)
    elif death is not None and not later:
        text = "no re-run is known"
        yield StoryEvent(None, StoryStep.RERUN, text, command=by_hand, needs_change=is_changed_first)


def _retry(note: RerunNote, now: float) -> str:
    """Returns when the re-run is tried again, as the end of a sentence; empty if it is not."""
    return f"; {retry_text(note)}" if note.waits(now) else ""


def rerun_requester(by: str) -> str:
    """Returns who requested a re-run."""
    return "ghapp, as its pool is configured" if by == AUTO else by


def _next_attempts(outcome: JobOutcome, later: Sequence[Job], now: float) -> Iterable[StoryEvent]:
    rerun = outcome.rerun
    by_attempt = {each.attempt + 1: each for each in outcome.reruns if each.state is RerunState.ACCEPTED}
    for each in later:
        is_ours = rerun is not None and rerun.state is RerunState.ACCEPTED and each.attempt == rerun.attempt + 1
        who = "" if is_ours else ", started at GitHub, it is not known by whom"
        if not is_ours and (known := by_attempt.get(each.attempt)) is not None:
            who = f", requested by {rerun_requester(known.by)}"
        text = f"attempt {each.attempt} of the run is job {each.id}{who}: {where_text(each, now)}"
        since = _where_since(each, now)
        yield StoryEvent(since, StoryStep.NEXT_ATTEMPT, text, follows_rerun=is_ours, job_id=each.id)
    if rerun is not None and rerun.state is RerunState.ACCEPTED and not later:
        text = f"no delivery of attempt {rerun.attempt + 1} is known, so neither is where it is now"
        yield StoryEvent(None, StoryStep.NEXT_ATTEMPT, text)


def _where_since(job: Job, now: float) -> float | None:
    """Returns the time of what `where_text` says; None if it is not known."""
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
