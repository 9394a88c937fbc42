"""The page of the versions of the runner: which ones run, until when they get jobs, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ghapp.report.org_view import OrgView
from ghapp.runners.evidence import Evidence
from ghapp.versions.advice import VersionStep, version_text
from ghapp.versions.counts import PoolVersion
from ghapp.versions.lifetime import Urgency, VersionState, VersionStatus
from ghapp.web.pages.page import Page, Values, Visit
from ghapp.web.pages.views.wording import Moment, moment
from ghapp.wording import counted, sentence

MOST_POOLS, MOST_STEPS = 20, 10
"""Of one version."""

BANNERS = {
    Urgency.NONE: "good",
    Urgency.NOTICE: "busy",
    Urgency.WARNING: "attention",
    Urgency.ACTION: "critical",
}
"""Classes of the banner."""


class VersionLine(NamedTuple):
    """A version in the table.

    Attributes:
        name: the version; empty for runners that GitHub lists without one.
        state: see `VersionState`.
        runners: how many there are.
        pools: the first ones, each with its count.
        more_pools: how many further pools there are.
        jobs_end: when it gets its last jobs; None if GitHub has no date.
        registration_ends: when it can last register; None if GitHub has no date.
        text: what that means; empty if nothing is to be done.
        steps: what to do.
    """

    name: str
    state: VersionState
    runners: int
    pools: tuple[PoolVersion, ...]
    more_pools: int
    jobs_end: Moment | None
    registration_ends: Moment | None
    text: str
    steps: tuple[VersionStep, ...]


class VersionsPageView(NamedTuple):
    """The page's content; `banner` is the class of the banner with the sentence."""

    banner: str
    sentence: str
    lines: tuple[VersionLine, ...]


def versions_page(view: OrgView, runners: Iterable[Evidence], now: float) -> VersionsPageView:
    """Returns the page as of `now` (epoch seconds). Pure."""
    statuses = view.versions(runners, now)
    worst = max((each.urgency for each in statuses), key=[*BANNERS].index, default=Urgency.NONE)
    lines = tuple(_line(each, view, statuses, now) for each in statuses)
    return VersionsPageView(BANNERS[worst], _sentence(statuses), lines)


def _line(status: VersionStatus, view: OrgView, statuses: Sequence[VersionStatus], now: float) -> VersionLine:
    text = version_text(status)
    return VersionLine(
        status.version or "",
        status.state,
        status.runners,
        status.pools[:MOST_POOLS],
        max(0, len(status.pools) - MOST_POOLS),
        moment(status.jobs_end_at, now),
        moment(status.registration_ends_at, now),
        "" if status.urgency is Urgency.NONE else sentence(text),
        tuple(view.steps_for(status, statuses)[:MOST_STEPS]),
    )


def _sentence(statuses: Sequence[VersionStatus]) -> str:
    ended, ending, unknown = (
        sum(each.runners for each in statuses if each.state is state)
        for state in (VersionState.ENDED, VersionState.ENDING, VersionState.UNKNOWN)
    )
    if any(each.state is VersionState.ENDED for each in statuses):
        return f"{counted(ended, 'runner')} {'has' if ended == 1 else 'have'} a version that gets no jobs any more."
    if any(each.state is VersionState.ENDING for each in statuses):
        return f"{counted(ending, 'runner')} {'has' if ending == 1 else 'have'} a version that ends soon."
    if not statuses:
        return "No runner is registered."
    if unknown:
        return f"GitHub reports no dates for the version of {counted(unknown, 'runner')}."
    return "GitHub gives jobs to the versions of all runners."


async def _content(visit: Visit) -> Values:
    runners = await visit.data.runners(visit.org_state)
    return {"page": versions_page(visit.org_state.view, runners.values(), visit.clock())}


PAGE = Page("/versions", "Versions", "versions.html", _content)
