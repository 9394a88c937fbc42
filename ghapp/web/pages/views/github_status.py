"""What ghapp asks of GitHub for one organization: sweeps, the budget, and what prevents the next sweep. Pure."""

from __future__ import annotations

from typing import NamedTuple

from ghapp.installations.installation import Installation
from ghapp.installations.pacing import Allowance, BudgetLimits, left
from ghapp.report.fleet import FleetView
from ghapp.runners.verdict import Reason
from ghapp.web.pages.views.wording import Moment, due, duration, moment

MOST_SPANS = 10


class BlindSpan(NamedTuple):
    """A span of time that no complete list covers."""

    begin: Moment | None
    end: Moment | None
    length: str


class GitHubPageView(NamedTuple):
    """The page's content.

    Attributes:
        held: how long GitHub asked to send no calls; empty if it did not.
        lacks_unknown: True if GitHub refuses calls for want of a permission that its list does not lack.
    """

    next_at: Moment | None
    prevented_by: str
    since: Moment | None
    listed: Moment | None
    listed_runners: int
    failure: str
    failing_since: Moment | None
    interval: str
    limit: int
    used: int
    usable: int
    left: int
    resets: str
    held: str
    share: int
    missing: tuple[str, ...]
    lacks_unknown: bool
    suspended: bool
    login: str
    blind: tuple[BlindSpan, ...]


def github_page(
    fleet: FleetView,
    installation: Installation,
    allowance: Allowance,
    limits: BudgetLimits,
    interval_seconds: float,
    now: float,
) -> GitHubPageView:
    """Returns the page.

    Args:
        fleet: the organization's state.
        installation: its record.
        allowance: its hourly limit as GitHub last reported it.
        limits: the `[budget]` table.
        interval_seconds: the configured time between sweeps.
        now: epoch seconds.
    """
    survey, attempt = fleet.view.survey, fleet.attempt
    spans = [
        BlindSpan(moment(begin, now), moment(end, now), duration(end - begin))
        for begin, end in reversed(survey.blind[-MOST_SPANS:])
    ]
    return GitHubPageView(
        next_at=due(attempt.at, now),
        prevented_by=attempt.prevented_by,
        since=moment(attempt.since, now),
        listed=moment(survey.swept_at, now),
        listed_runners=survey.total,
        failure=survey.failure,
        failing_since=moment(survey.failing_since, now),
        interval=f"{interval_seconds:g} s",
        limit=allowance.limit,
        used=allowance.used,
        usable=int(allowance.limit * limits.share),
        left=left(allowance, limits),
        resets=f"in {duration(allowance.resets_in)}" if allowance.resets_in > 0 else "",
        held=duration(allowance.held_for) if allowance.held_for > 0 else "",
        share=round(100 * limits.share),
        missing=tuple(installation.missing()),
        lacks_unknown=Reason.PERMISSION_MISSING in (survey.failure, attempt.prevented_by),
        suspended=installation.suspended,
        login=installation.called,
        blind=tuple(spans),
    )
