"""The summary: a row for each pool."""

from __future__ import annotations

from collections.abc import Sequence

from ghapp.health.evidence import Survey
from ghapp.health.fuse import Fuse, Position
from ghapp.health.markdown import NOTHING, code, cut, heading, row
from ghapp.health.report.fleet import Fleet, Pause, Pool
from ghapp.health.report.said import LONGEST, time_of
from ghapp.health.verdict import State

LONGEST_WHY = 200

COUNTED = (State.HEALTHY, State.STARTING, State.OFFLINE, State.SUSPECT, State.INVALIDATED, State.UNKNOWN)


def summary_of(fleet: Fleet, pools: Sequence[Pool]) -> str:
    """A row for each pool, below what keeps us from looking."""
    names = [state.capitalize() for state in COUNTED]
    head = heading("Pool", "Runners", *names, "Fuse", "Paused", numbers=("Runners", *names))
    rows = (
        row(
            code(pool.name),
            str(len(pool.members)),
            *(str(pool.count[state]) for state in COUNTED),
            _fuse_cell(pool.fuse),
            NOTHING if pool.pause is None else paused_by(pool.pause),
        )
        for pool in pools
    )
    return cut(_what_keeps_us(fleet.survey) + head, rows, len(pools), LONGEST, "pools")


def _what_keeps_us(survey: Survey) -> str:
    """Why what follows may be old; empty while all is well."""
    if survey.failing_since is None:
        return ""
    seen = "Nothing was seen yet" if survey.swept_at is None else f"What follows was seen at {time_of(survey.swept_at)}"
    return f"**No complete list of runners since {time_of(survey.failing_since)}**: {code(survey.failure)}. {seen}.\n\n"


def _fuse_cell(fuse: Fuse) -> str:
    if fuse.position is Position.CLOSED:
        return fuse.position
    return f"**{fuse.position}** ({code(fuse.reason)}{since(fuse)})"


def since(fuse: Fuse) -> str:
    """Since when, and by whom, it stands as it does; to follow its reason."""
    begun = "" if fuse.since is None else f" {time_of(fuse.since)}"
    return f", resumed by {code(fuse.by)}{begun}" if fuse.by else f", tripped{begun}"


def paused_by(pause: Pause) -> str:
    """Who paused, since when and why."""
    return f"by {code(pause.who)} {time_of(pause.at)}: {code(pause.why, LONGEST_WHY)}"
