"""Renders the summary: the current state, what prevents sweeps, and a row for each pool."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ghapp.health.queue.job_queue import PauseView
from ghapp.health.remediation.fuse import Fuse, FuseReason, Position
from ghapp.health.runner.next_attempt import OVERDUE
from ghapp.health.runner.verdict import State
from ghapp.report.check_run import LONGEST, time_of
from ghapp.report.fleet import FleetView, PoolView
from ghapp.report.markdown import NOTHING, code, cut, heading, row

LONGEST_WHY = 200

COUNTED = (State.HEALTHY, State.STARTING, State.OFFLINE, State.SUSPECT, State.INVALIDATED, State.UNKNOWN)
HEALED = "Healed, 24 h"

LEGEND = (
    "Runners: registered runners, and lost runners without an accepted replacement. Healed: runners lost within 24 "
    "hours whose replacement was accepted; no other column counts them.\n\n"
)


def as_of(fleet: FleetView, now: float, title: str) -> str:
    """Renders the current state, the list it is based on, and the time of the next attempt if sweeps are prevented."""
    swept_at, attempt = fleet.survey.swept_at, fleet.attempt
    source = "no complete list yet" if swept_at is None else f"complete list of {time_of(swept_at)}"
    due = ""
    if attempt.prevented_by and attempt.prevented_by != OVERDUE:
        due = " No next attempt is planned." if attempt.at is None else f" Next attempt due {time_of(attempt.at)}."
    unchanged = "This report is posted when something changes; numbers of healthy and starting runners alone, "
    unchanged += "every 5 minutes."
    return f"**As of {time_of(now)}** ({source}): {title}.{due} {unchanged}\n\n"


def summary_of(fleet: FleetView, pools: Sequence[PoolView], now: float, before: str = "", room: int = LONGEST) -> str:
    """Renders a row for each pool, below `before` and what prevents sweeps, in at most `room` characters."""
    names = [*(state.capitalize() for state in COUNTED), HEALED]
    head = heading("Pool", "Runners", *names, "Fuse", "Paused", numbers=("Runners", *names))
    rows = (
        row(
            code(pool.name),
            str(len(pool.members)),
            *(str(pool.count[state]) for state in COUNTED),
            str(len(pool.healed)),
            _fuse_cell(fleet, pool),
            NOTHING if pool.pause is None else paused_by(pool.pause),
        )
        for pool in pools
    )
    legend = LEGEND if any(pool.healed for pool in pools) else ""
    return cut(before + _what_prevents_sweeps(fleet, now) + legend + head, rows, len(pools), room, "pools")


def urgent_of(fleet: FleetView, pools: Sequence[PoolView], now: float) -> list[object]:
    """Returns the parts of the summary whose changes are posted at once.

    Healthy and starting runners come and go all the time in a fleet of ephemeral ones.
    """
    states = [state for state in COUNTED if state not in (State.HEALTHY, State.STARTING)]
    rows = [
        [
            pool.name,
            bool(pool.members),
            *(pool.count[state] for state in states),
            len(pool.healed),
            _fuse_cell(fleet, pool),
            NOTHING if pool.pause is None else paused_by(pool.pause),
        ]
        for pool in pools
    ]
    return [_what_prevents_sweeps(fleet, now), len(fleet.phantoms), rows]


def _what_prevents_sweeps(fleet: FleetView, now: float) -> str:
    """Renders why the table may be outdated; empty if it is not. A late sweep is reported once states are stale."""
    survey, attempt = fleet.survey, fleet.attempt
    listed = (
        "There is no list yet" if survey.swept_at is None else f"The table shows the list of {time_of(survey.swept_at)}"
    )
    if survey.failing_since is not None:
        problem = f"**No complete list of runners since {time_of(survey.failing_since)}**: {code(survey.failure)}"
    elif attempt.prevented_by == OVERDUE and attempt.at is not None and fleet.is_stale(now):
        problem = f"**The sweep that was due {time_of(attempt.at)} did not run**: {code(OVERDUE)}"
    else:
        return ""
    return f"{problem}. {listed}.\n\n"


def _fuse_cell(fleet: FleetView, pool: PoolView) -> str:
    fuse = pool.fuse
    if fuse.position is Position.CLOSED:
        return fuse.position
    if fuse is fleet.whole_fuse:
        return f"**{fuse.position}** (whole installation)"
    return f"**{fuse.position}** ({fuse_history(fuse)})"


def fuse_history(fuse: Fuse, quote: Callable[[str], str] = code) -> str:
    """Renders when and why a fuse left `closed` or who resumed it, and the reason of its last change."""
    if fuse.reason is FuseReason.UNREADABLE:
        return f"{quote(fuse.reason)}: its record in Redis cannot be read"
    begun = "" if fuse.since is None else f" {time_of(fuse.since)}"
    first = fuse.tripped_for
    if not first and fuse.reason in (FuseReason.MASS_LOSS, FuseReason.LOSS_ON_WATCH):
        first = fuse.reason
    if fuse.by:
        first, history = FuseReason.RESUMED, f"resumed by {quote(fuse.by)}{begun}"
    else:
        history = f"tripped{begun}" + (f" for {quote(first)}" if first else "")
    return history if fuse.reason in (first, FuseReason.NONE) else f"{history}, then {quote(fuse.reason)}"


def paused_by(pause: PauseView) -> str:
    """Renders who paused, since when, until when and why."""
    until = "" if pause.until is None else f" until {time_of(pause.until)}"
    return f"by {code(pause.who)} {time_of(pause.at)}{until}: {code(pause.why, LONGEST_WHY)}"
