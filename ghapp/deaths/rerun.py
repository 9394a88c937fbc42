"""Decides whether a job whose runner died is run again, and records the one re-run of a job. Pure.

Each job, which is one attempt at GitHub, is re-run once, over all crashes and repeated deliveries: its record is
written before GitHub is asked. If the answer is lost, the attempts of the job at GitHub show whether the request was
received; if it was not, the request is withdrawn, and judged again by what holds then.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

from ghapp.deaths.cause import USED_UP
from ghapp.deaths.classify import OUTSIDE
from ghapp.deaths.death import Death
from ghapp.deaths.github_words import JobWords
from ghapp.deaths.post_mortem import UNFINISHED, JobFacts
from ghapp.workflow_jobs.job import Job

RerunMode = Literal["off", "button", "auto"]

MOST_RERUNS = 50
"""GitHub re-runs a workflow run at most this often, since April 2026."""

AUTO = "auto"
"""In place of a person's login: the pool's configuration requested the re-run."""

APP_SUFFIX = "[bot]"
"""With it ends the login under which an App acts at GitHub."""

_LOGIN = re.compile(r"[\w-]+", re.ASCII)
"""A login of a person; a person who acts on the page with the key alone has none."""

RerunCause = Literal[
    "host-oom",
    "guest-oom-or-kill",
    "terminated",
    "external-teardown",
    "crash",
    "version-deprecated",
    "deleted-registration",
    "vanished",
    "lost-communication",
]


@dataclass(frozen=True, slots=True)
class RerunRules:
    """A pool's `rerun` table.

    Attributes:
        mode: `button`: a person requests it; `auto`: for `causes`, ghapp requests it itself, too.
        causes: of deaths whose jobs are re-run unasked.
        begun: True: also a job of which an own step had begun is re-run unasked.
        per_hour: unasked re-runs of one repository's jobs an hour.
        attempts: unasked re-runs of one job, over all attempts of its run.
    """

    mode: RerunMode = "button"
    causes: tuple[RerunCause, ...] = ("deleted-registration", "external-teardown", "vanished", "terminated")
    begun: bool = False
    per_hour: int = 20
    attempts: int = 1


class RunFacts(NamedTuple):
    """A workflow run as GitHub returns it.

    Attributes:
        attempt: its latest attempt.
        over: True if that attempt is over.
        conclusion: of that attempt; empty until it is over. `cancelled` if a person cancelled the run.
        event: that started it, as GitHub names it.
        branch: its head branch; empty if GitHub has none.
        workflow_id: of its workflow.
        newer_goes_on: True if a newer run of its workflow and branch is not over, or that is not known. If both are in
            one concurrency group, a re-run of the older one cancels the newer one, or keeps it waiting.
    """

    attempt: int
    over: bool
    conclusion: str = ""
    event: str = ""
    branch: str = ""
    workflow_id: int = 0
    newer_goes_on: bool = False


class RerunState(StrEnum):
    """The progress of a re-run. `requested`: GitHub is, or was, about to be asked; the outcome is not on record."""

    REQUESTED = "requested"
    ACCEPTED = "accepted"
    REFUSED = "refused"


class RerunRefusal(StrEnum):
    """Why a job is not run again."""

    OFF = "RerunOff"
    NOT_GRANTED = "RerunNotGranted"
    NOT_FAILED = "JobDidNotFail"
    NOT_AUTOMATIC = "NotAutomatic"
    CAUSE = "CauseNotListed"
    USED_UP = "JobUsedUpItsLimit"
    STEP_FAILED = "StepFailed"
    CANCELLED = "Cancelled"
    MERGE_QUEUE = "MergeQueue"
    DEPLOYMENT = "Deployment"
    LATER_ATTEMPT = "LaterAttempt"
    ATTEMPTS = "RerunAttempts"
    BEGUN = "StepsHadBegun"
    FUSE = "FuseNotClosed"
    RUN_NOT_OVER = "RunNotOver"
    NEWER_RUN = "NewerRunGoesOn"
    TOO_MANY = "RerunLimit"
    HOURLY = "RerunsOfThisHour"
    ALREADY = "AlreadyRerun"
    UNSETTLED = "OutcomeUnknown"
    UNKNOWN_JOB = "JobUnknownToGitHub"
    NO_ANSWER = "NoUsableAnswer"


WHY_NOT = {
    RerunRefusal.OFF: "Re-runs are off for this pool.",
    RerunRefusal.NOT_GRANTED: "ghapp may not re-run jobs: the installation has not granted actions: write.",
    RerunRefusal.NOT_FAILED: "The job is not over yet, or did not fail.",
    RerunRefusal.NOT_AUTOMATIC: "The pool is not configured to run jobs again unasked.",
    RerunRefusal.CAUSE: "The pool does not run jobs again unasked after this cause.",
    RerunRefusal.USED_UP: "The job used up what its pod may have; run again unchanged, it ends in the same way.",
    RerunRefusal.STEP_FAILED: "A step of the job failed by itself.",
    RerunRefusal.CANCELLED: "The run was cancelled, or a person may have cancelled the job.",
    RerunRefusal.MERGE_QUEUE: "The run belongs to a merge queue, which has removed the pull request by now.",
    RerunRefusal.DEPLOYMENT: "The job deploys to an environment, or waited for an approval.",
    RerunRefusal.LATER_ATTEMPT: "The run has a later attempt.",
    RerunRefusal.ATTEMPTS: "The job was run again as often as the pool permits.",
    RerunRefusal.BEGUN: "A step of the job had begun, and the pool does not run such jobs again unasked.",
    RerunRefusal.FUSE: "The fuse of the pool is not closed.",
    RerunRefusal.RUN_NOT_OVER: "Other jobs of the run go on; GitHub re-runs a job when its run is over.",
    RerunRefusal.NEWER_RUN: "A newer run of the same workflow and branch goes on; a re-run may cancel it.",
    RerunRefusal.TOO_MANY: "GitHub's limit of 50 re-runs of a run is reached.",
    RerunRefusal.HOURLY: "The repository's limit of unasked re-runs for this hour is reached.",
    RerunRefusal.ALREADY: "The job has its one re-run.",
    RerunRefusal.UNSETTLED: "An earlier request has no known outcome yet.",
    RerunRefusal.UNKNOWN_JOB: "GitHub does not know the run any more: it was deleted, or the App may no longer see its"
    " repository.",
    RerunRefusal.NO_ANSWER: "GitHub gave no usable answer.",
}
"""Why a job is not run again, in one sentence for people."""

DEFERRED = frozenset(
    {
        RerunRefusal.RUN_NOT_OVER,
        RerunRefusal.NEWER_RUN,
        RerunRefusal.FUSE,
        RerunRefusal.HOURLY,
        RerunRefusal.UNSETTLED,
        RerunRefusal.NO_ANSWER,
    }
)
"""Reasons that pass: the re-run is tried again later."""

FINAL = frozenset({RerunRefusal.LATER_ATTEMPT, RerunRefusal.TOO_MANY, RerunRefusal.UNKNOWN_JOB})
"""Reasons, found by asking GitHub, that do not pass: the job cannot be run again at all, and there is no button."""

MERGE_QUEUE_BRANCH = "gh-readonly-queue/"
DEPLOYMENT_EVENTS = frozenset({"deployment", "deployment_status"})

SETTLING_SECONDS = 60.0
"""After a request with an unknown outcome, an attempt that did not advance proves nothing for this long."""

SETTLED_EACH_SECONDS = 300.0
"""How often an unknown outcome is asked for when there are no more tries."""

GIVEN_BACK_SECONDS = 3600.0
"""A request whose outcome is unknown for this long, because nothing settled it, is a person's to repeat."""

TRIES_AFTER_SECONDS = (60.0, 120.0, 300.0, 600.0, 1200.0, *(1800.0,) * 10)
"""Delays between tries, some six hours: the other jobs of a run may take that long."""


class Rerun(NamedTuple):
    """The one re-run of a job. Fields are only ever appended: stored records are read by position.

    Attributes:
        attempt: the run's latest attempt when the re-run was requested; the re-run is the next one.
        by: a person's login, or `auto`.
        at: epoch seconds.
        why: GitHub's reason for a refusal; empty if it gave none.
    """

    job_id: int
    run_id: int
    attempt: int
    by: str
    at: float
    state: RerunState = RerunState.REQUESTED
    why: str = ""


class RerunNote(NamedTuple):
    """Why the last try to re-run a job sent no request. Fields are only ever appended, as of `Rerun`.

    Attributes:
        reason: a `RerunRefusal`, possibly of another version.
        by: a person's login, or `auto`.
        at: when the re-run was requested (epoch seconds), whatever number of tries there were since.
        next_at: when it is tried again; None if it is not.
    """

    reason: str
    by: str
    at: float
    next_at: float | None = None

    @property
    def text(self) -> str:
        """The reason as a part of a sentence."""
        return why_not(RerunRefusal(self.reason)) if self.reason in set(RerunRefusal) else self.reason

    @property
    def is_final(self) -> bool:
        """True if the job cannot be run again at all."""
        return self.reason in FINAL

    def waits(self, now: float) -> bool:
        """True if the re-run is tried again."""
        return (self.next_at or 0.0) > now

    def awaits(self, by: str, at: float) -> bool:
        """True if a try at that time is the one that this note waits for, and no new request of the same person.

        A try may be late, but not by more than the longest delay between two.
        """
        return self.by == by and self.next_at is not None and at - self.next_at <= TRIES_AFTER_SECONDS[-1]

    def after(self, known: RerunNote | None) -> RerunNote:
        """Returns the note of a later try with the time of the request that it repeats, if `known` waited for it."""
        is_repeated = known is not None and known.awaits(self.by, self.at)
        return self._replace(at=min(known.at, self.at)) if known is not None and is_repeated else self

    def replaces(self, known: RerunNote | None, now: float) -> bool:
        """True if this note is recorded in place of `known`: what a person requested, and waits, stays on record."""
        return self.by != AUTO or known is None or known.by == AUTO or not known.waits(now)


class RerunFacts(NamedTuple):
    """What is known when a re-run is considered, now.

    Attributes:
        by: a person's login, or `auto`.
        death: of the job's runner.
        job: as GitHub returns it.
        rules: of the death's pool.
        granted: the installation granted `actions: write`.
        fuse_closed: the fuses of the pool and of the installation are closed.
        words: of GitHub, from the job's annotations.
        run: the job's run; None before GitHub was asked for it.
        waited: an earlier try of the same request waited for the run to end.
    """

    by: str
    death: Death
    job: JobFacts
    rules: RerunRules
    granted: bool
    fuse_closed: bool
    words: JobWords = JobWords()
    run: RunFacts | None = None
    waited: bool = False


NO_ACCESS = "Resource not accessible by integration"
"""GitHub's message where the App lacks a permission."""


def is_not_granted(accepted: str, explanation: str) -> bool:
    """True if a 403 is about a permission, and not about the job: a run that may not, or no longer, be re-run.

    Args:
        accepted: the permissions that GitHub names as needed; it may name them with any answer, and a proxy may drop
            them.
        explanation: GitHub's message.
    """
    return explanation == NO_ACCESS or (bool(accepted) and not explanation)


def next_try_after(attempt: int, known: Rerun | None, now: float) -> float | None:
    """Returns the seconds from one try (the first is 0) to the next; None after the last.

    A request without an outcome, which `known` may be, is settled for an hour, though it was made by the last try.
    """
    if 0 <= attempt < len(TRIES_AFTER_SECONDS):
        return TRIES_AFTER_SECONDS[attempt]
    return (
        SETTLED_EACH_SECONDS if known is not None and not may_be_repeated(known, now) and _is_unknown(known) else None
    )


def tries_end_after(attempt: int) -> float:
    """Returns the seconds from one try (the first is 0) to the last one."""
    return sum(TRIES_AFTER_SECONDS[max(0, attempt) :])


def why_not(reason: RerunRefusal) -> str:
    """Returns why a job is not run again, as a part of a sentence."""
    words = WHY_NOT[reason].removesuffix(".")
    return words if words.startswith(("GitHub", "ghapp")) else f"{words[:1].lower()}{words[1:]}"


def _is_unknown(rerun: Rerun) -> bool:
    return rerun.state is RerunState.REQUESTED


def refusal(facts: RerunFacts) -> RerunRefusal | None:
    """Returns why a job is not run again; None if nothing is against it.

    It is the only judgement of that: at each try, also before the repetition of a request that got no answer, and where
    a button is shown, then without the run. A person who presses the button decides over what a person can know; the
    conditions in `_always` hold for both. A run that was cancelled after the button was pressed is one of them.
    """
    checks = _always(facts)
    if facts.by == AUTO:
        checks += _unasked(facts)
    return next((why for is_against, why in checks if is_against), None)


_Checks = list[tuple[bool, RerunRefusal]]


def _always(facts: RerunFacts) -> _Checks:
    job, run = facts.job, facts.run
    return [
        (facts.rules.mode == "off", RerunRefusal.OFF),
        (not facts.granted, RerunRefusal.NOT_GRANTED),
        (not job.over or job.conclusion not in UNFINISHED, RerunRefusal.NOT_FAILED),
        (run is not None and run.attempt > MOST_RERUNS, RerunRefusal.TOO_MANY),
        (run is not None and run.attempt != job.attempt, RerunRefusal.LATER_ATTEMPT),
        (run is not None and not run.over, RerunRefusal.RUN_NOT_OVER),
        (facts.waited and run is not None and run.conclusion == "cancelled", RerunRefusal.CANCELLED),
    ]


def _unasked(facts: RerunFacts) -> _Checks:
    """Returns what is against a re-run that no person requested; reasons that pass come last."""
    death, job, rules, run = facts.death, facts.job, facts.rules, facts.run or RunFacts(facts.job.attempt, over=True)
    is_in_merge_queue = run.event == "merge_group" or run.branch.startswith(MERGE_QUEUE_BRANCH)
    return [
        (rules.mode != "auto", RerunRefusal.NOT_AUTOMATIC),
        (death.cause.value not in rules.causes, RerunRefusal.CAUSE),
        (death.reason in USED_UP, RerunRefusal.USED_UP),
        (not facts.words.explain_failures(job.failures), RerunRefusal.STEP_FAILED),
        (_is_cancelled(facts, run), RerunRefusal.CANCELLED),
        (is_in_merge_queue, RerunRefusal.MERGE_QUEUE),
        (_deploys(facts, run), RerunRefusal.DEPLOYMENT),
        (job.attempt > rules.attempts, RerunRefusal.ATTEMPTS),
        (job.begun and not rules.begun, RerunRefusal.BEGUN),
        (not facts.fuse_closed, RerunRefusal.FUSE),
        (run.newer_goes_on, RerunRefusal.NEWER_RUN),
    ]


def _is_cancelled(facts: RerunFacts, run: RunFacts) -> bool:
    """True if the job was cancelled for another reason than its runner, or may have been.

    These prove it: the run was cancelled (a run in which another job had failed may end as a failure all the same), or
    GitHub's words name the reason. Otherwise a cancelled job needs an explanation: GitHub's words on the runner, or an
    end that the cluster explains, of a runner that ended before the job did, where GitHub's words could be read.
    """
    job, words, death = facts.job, facts.words, facts.death
    if run.conclusion == "cancelled" or words.stopped:
        return True
    if job.conclusion != "cancelled" or words.of_runner:
        return False
    is_over_first = job.completed_at is not None and job.completed_at < death.ended_at
    return not words.known or is_over_first or death.reason not in OUTSIDE


def _deploys(facts: RerunFacts, run: RunFacts) -> bool:
    dead_job = facts.death.job
    return run.event in DEPLOYMENT_EVENTS or (dead_job is not None and dead_job.deploys)


def latest_attempt(job: JobFacts, jobs_of_run: Iterable[tuple[str, int]]) -> int:
    """Returns the latest attempt of a job, by the names and attempts of all jobs of its run.

    Of several jobs of a run only some may have been run again. A later attempt has other ids, so that only names
    connect the two: of several jobs of one name, a later attempt is this job's only if all of them have it.
    """
    of_name = Counter(attempt for name, attempt in jobs_of_run if name == job.name)
    namesakes = max(1, of_name[job.attempt])
    proven = [attempt for attempt, count in of_name.items() if attempt <= job.attempt or count >= namesakes]
    return max(proven, default=job.attempt)


def settled(rerun: Rerun, latest: int, now: float) -> Rerun | RerunRefusal | None:
    """Settles a request with an unknown outcome by what GitHub has.

    Args:
        rerun: the request.
        latest: the job's `latest_attempt`.
        now: the present time.

    Returns:
        The accepted request if there is a later attempt of the job: the request was received, or a person was faster;
        either way the job is not run again. `UNSETTLED` in the first minute. None if the request was never received.
    """
    if latest > rerun.attempt:
        return rerun._replace(state=RerunState.ACCEPTED)
    return RerunRefusal.UNSETTLED if now < rerun.at + SETTLING_SECONDS else None


def as_requested(job: Job, of_run: Iterable[Job], reruns: Iterable[Rerun]) -> Job:
    """Returns a job that ghapp ran again as a job of the person who requested the re-run.

    GitHub reports the App as the sender of such a job's deliveries. Where the pool requested the re-run, or a person
    without a login did, the job is of the actor of the earlier attempt, if that is known.

    Args:
        job: as delivered; a job that no App started is returned as it is.
        of_run: ended jobs of its run.
        reruns: re-runs of those jobs.
    """
    asked = [each for each in reruns if each.run_id == job.run_id and each.attempt == job.attempt - 1]
    rerun = next((each for each in asked if each.state is not RerunState.REFUSED), None)
    if rerun is None or not job.actor.endswith(APP_SUFFIX):
        return job
    earlier = next((each.actor for each in of_run if each.id == rerun.job_id), "")
    actor = rerun.by if rerun.by != AUTO and _LOGIN.fullmatch(rerun.by) else earlier
    return job._replace(actor=actor or job.actor, rerun_by=rerun.by)


def may_be_repeated(rerun: Rerun | None, now: float) -> bool:
    """True if a person may request the re-run: none is on record, or its outcome stayed unknown."""
    return rerun is None or (_is_unknown(rerun) and now >= rerun.at + GIVEN_BACK_SECONDS)
