"""Judges a runner's state from its evidence.

`judge` is pure and total: every evidence has exactly one verdict at any time. Only `judge` decides a state; readers
call it with their own `now`, so that a state ages even without writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from ghapp.runners.evidence import (
    STALE_LIST_SECONDS,
    Evidence,
    Survey,
    covered_seconds,
    is_absent,
    missing_since,
    observed_at,
)
from ghapp.runners.outdated import ended_without_job
from ghapp.runners.remains import PROCESS_ENDED, RemainsKind

JOB_LEASE_SECONDS = 600.0
"""GitHub gives up a job whose runner has been silent for this long; after that, a delivery no longer proves a job."""

LONGEST_JOB_SECONDS = 5 * 24 * 3600.0
"""GitHub's longest job on a self-hosted runner."""

DOUBTFUL_JOB_SECONDS = 3600.0
"""A runner that a list may have shown busy by its last job alone is kept for so long; see `unknown_job_seconds`."""

HANG_SECONDS = 300.0
"""A runner whose container or object still exists this long after its job and its registration ended is a zombie."""


class State(StrEnum):
    """The seven states of the contract."""

    HEALTHY = "healthy"
    STARTING = "starting"
    OFFLINE = "offline"
    SUSPECT = "suspect"
    INVALIDATED = "invalidated"
    RETIRED = "retired"
    UNKNOWN = "unknown"


class Reason(StrEnum):
    """Reason codes of a state: constants, never free text."""

    ONLINE = "Online"
    BUSY = "Busy"
    OFFLINE_BRIEFLY = "OfflineBriefly"
    BACK_FROM_ABSENCE = "BackFromAbsence"
    WITHIN_STARTUP_GRACE = "WithinStartupGrace"
    OFFLINE_TOO_LONG = "OfflineTooLong"
    AWAITING_CONFIRMATION = "AwaitingConfirmation"
    DELIVERIES_BEHIND = "DeliveriesBehind"
    REGISTRATION_INVALIDATED = "RegistrationInvalidated"
    JOB_COMPLETED = "JobCompleted"
    REMOVED_BY_CONTROLLER = "RemovedByController"
    REREGISTERED = "Reregistered"
    VERSION_DEPRECATED = "VersionDeprecated"
    REPLACED_WHILE_OFFLINE = "ReplacedWhileOffline"
    HANGS_AFTER_JOB = "HangsAfterJob"
    NOT_NEEDED = "NotNeeded"
    NEVER_OBSERVED = "NeverObserved"
    OBSERVATION_STALE = "ObservationStale"
    # Why an installation cannot be read reliably; also the codes of `Survey.failure`.
    GITHUB_UNAVAILABLE = "GitHubUnavailable"
    RATE_LIMITED = "RateLimited"
    BUDGET_SPENT = "BudgetSpent"
    UNAUTHORIZED = "Unauthorized"
    PERMISSION_MISSING = "PermissionMissing"
    INSTALLATION_SUSPENDED = "InstallationSuspended"
    INSTALLATION_GONE = "InstallationGone"
    PERSONAL_ACCOUNT = "PersonalAccount"
    ORGANIZATION_RENAMED = "OrganizationRenamed"
    LIST_INCOMPLETE = "ListIncomplete"
    LIST_EMPTY = "ListEmpty"
    INTERNAL_ERROR = "InternalError"


@dataclass(frozen=True, slots=True)
class Limits:
    """The `[evidence]` table: time limits of the judgement, in seconds."""

    confirm_seconds: float = 30.0
    startup_seconds: float = 120.0
    offline_seconds: float = 300.0
    stale_seconds: float = 300.0


class Verdict(NamedTuple):
    """A runner's state, its reason, its start, and the time of the observation it is based on (epoch seconds)."""

    state: State
    reason: Reason
    since: float | None
    observed_at: float | None
    stale: bool


_Judged = tuple[State, Reason, float | None]
"""State, reason, and since when."""


def judge(evidence: Evidence | None, survey: Survey, now: float, limits: Limits) -> Verdict:
    """Returns a runner's state at `now`, and why.

    The order of the rules: final states stay however old they are; then a stale observation gives `unknown`; then
    absence, which needs a confirmation; then presence.
    """
    if evidence is None:
        return Verdict(State.UNKNOWN, Reason.NEVER_OBSERVED, None, None, stale=True)
    observed = _last_observation(evidence, survey)
    stale = observed is None or abs(now - observed) > limits.stale_seconds  # a date in the future is no date
    state, reason, since = _judged(evidence, survey, now, limits, stale=stale)
    return Verdict(state, reason, since, observed, stale)


def _judged(evidence: Evidence, survey: Survey, now: float, limits: Limits, *, stale: bool) -> _Judged:
    if evidence.retired_at is not None:
        return State.RETIRED, Reason.REMOVED_BY_CONTROLLER, evidence.retired_at
    if not evidence.registered:
        return _known_from_deliveries(evidence, stale=stale)
    absent = is_absent(evidence)
    if absent:
        hanging = is_zombie(evidence)
        if evidence.reregistered_as is not None:
            return State.RETIRED, Reason.REREGISTERED, missing_since(evidence)
        if is_spent(evidence) and not hanging:
            return State.RETIRED, Reason.JOB_COMPLETED, evidence.job_ended_at or missing_since(evidence)
        if ended_without_job(evidence):
            return State.RETIRED, Reason.VERSION_DEPRECATED, missing_since(evidence)
        if evidence.removed_at is not None and evidence.confirmed_at is None:
            return State.INVALIDATED, Reason.REPLACED_WHILE_OFFLINE, evidence.removed_at
        if evidence.not_needed_at is not None:
            return State.RETIRED, Reason.NOT_NEEDED, evidence.not_needed_at
        if was_taken_down(evidence) and not runs_a_job(evidence, now):
            return State.RETIRED, Reason.REMOVED_BY_CONTROLLER, missing_since(evidence)
        if evidence.confirmed_at is not None and (evidence.removed_at is not None or not runs_a_job(evidence, now)):
            reason = Reason.HANGS_AFTER_JOB if hanging else Reason.REGISTRATION_INVALIDATED
            return State.INVALIDATED, reason, evidence.confirmed_at
    if stale:
        return State.UNKNOWN, why_stale(survey), _last_observation(evidence, survey)
    may_start = absent or not evidence.was_online
    if may_start and covered_seconds(survey, evidence.first_seen, now) < limits.startup_seconds:
        return State.STARTING, Reason.WITHIN_STARTUP_GRACE, evidence.first_seen
    if absent:
        is_deferred = deferred_at(evidence) is not None
        reason = Reason.DELIVERIES_BEHIND if is_deferred else Reason.AWAITING_CONFIRMATION
        return State.SUSPECT, reason, missing_since(evidence)
    return _present(evidence, survey, now, limits)


def deferred_at(evidence: Evidence) -> float | None:
    """Returns when the confirmation of the present absence was first deferred because deliveries are behind."""
    at = evidence.deliveries_behind_at
    return at if at is not None and is_absent(evidence) and at >= missing_since(evidence) else None


def needs_no_replacement(evidence: Evidence) -> bool:
    """True if nothing is to be requested in the name of a lost runner, not even after its removal.

    Its machine is registered again under its name, or its controller removed it on purpose. Controllers act by name: a
    request would hit the machine that works.
    """
    return evidence.reregistered_as is not None or evidence.retired_at is not None


def silent_since(evidence: Evidence) -> float | None:
    """Returns since when an offline runner has shown no activity; None while it is online.

    A delivery may have shown the runner at work after a list showed it offline.
    """
    if evidence.offline_since is None:
        return None
    return max(evidence.offline_since, evidence.last_sign_at or evidence.offline_since)


def is_offline_too_long(evidence: Evidence, patience: float | None, survey: Survey, now: float) -> bool:
    """True if the runner is to be replaced because it was offline for `patience` seconds (None: never).

    A busy runner is never replaced. Neither is a runner that deliveries report at work, whatever GitHub lists: GitHub
    was seen to list such runners as idle and offline, and to let them be deleted. GitHub ends the job of a runner
    that it has lost, and sends a delivery for that.
    """
    since = silent_since(evidence)
    is_silent = patience is not None and since is not None and covered_seconds(survey, since, now) >= patience
    return is_silent and not evidence.may_be_at_work and not runs_a_job(evidence, now)


def runs_a_job(evidence: Evidence, now: float) -> bool:
    """True if a delivery reported a job's start but not its end, and the job is not older than the longest job."""
    started = evidence.job_started_at
    return evidence.running_job is not None and started is not None and now - started <= LONGEST_JOB_SECONDS


def may_run_an_unknown_job(evidence: Evidence) -> bool:
    """True if GitHub showed the runner busy, no delivery named the job, and its process may be running.

    Without deliveries, or if the App is not installed on the job's repository, no delivery names the job.
    """
    process_ended = evidence.remains is not None and evidence.remains.kind in PROCESS_ENDED
    had_its_job = evidence.ephemeral is True and evidence.job_ended_at is not None
    return evidence.may_be_at_work and evidence.running_job is None and not process_ended and not had_its_job


def unknown_job_seconds(evidence: Evidence) -> float:
    """Returns for how long after its first 404 a runner may run a job that no delivery named; 0 if it runs none.

    Shown busy soon after its last job's end, it may be so by a stale list. A delivery of another job comes within an
    hour then, as any other that is not known to be missing.
    """
    if not may_run_an_unknown_job(evidence):
        return 0.0
    ended_at = evidence.job_ended_at
    is_doubtful = ended_at is not None and (evidence.shown_at or 0.0) <= ended_at + STALE_LIST_SECONDS
    return DOUBTFUL_JOB_SECONDS if is_doubtful else LONGEST_JOB_SECONDS


def is_spent(evidence: Evidence) -> bool:
    """True if an absent runner is missing because its only job is over.

    An ephemeral runner whose job ended never takes another job, whatever the job's result. A busy ephemeral runner
    whose job no delivery reported counts as ended once it is absent, unless the cluster shows its container running;
    so does one that GitHub showed idle after that, for it takes no second job.
    If GitHub does not report whether a runner is ephemeral, a job must have ended; a runner that stays registered
    after its job is known to be persistent.
    """
    if evidence.running_job is not None:
        return False
    if evidence.ephemeral is None:
        return evidence.job_ended_at is not None and evidence.absent_since is not None
    if not evidence.ephemeral:
        return False
    is_running = evidence.remains is not None and evidence.remains.kind is RemainsKind.RUNNING
    return evidence.job_ended_at is not None or ((evidence.busy or evidence.was_busy) and not is_running)


def is_zombie(evidence: Evidence) -> bool:
    """True if an absent runner still exists in the cluster long after its registration and its job ended: a zombie.

    Its container still runs, its object has no pod, or its object stays Terminating; each occupies the place of a
    runner. The time counts up to the latest view of the cluster, so that a missing view makes no runner older.
    """
    remains = evidence.remains
    if remains is None or remains.kind in (RemainsKind.NOTHING, RemainsKind.ENDED) or evidence.running_job is not None:
        return False
    ended = max(missing_since(evidence), evidence.job_ended_at or 0.0, remains.since)
    is_over = remains.kind is RemainsKind.TERMINATING or is_spent(evidence)
    return is_over and remains.seen_at - ended >= HANG_SECONDS


def was_taken_down(evidence: Evidence) -> bool:
    """True if an absent runner's object or pod was deleted in the cluster, or is being deleted, and not by ghapp.

    The controller deleted it, or it disappeared with its machine; the controller sees that as well as ghapp does.
    """
    is_ours = evidence.granted_at is not None or evidence.removed_at is not None
    remains = evidence.remains
    is_deleted = remains is not None and remains.kind in (RemainsKind.NOTHING, RemainsKind.TERMINATING)
    return is_deleted and not is_ours and not is_zombie(evidence)


def why_stale(survey: Survey) -> Reason:
    """Returns the reason for `unknown`: what prevents sweeps, if that is known."""
    if survey.failing_since is not None and survey.failure:
        return Reason(survey.failure)
    return Reason.OBSERVATION_STALE


def _last_observation(evidence: Evidence, survey: Survey) -> float | None:
    observed, delivered = observed_at(evidence, survey), evidence.last_delivery_at
    if observed is None or delivered is None:
        return delivered if observed is None else observed
    return max(observed, delivered)


def _known_from_deliveries(evidence: Evidence, *, stale: bool) -> _Judged:
    """Judges a runner known only from deliveries: hosted, of a repository, or younger than the last sweep."""
    if evidence.running_job is not None and not stale:
        return State.HEALTHY, Reason.BUSY, evidence.job_started_at
    return State.UNKNOWN, Reason.NEVER_OBSERVED, evidence.first_seen


def _present(evidence: Evidence, survey: Survey, now: float, limits: Limits) -> _Judged:
    since = silent_since(evidence)
    if since is None:
        if evidence.is_at_work:
            return State.HEALTHY, Reason.BUSY, evidence.job_started_at or evidence.observed_at
        if evidence.back_at is not None and now - evidence.back_at <= limits.stale_seconds:
            return State.HEALTHY, Reason.BACK_FROM_ABSENCE, evidence.back_at
        return State.HEALTHY, Reason.ONLINE, evidence.observed_at
    # By what GitHub showed: while no list comes, it may be online again.
    offline_for = covered_seconds(survey, since, min(now, observed_at(evidence, survey) or now))
    if evidence.is_at_work and offline_for <= limits.offline_seconds + JOB_LEASE_SECONDS:
        return State.HEALTHY, Reason.BUSY, evidence.job_started_at or evidence.observed_at
    if offline_for <= limits.offline_seconds:
        return State.HEALTHY, Reason.OFFLINE_BRIEFLY, since
    return State.OFFLINE, Reason.OFFLINE_TOO_LONG, since
