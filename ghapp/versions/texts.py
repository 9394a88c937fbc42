"""The versions of an organization's runners in Markdown, for the check run."""

from __future__ import annotations

from ghapp.report.fleet import FleetView
from ghapp.report.markdown import NOTHING, code, cut, heading, prose, row
from ghapp.versions.advice import day
from ghapp.versions.lifetime import VersionStatus

ROOM = 8_000
"""Maximum characters of the section."""

MOST_STEPS = 5
"""Steps that are shown for one version."""

COLUMNS = ("Version", "State", "Runners", "Pools", "Gets jobs until", "Registers until")


def versions_text(fleet: FleetView, now: float) -> str:
    """Renders versions that end or have ended, and what to do about each; empty if there are none."""
    every = fleet.view.versions(fleet.runners, now) if fleet.view.may_versions_end(now) else []
    statuses = [each for each in every if each.is_news]
    if not statuses:
        return ""
    head = "### Versions of the runner that get no jobs any more, or soon\n\n"
    steps = [
        f"- {code(status.version or '')}: {prose(step.step)}: {prose(step.why)}."
        for status in statuses
        for step in fleet.view.steps_for(status, every)[:MOST_STEPS]
    ]
    table = cut(
        head + heading(*COLUMNS, numbers=("Runners",)), map(_row, statuses), len(statuses), ROOM // 2, "versions"
    )
    return f"{table}\n\n{cut(steps[0], steps[1:], len(steps) - 1, ROOM // 2, 'steps')}" if steps else table


def _row(status: VersionStatus) -> str:
    return row(
        code(status.version or ""),
        status.state,
        str(status.runners),
        " ".join(code(each.pool) for each in status.pools[:MOST_STEPS]),
        NOTHING if status.jobs_end_at is None else day(status.jobs_end_at),
        NOTHING if status.registration_ends_at is None else day(status.registration_ends_at),
    )
