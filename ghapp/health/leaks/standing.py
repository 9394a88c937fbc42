"""How the reaper stands, for people: whether it still looks, what it did in the last day, and what waits. Pure."""

from __future__ import annotations

from typing import NamedTuple

DAY_SECONDS = 86_400.0

OVERDUE_SECONDS = 180.0
"""It looks once a minute. What it has not done for so long it does not do."""


class LeakStanding(NamedTuple):
    """What is told of one org's reaper.

    Attributes:
        reaped: stamped pods, in the last day.
        deferred: leaks that wait for a later tick, by the last one.
        told: leaks that are only told, by the last one: dry-run, or a person paused it.
        held_up_since: since when something has kept it from judging or reaping; None while nothing has for long.
        strangers: pods that bear the label and were never a runner's, by the last one.
    """

    reaped: int = 0
    deferred: int = 0
    told: int = 0
    held_up_since: float | None = None
    strangers: int = 0


def is_overdue(at: float | None, now: float) -> bool:
    """Whether what happens each minute, and last did so `at`, has stopped. A clock that jumped counts as that."""
    return at is None or abs(now - at) > OVERDUE_SECONDS


def standing(
    at: float | None, trouble_since: float | None, now: float, *, reaped: int, deferred: int, told: int, strangers: int
) -> LeakStanding:
    """What is told at `now` of a reaper whose last tick was `at`: of one that has stopped, only what it did before."""
    if is_overdue(at, now):
        return LeakStanding(reaped)
    has_lasted = trouble_since is not None and now - trouble_since > OVERDUE_SECONDS
    return LeakStanding(reaped, deferred, told, trouble_since if has_lasted else None, strangers)
