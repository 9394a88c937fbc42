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
from ghapp.health.gate.gate_checks import GateCheck, subject_of
from ghapp.health.installation import Installation
from ghapp.health.pacing import Purpose
from ghapp.report import Report
from jobs.context import JobContext

SETBACK_SECONDS = 300.0
"""What somebody must mend first is tried again so often."""


class GateCheckOutcome(StrEnum):
    """What became of one look at one round, as it is counted with other check runs."""

    NOTHING_TO_DO = "nothing-to-do"
    CREATED = "created"
    UPDATED = "updated"
    PERMISSION_MISSING = "permission-missing"
    REFUSED = "refused"
    NOT_NOW = "not-now"
    UNAVAILABLE = "unavailable"


SETBACKS = {GateCheckOutcome.PERMISSION_MISSING: SETBACK_SECONDS, GateCheckOutcome.REFUSED: SETBACK_SECONDS}
"""Seconds in which GitHub is not asked again; after the others the next look tries."""

FAILURES: dict[type[GitHubError], GateCheckOutcome] = {
    PermissionMissingError: GateCheckOutcome.PERMISSION_MISSING,
    RateLimitedError: GateCheckOutcome.NOT_NOW,
    BudgetSpentError: GateCheckOutcome.NOT_NOW,
    GitHubUnavailableError: GateCheckOutcome.UNAVAILABLE,
    UnauthorizedError: GateCheckOutcome.UNAVAILABLE,  # also by a token too young to be believed
}
"""Whatever else GitHub answers it will answer again: that is refused."""

PASSING = (GateCheckOutcome.NOT_NOW, GateCheckOutcome.UNAVAILABLE)
"""What passes by itself."""

POSTED = (GateCheckOutcome.CREATED, GateCheckOutcome.UPDATED)


async def checks_of(context: JobContext, installation: Installation, begun: GateCheck, place: str, name: str) -> Checks:
    """The check runs of a round: where they are, what they are called, and whose they are.

    Raises:
        GitHubError: they cannot be posted, or not now.
    """
    if not installation.may("checks", "write"):
        raise PermissionMissingError("the installation has not granted checks: write", accepted="checks=write")
    installation_client = await context.installation_client(installation, Purpose.REPORT)
    repository = installation_client.installation.at_github(begun.repository)
    return Checks(
        installation_client, repository, context.settings.public_url, name=name, subject=subject_of(place, begun)
    )


def outcome_of(error: GitHubError) -> GateCheckOutcome:
    """What became of an attempt that failed so."""
    return next((outcome for kind, outcome in FAILURES.items() if isinstance(error, kind)), GateCheckOutcome.REFUSED)


async def post_gate_check(checks: Checks, begun: GateCheck, report: Report) -> tuple[int | None, GateCheckOutcome]:
    """Say it; the check run's id. Where we know of none of this round there may be one all the same."""
    known = begun.check_run if begun.check_run is not None else await checks.find(begun.sha)
    if known is not None and await checks.update(known, report):
        return known, GateCheckOutcome.UPDATED
    return await checks.create(begun.sha, report), GateCheckOutcome.CREATED
