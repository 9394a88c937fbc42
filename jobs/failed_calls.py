"""Records calls about single runners that GitHub refused or did not answer: `ghapp.runners.failed_calls`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ghapp.errors import BudgetSpentError, GitHubError, RateLimitedError
from ghapp.installations.installation import Installation
from ghapp.runners.evidence import Evidence
from ghapp.runners.failed_calls import call_failed
from jobs.context import JobContext


async def record_failed_calls(
    context: JobContext, installation: Installation, failures: Mapping[int, GitHubError]
) -> dict[int, Evidence]:
    """Records failed calls, by runner; returns the records that were changed.

    Calls that wait for the budget or for a rate limit are left out: no call is sent until these permit it.
    """
    at = context.clock()
    folds = {
        runner_id: partial(call_failed, at=at, why=str(error))
        for runner_id, error in failures.items()
        if not isinstance(error, BudgetSpentError | RateLimitedError)
    }
    return await context.runners.revise(installation.id, folds) if folds else {}
