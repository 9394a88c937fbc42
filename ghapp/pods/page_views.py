"""The cluster side of an organization: phantoms, leaked pods, deaths. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ghapp.deaths.cluster_summary import ClusterSummary, phantom_since, possible_phantoms
from ghapp.pods.phantom_kinds import KNOWN_SOON, Phantom, command_of, is_of_runner, may_be_phantoms
from ghapp.runners.verdict import State
from ghapp.web.pages.views.wording import Moment, TextPart, coded, moment
from ghapp.wording import capitalized, counted

MOST_PHANTOMS = 20


class PhantomLine(NamedTuple):
    """A phantom: its pod or object, kind, reason, what to do with the command, since when, and the cluster's words."""

    subject: str
    kind: str
    reason: str
    advice: tuple[TextPart, ...]
    command: str
    since: Moment | None
    detail: str


class ClusterView(NamedTuple):
    """The section of the overview; `hidden_count` counts the phantoms that are not shown."""

    sentence: str
    phantoms: tuple[PhantomLine, ...]
    hidden_count: int


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
    shown = summary.phantoms[:MOST_PHANTOMS]
    lines = tuple(_line(each, summary, now) for each in shown)
    return ClusterView("; ".join(parts) + ".", lines, len(summary.phantoms) - len(shown))


def phantoms_named(names: Iterable[str], summary: ClusterSummary, now: float) -> dict[str, tuple[PhantomLine, ...]]:
    """Returns the phantoms of runners by their names, for their pages; only names with any."""
    found = {name: [each for each in summary.phantoms if is_of_runner(each.kind, each.subject, name)] for name in names}
    return {name: tuple(_line(each, summary, now) for each in several) for name, several in found.items() if several}


def possible_phantom_text(name: str, state: str, summary: ClusterSummary) -> str:
    """Returns that an offline runner may be a phantom, and what to do, for its page; empty if none is known to be."""
    is_possible = state == State.OFFLINE and name in possible_phantoms(summary)
    return f"{capitalized(may_be_phantoms(1, 1))}; {KNOWN_SOON}." if is_possible else ""


def _line(phantom: Phantom, summary: ClusterSummary, now: float) -> PhantomLine:
    return PhantomLine(
        phantom.subject,
        phantom.kind,
        phantom.reason,
        coded(phantom.advice),
        command_of(phantom),
        moment(phantom_since(summary, phantom), now),
        phantom.detail,
    )
