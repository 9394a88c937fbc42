"""What the terminal alone shows as events, of the state that ghapp keeps: controllers get none of them. Pure.

They are like CloudEvents, with the keys that the terminal's lines have. Times are RFC 3339 in UTC.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ghapp.deaths.cluster_summary import ClusterSummary
from ghapp.incidents.incident import LossIncident
from ghapp.incidents.texts import state_of, where_of
from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.report.documents import timestamp
from ghapp.runners.evidence import Survey
from ghapp.wording import clock_time, counted, duration

PHANTOM_FOUND, PHANTOM_OVER = "phantom.found", "phantom.over"
BLIND_BEGAN, BLIND_OVER = "blind.began", "blind.over"
"""Sweeps could read no complete list of runners, and could again."""
LIST_LATE = "list.late"
"""A complete list came more than an interval late."""
HEALED = "incident.healed"

COLOURS = {
    PHANTOM_FOUND: "yellow",
    PHANTOM_OVER: "green",
    BLIND_BEGAN: "red",
    BLIND_OVER: "green",
    LIST_LATE: "yellow",
    HEALED: "green",
}


def derived_events(
    summary: ClusterSummary | None, survey: Survey, incidents: Iterable[LossIncident]
) -> list[dict[str, Any]]:
    """Returns phantoms, found and over, begins and ends of blindness, late lists and healed incidents; oldest first.

    Args:
        summary: the phantoms; None without a cluster.
        survey: has the times without a complete list, of a week.
        incidents: all that are known.
    """
    events = [*_phantoms(summary), *_blindness(survey), *_healed(incidents)]
    return sorted(events, key=lambda event: str(event["time"]))


def _phantoms(summary: ClusterSummary | None) -> Iterator[dict[str, Any]]:
    for each in () if summary is None else summary.changes:
        yield _event(PHANTOM_OVER if each.is_over else PHANTOM_FOUND, each.subject, each.at, each.reason)


def _blindness(survey: Survey) -> Iterator[dict[str, Any]]:
    for begin, end in survey.blind:
        yield _event(BLIND_BEGAN, ALL_POOLS, begin, "")
        yield _event(BLIND_OVER, ALL_POOLS, end, f"after {duration(end - begin)}")
    if survey.blind_since is not None:
        yield _event(BLIND_BEGAN, ALL_POOLS, survey.blind_since, survey.failure)
    for begin, end in survey.gaps:
        yield _event(LIST_LATE, ALL_POOLS, end, f"no list since {clock_time(begin)}, {duration(end - begin)}")


def _healed(incidents: Iterable[LossIncident]) -> Iterator[dict[str, Any]]:
    for each in incidents:
        if each.ended is not None and not each.merged_into and state_of(each) == "healed":
            lost = f"{counted(len(each.losses), 'runner')} in {duration(each.ended - each.began)}"
            yield _event(HEALED, where_of(each), each.ended, lost)


def _event(kind: str, subject: str, at: float, reason: str) -> dict[str, Any]:
    return {"type": kind, "subject": subject, "time": timestamp(at), "data": {"reason": reason}}
