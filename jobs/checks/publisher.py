"""Publishes check runs: "Runner health", "Runner post-mortem", "Runner gate" and "Runner queue".

A crash between the creation of a check run and its record leaves an unknown check run. The publisher therefore searches
the commit for one before it creates another. Each caller holds a lock, so that one process at a time publishes.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from ghapp.deaths.texts import NAME as POST_MORTEM
from ghapp.errors import (
    BudgetSpentError,
    CreationsSpentError,
    GhappError,
    GitHubError,
    GitHubUnavailableError,
    InstallationSuspendedError,
    PermissionMissingError,
    RateLimitedError,
    UnauthorizedError,
)
from ghapp.github.checks import Checks
from ghapp.installations.installation import Installation, poster_of
from ghapp.installations.pacing import Purpose
from ghapp.installations.scope import ScopeKind, owner_of
from ghapp.report.check_run import NAME, Report
from ghapp.workflow_jobs.texts import QUEUE_CHECK
from jobs.context import JobContext

RETRY_SECONDS = 300.0
"""Seconds until the next attempt when an admin must fix something first."""


SHARES = {POST_MORTEM: 0.8, QUEUE_CHECK: 0.6}
"""Of the creations that GitHub permits; those of the fleet and of the gate are few, and may use all."""


class CheckRunOutcome(StrEnum):
    """The result of one attempt to publish, as it is counted in `ghapp_reports_total`."""

    NOTHING_TO_DO = "nothing-to-do"
    CREATED = "created"
    UPDATED = "updated"
    PERMISSION_MISSING = "permission-missing"
    REPOSITORY_MISSING = "repository-missing"
    HEAD_UNKNOWN = "head-unknown"
    REFUSED = "refused"
    """GitHub does not accept the check run: the repository or the commit does not exist there any more."""
    NOT_NOW = "not-now"
    UNAVAILABLE = "unavailable"
    FAILED = "internal-error"
    """An error of ghapp itself; the worker's log has its traceback."""
    RECORDED = "recorded"
    """Of a post-mortem: the death is recorded, and no check run is due."""
    WAITS = "waits"
    """Of a post-mortem: another attempt is scheduled."""


POSTED = (CheckRunOutcome.CREATED, CheckRunOutcome.UPDATED)

TRANSIENT = (CheckRunOutcome.NOT_NOW, CheckRunOutcome.UNAVAILABLE)
"""Failures that pass by themselves; the next attempt comes at once."""

FAILURES: Mapping[type[GitHubError], CheckRunOutcome] = {
    PermissionMissingError: CheckRunOutcome.PERMISSION_MISSING,
    RateLimitedError: CheckRunOutcome.NOT_NOW,
    CreationsSpentError: CheckRunOutcome.NOT_NOW,
    BudgetSpentError: CheckRunOutcome.NOT_NOW,
    GitHubUnavailableError: CheckRunOutcome.UNAVAILABLE,
    InstallationSuspendedError: CheckRunOutcome.UNAVAILABLE,
    UnauthorizedError: CheckRunOutcome.UNAVAILABLE,  # GitHub answers 401 to a token that is a few seconds old, too
}


def outcome_of(error: Exception) -> CheckRunOutcome:
    """Returns the outcome of a failed attempt. GitHub repeats every other refusal, so these count as `REFUSED`.

    Raises:
        GhappError: `error` itself, if Redis is unavailable or a lock is lost, so that nothing can be recorded.
    """
    if not isinstance(error, GitHubError):
        if isinstance(error, GhappError):
            raise error
        return CheckRunOutcome.FAILED
    return next((outcome for kind, outcome in FAILURES.items() if isinstance(error, kind)), CheckRunOutcome.REFUSED)


def retry_after(outcome: CheckRunOutcome) -> float:
    """Returns the seconds until the next attempt after a failure."""
    return 0.0 if outcome in TRANSIENT else RETRY_SECONDS


async def open_checks(
    context: JobContext,
    installation: Installation,
    repository: str,
    *,
    name: str = NAME,
    subject: str | None = None,
    details_url: str | None = None,
) -> Checks:
    """Opens the check runs of a repository (`owner/name`), within the budget's share for reports.

    Raises:
        PermissionMissingError: the installation has not granted `checks: write`, or there is none.
        GitHubError: no token is available now.
    """
    poster = installation
    if installation.kind is ScopeKind.ENTERPRISE:
        subject = subject or str(installation.id)
        found = poster_of(installation, repository, await context.installations.all())
        if found is None:
            raise PermissionMissingError(f"the App is not installed on {owner_of(repository)}", accepted="checks=write")
        poster = found
    if not poster.may("checks", "write"):
        raise PermissionMissingError("the installation has not granted checks: write", accepted="checks=write")
    installation_client = await context.installation_client(poster, Purpose.REPORT)
    return Checks(installation_client, poster.at_github(repository), details_url, name=name, subject=subject)


async def publish(
    context: JobContext, checks: Checks, sha: str, report: Report, known: int | None = None
) -> tuple[int | None, CheckRunOutcome]:
    """Updates the known check run, else the one on the commit, else creates one.

    Returns:
        The check run's id (None when GitHub refuses it) and the outcome.

    Raises:
        CreationsSpentError: as many were created lately as GitHub permits.
        GitHubError: GitHub gave no usable answer.
    """
    if known is not None and await checks.update(known, report):
        return known, CheckRunOutcome.UPDATED
    found = await checks.find(sha)
    if found is not None and found != known and await checks.update(found, report):
        return found, CheckRunOutcome.UPDATED
    creations, share = context.check_creations, SHARES.get(checks.name, 1.0)
    wait = await creations.take(checks.installation.id, f"{checks.key} {sha}", share, context.clock())
    if wait > 0.0:
        text = f"as many check runs were created lately as GitHub permits; the next one in {wait:.0f} s"
        raise CreationsSpentError(text, after_seconds=wait)
    created = await checks.create(sha, report)
    return created, CheckRunOutcome.REFUSED if created is None else CheckRunOutcome.CREATED
