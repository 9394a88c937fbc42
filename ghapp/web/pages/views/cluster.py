"""The cluster side of an organization: phantoms, leaked pods, deaths. Pure."""

from __future__ import annotations

from typing import NamedTuple

from ghapp.health.cluster_summary import ClusterSummary, phantom_since
from ghapp.web.pages.views.wording import Moment, counted, moment

MOST_PHANTOMS = 20


class PhantomLine(NamedTuple):
    """A phantom: its pod or object, its kind and reason, what to do, since when, and the cluster's own words."""

    subject: str
    kind: str
    reason: str
    advice: str
    since: Moment | None
    detail: str = ""


class ClusterView(NamedTuple):
    """The section of the overview; `more` counts the phantoms that are not shown."""

    sentence: str
    phantoms: tuple[PhantomLine, ...]
    more: int


def cluster_view(summary: ClusterSummary, reaped: int, now: float) -> ClusterView:
    """Returns the section of a cluster that was checked within the last ten minutes.

    Args:
        summary: of the last check.
        reaped: leaked pods that were deleted within a day.
        now: epoch seconds.
    """
    parts = [
        counted(len(summary.phantoms), "phantom"),
        f"{counted(reaped, 'leaked pod')} deleted within a day",
        f"{counted(len(summary.deaths), 'runner')} died within a week",
    ]
    lines = [
        PhantomLine(
            each.subject, each.kind, each.reason, each.advice, moment(phantom_since(summary, each), now), each.detail
        )
        for each in summary.phantoms
    ]
    return ClusterView("; ".join(parts) + ".", tuple(lines[:MOST_PHANTOMS]), max(0, len(lines) - MOST_PHANTOMS))
