"""What ghapp asks of GitHub for one organization: sweeps, the budget, and what prevents the next sweep. Pure."""

from __future__ import annotations

from typing import NamedTuple

from ghapp.installations.installation import Installation, runners_permission
from ghapp.installations.pacing import Allowance, BudgetLimits, left
from ghapp.report.fleet import FleetView
from ghapp.runners.next_attempt import blindness_of
from ghapp.runners.verdict import Reason
from ghapp.web.pages.views.overview import OpenItem, items_about_blindness
from ghapp.web.pages.views.wording import Moment, TextPart, coded, due, moment, page_duration
from ghapp.wording import duration, sentence, time_of

MOST_SPANS = 10


ENTERPRISE_SCOPE = "the scope manage_runners:enterprise of the enterprise's token"


class BlindSpan(NamedTuple):
    """A span of time without a complete list; `end` is None while it goes on.

    `times`: from when to when, as times of day; `length`: how long; `is_covered`: True if it counts all the same: the
    list after it was only late.
    """

    times: str
    end: Moment | None
    length: str
    is_covered: bool = False


class GitHubPageView(NamedTuple):
    """The page's content.

    Attributes:
        meaning: what prevents the next sweep, in words; empty if nothing does. `fix`: what to do about it.
        blind_now: why GitHub cannot be read, as the overview has it; empty if it can be.
        held: how long GitHub asked to send no calls; empty if it did not.
        refused: the permission for want of which GitHub refuses calls, although its list has it; else empty.
        settings: where an owner accepts permissions; empty for an enterprise, whose token has them.
    """

    blind_now: tuple[OpenItem, ...]
    next_at: Moment | None
    prevented_by: str
    meaning: str
    fix: tuple[TextPart, ...]
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
    refused: str
    settings: str
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
    is_refused = Reason.PERMISSION_MISSING in (survey.failure, attempt.prevented_by)
    known = blindness_of(attempt.prevented_by, fleet.org)
    ended = sorted([*((*span, False) for span in survey.blind), *((*span, True) for span in survey.gaps)], reverse=True)
    spans = [
        BlindSpan(
            f"from {time_of(begin, now)} to {time_of(end, now)}", moment(end, now), duration(end - begin), covered
        )
        for begin, end, covered in ended[:MOST_SPANS]
    ]
    if (since := survey.blind_since) is not None:
        spans.insert(0, BlindSpan(f"from {time_of(since, now)} on", None, page_duration(now - since)))
    return GitHubPageView(
        blind_now=tuple(items_about_blindness(fleet, now)),
        next_at=due(attempt.at, now),
        prevented_by=attempt.prevented_by,
        meaning=sentence(known.meaning) if attempt.prevented_by else "",
        fix=coded(sentence(known.fix)) if attempt.prevented_by else (),
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
        resets=f"in {page_duration(allowance.resets_in)}" if allowance.resets_in > 0 else "",
        held=page_duration(allowance.held_for) if allowance.held_for > 0 else "",
        share=round(100 * limits.share),
        missing=tuple(installation.missing()),
        refused=(runners_permission(installation.kind) or ENTERPRISE_SCOPE) if is_refused else "",
        settings=fleet.settings_page,
        suspended=installation.suspended,
        login=installation.called,
        blind=tuple(spans),
    )
