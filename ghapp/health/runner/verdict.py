"""What is true of a runner, judged from its evidence.

`judge` is pure and total: every evidence has exactly one verdict at every time. It is the only place where a
state is decided; readers call it with their own `now`, so that a state ages even while nobody writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ghapp.health.runner.evidence import Evidence, Survey, covered_seconds, observed_at
from ghapp.health.runner.remains import PROCESS_ENDED, RemainsKind

JOB_LEASE_SECONDS = 600.0
"""GitHub gives up a job whose runner has been silent for this long, so no delivery can vouch for it after that."""

LONGEST_JOB_SECONDS = 5 * 24 * 3600.0
"""GitHub's longest job on a self-hosted runner."""

HANG_SECONDS = 300.0
"""A runner that still stands in the cluster this long after its job and its registration ended hangs."""


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
    """Why a runner is in its state: constants, never free text."""

    ONLINE = "Online"
    BUSY = "Busy"
    OFFLINE_BRIEFLY = "OfflineBriefly"
    BACK_FROM_ABSENCE = "BackFromAbsence"
    WITHIN_STARTUP_GRACE = "WithinStartupGrace"
    OFFLINE_TOO_LONG = "OfflineTooLong"
    AWAITING_CONFIRMATION = "AwaitingConfirmation"
    REGISTRATION_INVALIDATED = "RegistrationInvalidated"
    JOB_COMPLETED = "JobCompleted"
    REMOVED_BY_CONTROLLER = "RemovedByController"
    REREGISTERED = "Reregistered"
    REPLACED_WHILE_OFFLINE = "ReplacedWhileOffline"
    HANGS_AFTER_JOB = "HangsAfterJob"
    NOT_NEEDED = "NotNeeded"
    NEVER_OBSERVED = "NeverObserved"
    OBSERVATION_STALE = "ObservationStale"
    # Why an installation gives no reliable answer; also the codes of `Survey.failure`.
    GITHUB_UNAVAILABLE = "GitHubUnavailable"
    RATE_LIMITED = "RateLimited"
    BUDGET_SPENT = "BudgetSpent"
    UNAUTHORIZED = "Unauthorized"
    PERMISSION_MISSING = "PermissionMissing"
    INSTALLATION_SUSPENDED = "InstallationSuspended"
    INSTALLATION_GONE = "InstallationGone"
    ORGANIZATION_RENAMED = "OrganizationRenamed"
    LIST_INCOMPLETE = "ListIncomplete"
    LIST_EMPTY = "ListEmpty"


@dataclass(frozen=True, slots=True)
class Limits:
    """The `[evidence]` table: least and most times of the judgement, in seconds."""

    confirm_seconds: float = 30.0
    startup_seconds: float = 120.0
    offline_seconds: float = 300.0
    stale_seconds: float = 300.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """A runner's state, why, since when, and from how old an observation (epoch seconds)."""

    state: State
    reason: Reason
    since: float | None
    observed_at: float | None
    stale: bool


def judge(evidence: Evidence | None, survey: Survey, now: float, limits: Limits) -> Verdict:
    """What is true of a runner at `now`, and why.

    In this order: what ended for good stays so however old it is; then an old observation answers nothing; then
    absence, which needs a confirmation; then presence.
    """
    if evidence is None:
        return Verdict(State.UNKNOWN, Reason.NEVER_OBSERVED, None, None, stale=True)
    observed = _last_word(evidence, survey)
    stale = observed is None or now - observed > limits.stale_seconds

    def verdict(state: State, reason: Reason, since: float | None) -> Verdict:
        return Verdict(state, reason, since, observed, stale)

    if evidence.retired_at is not None:
        return verdict(State.RETIRED, Reason.REMOVED_BY_CONTROLLER, evidence.retired_at)
    if not evidence.registered:
        return verdict(*_only_heard_of(evidence, stale=stale))
    if is_absent(evidence):
        hanging = hangs(evidence)
        if evidence.reregistered_as is not None:
            return verdict(State.RETIRED, Reason.REREGISTERED, gone_since(evidence))
        if is_spent(evidence) and not hanging:
            return verdict(State.RETIRED, Reason.JOB_COMPLETED, evidence.job_ended_at or gone_since(evidence))
        if evidence.removed_at is not None and evidence.confirmed_at is None:
            return verdict(State.RETIRED, Reason.REPLACED_WHILE_OFFLINE, evidence.removed_at)
        if evidence.not_needed_at is not None:
            return verdict(State.RETIRED, Reason.NOT_NEEDED, evidence.not_needed_at)
        if was_taken_down(evidence) and not runs_a_job(evidence, now):
            return verdict(State.RETIRED, Reason.REMOVED_BY_CONTROLLER, gone_since(evidence))
        if evidence.confirmed_at is not None and (evidence.removed_at is not None or not runs_a_job(evidence, now)):
            reason = Reason.HANGS_AFTER_JOB if hanging else Reason.REGISTRATION_INVALIDATED
            return verdict(State.INVALIDATED, reason, evidence.confirmed_at)
    if stale:
        return verdict(State.UNKNOWN, why_stale(survey), observed)
    young = covered_seconds(survey, evidence.first_seen, now) < limits.startup_seconds
    if young and (is_absent(evidence) or not evidence.was_online):
        return verdict(State.STARTING, Reason.WITHIN_STARTUP_GRACE, evidence.first_seen)
    if is_absent(evidence):
        return verdict(State.SUSPECT, Reason.AWAITING_CONFIRMATION, gone_since(evidence))
    return verdict(*_present(evidence, survey, now, limits))


def is_absent(evidence: Evidence) -> bool:
    """Whether the last that GitHub said of it is that it is not there."""
    return evidence.absent_since is not None or evidence.missing_at is not None


def gone_since(evidence: Evidence) -> float:
    """The first time that GitHub said it was not there. Only for an absent one."""
    times = [at for at in (evidence.absent_since, evidence.missing_at) if at is not None]
    return min(times)


def silent_since(evidence: Evidence) -> float | None:
    """Since when an offline one has given no sign of life: a delivery may have shown it at work after a list did not.

    None while it is online.
    """
    if evidence.offline_since is None:
        return None
    return max(evidence.offline_since, evidence.last_delivery_at or evidence.offline_since)


def is_offline_too_long(evidence: Evidence, patience: float | None, survey: Survey, now: float) -> bool:
    """Whether it is to be replaced for being offline for `patience` seconds; None: never. A busy one is not touched.

    Nor is one that is at work by all that deliveries told, whatever GitHub shows: it was seen to call such runners
    idle and offline, and to let them be deleted. It ends the job of a runner that it has lost, and tells of that.
    """
    since = silent_since(evidence)
    is_silent = patience is not None and since is not None and covered_seconds(survey, since, now) >= patience
    return is_silent and not evidence.busy and not runs_a_job(evidence, now)


def runs_a_job(evidence: Evidence, now: float) -> bool:
    """Whether a job vouches for it: a delivery reported its start, nothing its end, and no job runs for longer."""
    started = evidence.job_started_at
    return evidence.running_job is not None and started is not None and now - started <= LONGEST_JOB_SECONDS


def may_run_an_unknown_job(evidence: Evidence) -> bool:
    """Whether it was busy when GitHub last showed it, no delivery names the job, and its process may be running.

    Where deliveries do not reach us, or the App is not installed on the job's repository, there is never one.
    """
    process_ended = evidence.remains is not None and evidence.remains.kind in PROCESS_ENDED
    had_its_job = evidence.ephemeral is True and evidence.job_ended_at is not None
    return evidence.busy and evidence.running_job is None and not process_ended and not had_its_job


def is_spent(evidence: Evidence) -> bool:
    """Whether an absent runner is gone because its one job is over.

    An ephemeral runner whose job ended can never take another, whatever became of the job. One that was busy and of
    whose job no delivery told has ended with that, unless the cluster shows that its container runs on. Where GitHub
    does not say whether it is ephemeral, a job must have ended; one that outlives its job is known to be persistent.
    """
    if evidence.running_job is not None:
        return False
    if evidence.ephemeral is None:
        return evidence.job_ended_at is not None and evidence.absent_since is not None
    if not evidence.ephemeral:
        return False
    is_running = evidence.remains is not None and evidence.remains.kind is RemainsKind.RUNNING
    return evidence.job_ended_at is not None or (evidence.busy and not is_running)


def hangs(evidence: Evidence) -> bool:
    """Whether an absent runner still stands in the cluster, long after its registration and its job ended: a zombie.

    Either its container runs on after its job, or its object has no pod then, or its object is Terminating and not
    gone: each takes the place of a runner. Counted up to the latest view, so that no view at all makes nothing older.
    """
    remains = evidence.remains
    if remains is None or remains.kind in (RemainsKind.NOTHING, RemainsKind.ENDED) or evidence.running_job is not None:
        return False
    ended = max(gone_since(evidence), evidence.job_ended_at or 0.0, remains.since)
    is_over = remains.kind is RemainsKind.TERMINATING or is_spent(evidence)
    return is_over and remains.seen_at - ended >= HANG_SECONDS


def was_taken_down(evidence: Evidence) -> bool:
    """Whether an absent runner's object or pod is gone from the cluster, or on its way, and that was not our doing.

    Its controller took it down, or it went with its machine; the controller sees that as well as we do.
    """
    is_ours = evidence.granted_at is not None or evidence.removed_at is not None
    remains = evidence.remains
    is_gone = remains is not None and remains.kind in (RemainsKind.NOTHING, RemainsKind.TERMINATING)
    return is_gone and not is_ours and not hangs(evidence)


def why_stale(survey: Survey) -> Reason:
    """The reason for `unknown`: what keeps us from looking, where that is known."""
    if survey.failing_since is not None and survey.failure:
        return Reason(survey.failure)
    return Reason.OBSERVATION_STALE


def _last_word(evidence: Evidence, survey: Survey) -> float | None:
    times = [at for at in (observed_at(evidence, survey), evidence.last_delivery_at) if at is not None]
    return max(times, default=None)


def _only_heard_of(evidence: Evidence, *, stale: bool) -> tuple[State, Reason, float | None]:
    """A runner known from deliveries alone: hosted, of a repository, or younger than the last sweep."""
    if evidence.running_job is not None and not stale:
        return State.HEALTHY, Reason.BUSY, evidence.job_started_at
    return State.UNKNOWN, Reason.NEVER_OBSERVED, evidence.first_seen


def _present(evidence: Evidence, survey: Survey, now: float, limits: Limits) -> tuple[State, Reason, float | None]:
    since = silent_since(evidence)
    if since is None:
        if evidence.busy or evidence.running_job is not None:
            return State.HEALTHY, Reason.BUSY, evidence.job_started_at or evidence.observed_at
        if evidence.back_at is not None and now - evidence.back_at <= limits.stale_seconds:
            return State.HEALTHY, Reason.BACK_FROM_ABSENCE, evidence.back_at
        return State.HEALTHY, Reason.ONLINE, evidence.observed_at
    offline_for = covered_seconds(survey, since, now)
    at_work = evidence.busy or evidence.running_job is not None
    if at_work and offline_for <= limits.offline_seconds + JOB_LEASE_SECONDS:
        return State.HEALTHY, Reason.BUSY, evidence.job_started_at or evidence.observed_at
    if offline_for <= limits.offline_seconds:
        return State.HEALTHY, Reason.OFFLINE_BRIEFLY, since
    return State.OFFLINE, Reason.OFFLINE_TOO_LONG, since
