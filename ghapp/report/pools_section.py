"""Renders the summary: the current state, what prevents sweeps, and a row for each pool."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ghapp.remediation.fuse import Fuse, FuseReason, Position
from ghapp.remediation.pause import PauseView
from ghapp.report.check_run import LONGEST, time_of
from ghapp.report.fleet import FleetView, PoolView
from ghapp.report.markdown import NOTHING, code, cut, heading, row
from ghapp.runners.next_attempt import OVERDUE
from ghapp.runners.verdict import State

LONGEST_WHY = 200

COUNTED = (State.HEALTHY, State.STARTING, State.OFFLINE, State.SUSPECT, State.INVALIDATED, State.UNKNOWN)
HEALED = "Healed, 24 h"

LEGEND = (
    "Runners: registered runners, and lost runners whose successors are not online. Healed: runners lost within 24 "
    "hours whose successors are online; no other column counts them.\n\n"
)


def as_of(fleet: FleetView, now: float) -> str:
    """Renders the time, the list that the report is based on, and the time of the next attempt if there is none."""
    swept_at, attempt = fleet.view.survey.swept_at, fleet.attempt
    source = "no complete list yet" if swept_at is None else f"complete list of {time_of(swept_at)}"
    due = ""
    if attempt.prevented_by and attempt.prevented_by != OVERDUE:
        due = " No next attempt is planned." if attempt.at is None else f" Next attempt due {time_of(attempt.at)}."
    unchanged = "This report is posted at once when something is wrong or right again; numbers every 10 minutes."
    return f"**As of {time_of(now)}** ({source}).{due} {unchanged}\n\n"


def summary_of(fleet: FleetView, pools: Sequence[PoolView], before: str = "", room: int = LONGEST) -> str:
    """Renders a row for each pool, below `before`, in at most `room` characters."""
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
    return cut(before + legend + head, rows, len(pools), room, "pools")


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
