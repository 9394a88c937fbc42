"""The summary: how things are now, and a row for each pool."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ghapp.health.remediation.fuse import Fuse, FuseReason, Position
from ghapp.health.runner.next_attempt import OVERDUE
from ghapp.health.runner.verdict import State
from ghapp.report.check_run import LONGEST, time_of
from ghapp.report.fleet import FleetView, PauseView, PoolView
from ghapp.report.markdown import NOTHING, code, cut, heading, row

LONGEST_WHY = 200

COUNTED = (State.HEALTHY, State.STARTING, State.OFFLINE, State.SUSPECT, State.INVALIDATED, State.UNKNOWN)
HEALED = "Healed, 24 h"

LEGEND = (
    "Runners: those that are registered, and those that are lost and still missed. Healed: lost within 24 hours, and "
    "their replacement accepted; none of them is counted anywhere else.\n\n"
)


def as_of(fleet: FleetView, now: float, how: str) -> str:
    """How things are now, by which list, and when the next attempt is due if sweeps are prevented."""
    swept_at, attempt = fleet.survey.swept_at, fleet.attempt
    source = "no complete list yet" if swept_at is None else f"complete list of {time_of(swept_at)}"
    due = ""
    if attempt.prevented_by and attempt.prevented_by != OVERDUE:
        due = " No next attempt is planned." if attempt.at is None else f" Next attempt due {time_of(attempt.at)}."
    unchanged = "Posted when something changes; later looks that find the same are not posted."
    return f"**As of {time_of(now)}** ({source}): {how}.{due} {unchanged}\n\n"


def summary_of(fleet: FleetView, pools: Sequence[PoolView], now: float, before: str = "") -> str:
    """A row for each pool, below `before` and what prevents sweeps."""
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
    return cut(before + _what_prevents_sweeps(fleet, now) + legend + head, rows, len(pools), LONGEST, "pools")


def _what_prevents_sweeps(fleet: FleetView, now: float) -> str:
    """Why what follows may be old; empty while all is well. A sweep that is late is no news before states turn old."""
    survey, attempt = fleet.survey, fleet.attempt
    seen = "Nothing was seen yet" if survey.swept_at is None else f"What follows was seen at {time_of(survey.swept_at)}"
    if survey.failing_since is not None:
        begun = f"**No complete list of runners since {time_of(survey.failing_since)}**: {code(survey.failure)}"
    elif attempt.prevented_by == OVERDUE and attempt.at is not None and fleet.is_stale(now):
        begun = f"**The sweep that was due {time_of(attempt.at)} did not run**: {code(OVERDUE)}"
    else:
        return ""
    return f"{begun}. {seen}.\n\n"


def _fuse_cell(fleet: FleetView, pool: PoolView) -> str:
    fuse = pool.fuse
    if fuse.position is Position.CLOSED:
        return fuse.position
    if fuse is fleet.whole_fuse:
        return f"**{fuse.position}** (whole installation)"
    return f"**{fuse.position}** ({fuse_history(fuse)})"


def fuse_history(fuse: Fuse, quote: Callable[[str], str] = code) -> str:
    """When and why a fuse that is not closed left `closed`, or who resumed it; and why it changed last."""
    if fuse.reason is FuseReason.UNREADABLE:
        return f"{quote(fuse.reason)}: its record cannot be read"
    begun = "" if fuse.since is None else f" {time_of(fuse.since)}"
    first = fuse.tripped_for
    if not first and fuse.reason in (FuseReason.MASS_LOSS, FuseReason.LOSS_ON_WATCH):
        first = fuse.reason
    if fuse.by:
        first, said = FuseReason.RESUMED, f"resumed by {quote(fuse.by)}{begun}"
    else:
        said = f"tripped{begun}" + (f" for {quote(first)}" if first else "")
    return said if fuse.reason in (first, FuseReason.NONE) else f"{said}, then {quote(fuse.reason)}"


def paused_by(pause: PauseView) -> str:
    """Who paused, since when and why."""
    return f"by {code(pause.who)} {time_of(pause.at)}: {code(pause.why, LONGEST_WHY)}"
