"""Our check runs on deployed commits, and what becomes of an attempt to post one."""

from __future__ import annotations

from enum import StrEnum

from ghapp.errors import (
    BudgetSpentError,
    GitHubError,
    GitHubUnavailableError,
    PermissionMissingError,
    RateLimitedError,
    UnauthorizedError,
)
from ghapp.github.checks import Checks
from ghapp.health.cadence import Purpose
from ghapp.health.installation import Installation
from ghapp.health.report import Report
from ghapp.health.rollout.rounds import Round, subject_of
from jobs.house import House

SETBACK_SECONDS = 300.0
"""What somebody must mend first is tried again so often."""


class Outcome(StrEnum):
    """What became of one look at one round, as it is counted with other check runs."""

    NOTHING_TO_DO = "nothing-to-do"
    CREATED = "created"
    UPDATED = "updated"
    PERMISSION_MISSING = "permission-missing"
    REFUSED = "refused"
    NOT_NOW = "not-now"
    UNAVAILABLE = "unavailable"


SETBACKS = {Outcome.PERMISSION_MISSING: SETBACK_SECONDS, Outcome.REFUSED: SETBACK_SECONDS}
"""Seconds in which GitHub is not asked again; after the others the next look tries."""

FAILURES: dict[type[GitHubError], Outcome] = {
    PermissionMissingError: Outcome.PERMISSION_MISSING,
    RateLimitedError: Outcome.NOT_NOW,
    BudgetSpentError: Outcome.NOT_NOW,
    GitHubUnavailableError: Outcome.UNAVAILABLE,
    UnauthorizedError: Outcome.UNAVAILABLE,  # also by a token too young to be believed
}
"""Whatever else GitHub answers it will answer again: that is refused."""

PASSING = (Outcome.NOT_NOW, Outcome.UNAVAILABLE)
"""What passes by itself."""

POSTED = (Outcome.CREATED, Outcome.UPDATED)


async def checks_of(house: House, installation: Installation, begun: Round, place: str, name: str) -> Checks:
    """The check runs of a round: where they are, what they are called, and whose they are.

    Raises:
        GitHubError: they cannot be posted, or not now.
    """
    if not installation.may("checks", "write"):
        raise PermissionMissingError("the installation has not granted checks: write", accepted="checks=write")
    tenant = await house.tenant(installation, Purpose.REPORT)
    repository = tenant.installation.at_github(begun.repository)
    return Checks(tenant, repository, house.settings.public_url, name=name, subject=subject_of(place, begun))


def outcome_of(error: GitHubError) -> Outcome:
    """What became of an attempt that failed so."""
    return next((outcome for kind, outcome in FAILURES.items() if isinstance(error, kind)), Outcome.REFUSED)


async def post(checks: Checks, begun: Round, report: Report) -> tuple[int | None, Outcome]:
    """Say it; the check run's id. Where we know of none of this round there may be one all the same."""
    known = begun.check_run if begun.check_run is not None else await checks.find(begun.sha)
    if known is not None and await checks.update(known, report):
        return known, Outcome.UPDATED
    return await checks.create(begun.sha, report), Outcome.CREATED
