"""Returns what prevents sweeps of an installation, and when the next attempt is due."""

from __future__ import annotations

from typing import NamedTuple

from ghapp.health.installation import Installation
from ghapp.health.runner.evidence import Survey
from ghapp.health.runner.verdict import Reason

OVERDUE_SECONDS = 60.0
"""A sweep overdue by more than this was picked up by no scheduler or no worker."""

OVERDUE = "SweepOverdue"
NOT_SCHEDULED = "SweepNotScheduled"


class NextAttempt(NamedTuple):
    """The next attempt to sweep an installation.

    Attributes:
        prevented_by: reason code of what prevents a complete sweep; empty if nothing does.
        since: since when, if known (epoch seconds).
        at: when the next attempt is due (epoch seconds): a sweep, or a check whether the installation permits sweeps
            again; None: no attempt is planned.
    """

    prevented_by: str = ""
    since: float | None = None
    at: float | None = None


def why_not_swept(installation: Installation) -> Reason | None:
    """Returns why an installation is not swept at all: it is suspended, or lacks the permission to read runners."""
    if installation.suspended:
        return Reason.INSTALLATION_SUSPENDED
    return None if installation.may("organization_self_hosted_runners", "read") else Reason.PERMISSION_MISSING


def next_attempt(
    installation: Installation, survey: Survey, sweep_at: float | None, discovery_at: float | None, now: float
) -> NextAttempt:
    """Returns what prevents sweeps, and when the next attempt is due.

    Args:
        installation: its record.
        survey: result of its last sweeps.
        sweep_at: when its next sweep is due; None: no sweep is scheduled.
        discovery_at: when GitHub is next asked for all installations; None: unknown.
        now: epoch seconds.
    """
    failing = survey.failing_since
    if (reason := why_not_swept(installation)) is not None:
        return NextAttempt(reason, failing if survey.failure == reason else None, sweep_at or discovery_at)
    if sweep_at is None:
        return NextAttempt(survey.failure or NOT_SCHEDULED, failing, discovery_at)
    if now - sweep_at > OVERDUE_SECONDS:
        return NextAttempt(OVERDUE, sweep_at, sweep_at)
    if failing is None and survey.deferred_since is not None:
        return NextAttempt(Reason.RATE_LIMITED, survey.deferred_since, sweep_at)
    return NextAttempt(survey.failure, failing, sweep_at)
