"""Calls about one lost runner that GitHub refuses or does not answer: each waits twice as long as the one before.

Those are the GETs of suspects, the look before a removal, and the DELETE of a registration. Twenty registrations that
GitHub does not delete, or 150 runners whose GET answers 500, would otherwise spend the budget in minutes. Calls that
the budget or a rate limit holds back are not counted: none is sent meanwhile. Pure; times are epoch seconds.
"""

from __future__ import annotations

from ghapp.runners.evidence import Evidence, FailedCalls, is_absent, missing_since


def doubled(bounds: tuple[float, float], times: int) -> float:
    """Returns the first bound, doubled so many times; at most the second bound."""
    first, most = bounds
    return min(most, first * 2.0 ** min(max(times, 0), 30))


RETRY_SECONDS = (30.0, 960.0)
"""Time from a failed call to the next one: at first, and the maximum; doubled in between."""

LONGEST_REASON = 200
"""Characters of a reason that are kept."""


def failed_calls(evidence: Evidence) -> FailedCalls | None:
    """Returns the failed calls of the runner's present absence, or of its present time offline; else None."""
    failed = evidence.failed_calls
    since = missing_since(evidence) if is_absent(evidence) else evidence.offline_since
    return None if failed is None or since is None or failed.last_at < since else failed


def retry_at(evidence: Evidence) -> float | None:
    """Returns when GitHub is asked about the runner again; None if nothing failed."""
    failed = failed_calls(evidence)
    return None if failed is None else failed.last_at + doubled(RETRY_SECONDS, failed.times - 1)


def may_call(evidence: Evidence, now: float) -> bool:
    """True if GitHub may be asked about the runner at `now`. A failure that is dated in the future is none."""
    failed, again_at = failed_calls(evidence), retry_at(evidence)
    return failed is None or again_at is None or now < failed.last_at or now >= again_at


def call_failed(evidence: Evidence | None, at: float, why: str, reason: str) -> Evidence | None:
    """GitHub refused a call about the runner, or gave no usable answer: `why` in words, and the `verdict.Reason`."""
    if evidence is None:
        return None
    before = failed_calls(evidence)
    times = 1 if before is None else before.times + 1
    return evidence._replace(failed_calls=FailedCalls(times, at, why[:LONGEST_REASON], reason))


def call_answered(evidence: Evidence | None) -> Evidence | None:
    """GitHub answered a call about the runner."""
    if evidence is None or evidence.failed_calls is None:
        return evidence
    return evidence._replace(failed_calls=None)
