"""Decides whether a job whose runner died is run again, and records the one re-run of a job. Pure.

A job is re-run once, over all crashes and repeated deliveries: its record is written before GitHub is asked. If a
process crashes between the request and its record, the run's attempt at GitHub shows whether the request was received.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

from ghapp.health.deaths.cause import Cause
from ghapp.health.deaths.post_mortem import UNFINISHED, JobFacts

RerunMode = Literal["off", "button", "auto"]

MOST_RERUNS = 50
"""GitHub re-runs a workflow run at most this often, since April 2026."""

AUTO = "auto"
"""In place of a person's login: the pool's configuration requested the re-run."""

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
    """

    mode: RerunMode = "button"
    causes: tuple[RerunCause, ...] = ("deleted-registration", "external-teardown", "vanished", "terminated")
    begun: bool = False
    per_hour: int = 20


class RunState(NamedTuple):
    """A workflow run at GitHub: its latest attempt, and whether that is over."""

    attempt: int
    over: bool


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
    LATER_ATTEMPT = "NotFirstAttempt"
    BEGUN = "StepsHadBegun"
    FUSE = "FuseNotClosed"
    RUN_NOT_OVER = "RunNotOver"
    TOO_MANY = "RerunLimit"
    HOURLY = "RerunsOfThisHour"
    ALREADY = "AlreadyRerun"
    UNSETTLED = "OutcomeUnknown"


DEFERRED = frozenset({RerunRefusal.RUN_NOT_OVER, RerunRefusal.FUSE, RerunRefusal.HOURLY, RerunRefusal.UNSETTLED})
"""Reasons that pass: the re-run is tried again later."""

SETTLING_SECONDS = 60.0
"""After a request with an unknown outcome, an attempt that did not advance proves nothing for this long."""

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
        at: epoch seconds.
        next_at: when it is tried again; None if it is not.
    """

    reason: str
    by: str
    at: float
    next_at: float | None = None


class RerunRequest(NamedTuple):
    """What is known when a re-run is considered.

    Attributes:
        by: a person's login, or `auto`.
        granted: the installation granted `actions: write`.
        fuse_closed: the fuses of the pool and of the installation are closed.
    """

    by: str
    cause: Cause
    facts: JobFacts
    rules: RerunRules
    granted: bool
    fuse_closed: bool


NO_ACCESS = "Resource not accessible by integration"
"""GitHub's message where the App lacks a permission."""


def is_not_granted(accepted: str, explanation: str) -> bool:
    """True if a 403 is about a permission, and not about the job: a run that may not, or no longer, be re-run.

    Args:
        accepted: the permissions that GitHub names as needed; it may name them with any answer.
        explanation: GitHub's message.
    """
    return bool(accepted) and explanation in ("", NO_ACCESS)


def next_try_after(attempt: int) -> float | None:
    """Returns the seconds from one try (the first is 0) to the next; None after the last."""
    return TRIES_AFTER_SECONDS[attempt] if 0 <= attempt < len(TRIES_AFTER_SECONDS) else None


def refusal(request: RerunRequest) -> RerunRefusal | None:
    """Returns why a re-run is not requested, from what is known without asking GitHub; None if nothing is against it.

    A person who presses the button decides over cause, begun steps and fuse; the other conditions hold for both.
    """
    rules, facts = request.rules, request.facts
    checks = [
        (rules.mode == "off", RerunRefusal.OFF),
        (not request.granted, RerunRefusal.NOT_GRANTED),
        (not facts.over or facts.conclusion not in UNFINISHED, RerunRefusal.NOT_FAILED),
        (facts.attempt != 1, RerunRefusal.LATER_ATTEMPT),
    ]
    if request.by == AUTO:
        checks += [
            (rules.mode != "auto", RerunRefusal.NOT_AUTOMATIC),
            (request.cause.value not in rules.causes, RerunRefusal.CAUSE),
            (facts.begun and not rules.begun, RerunRefusal.BEGUN),
            (not request.fuse_closed, RerunRefusal.FUSE),
        ]
    return next((why for is_against, why in checks if is_against), None)


def refusal_of_run(run: RunState) -> RerunRefusal | None:
    """Returns why a run's job is not re-run now, from GitHub's answer; None if nothing is against it."""
    if run.attempt != 1:
        return RerunRefusal.LATER_ATTEMPT if run.attempt <= MOST_RERUNS else RerunRefusal.TOO_MANY
    return None if run.over else RerunRefusal.RUN_NOT_OVER


def settled(rerun: Rerun, run: RunState) -> Rerun | None:
    """Returns the record of a request with an unknown outcome, as GitHub's answer settles it.

    A later attempt exists: the request was received, or a person was faster; either way the job is not run again. None
    if there is no later attempt: the request was never received, and may be sent.
    """
    return rerun._replace(state=RerunState.ACCEPTED) if run.attempt > rerun.attempt else None
