"""Records calls about single runners that GitHub refused or did not answer: `ghapp.runners.failed_calls`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ghapp.errors import (
    BudgetSpentError,
    GitHubError,
    InstallationMissingError,
    InstallationSuspendedError,
    NotFoundError,
    PermissionMissingError,
    RateLimitedError,
    UnauthorizedError,
)
from ghapp.installations.installation import Installation
from ghapp.runners.evidence import Evidence
from ghapp.runners.failed_calls import call_failed
from ghapp.runners.verdict import Reason
from jobs.context import JobContext

_REASONS: dict[type[GitHubError], Reason] = {
    NotFoundError: Reason.PERMISSION_MISSING,
    RateLimitedError: Reason.RATE_LIMITED,
    UnauthorizedError: Reason.UNAUTHORIZED,
    PermissionMissingError: Reason.PERMISSION_MISSING,
    InstallationSuspendedError: Reason.INSTALLATION_SUSPENDED,
    InstallationMissingError: Reason.INSTALLATION_GONE,
}


def reason_of_failure(error: GitHubError) -> Reason:
    """Returns why GitHub gives no usable answer; a 404 for what must exist hides a missing permission."""
    return _REASONS.get(type(error), Reason.GITHUB_UNAVAILABLE)


async def record_failed_calls(
    context: JobContext, installation: Installation, failures: Mapping[int, GitHubError]
) -> dict[int, Evidence]:
    """Records failed calls, by runner; returns the records that were changed.

    Calls that wait for the budget or for a rate limit are left out: no call is sent until these permit it.
    """
    at = context.clock()
    folds = {
        runner_id: partial(call_failed, at=at, why=str(error), reason=reason_of_failure(error))
        for runner_id, error in failures.items()
        if not isinstance(error, BudgetSpentError | RateLimitedError)
    }
    return await context.runners.revise(installation.id, folds) if folds else {}
