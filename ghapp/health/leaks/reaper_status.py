"""How the reaper stands, for people: whether it still looks, what it did in the last day, and what waits. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from ghapp.health.leaks.tick import Guard, TickResult

DAY_SECONDS = 86_400.0

OVERDUE_SECONDS = 180.0
"""It looks once a minute. What it has not done for so long it does not do."""


MOST_EXAMPLES = 5
"""Pods named for each guard; of the others there is a number."""

REPORTED = (Guard.UNNAMED, Guard.NEVER_STARTED, Guard.BUSY_WHEN_LAST_SEEN, Guard.MASS_LEAK, Guard.FUSE_NOT_CLOSED)
"""Guards whose pods are named to people: they stay for as long as nobody does anything."""

Example = tuple[str, float]
"""`namespace/pod`, and when the pod was created (epoch seconds, by the cluster's clock)."""


class ReaperStatus(NamedTuple):
    """What is told of one org's reaper.

    Attributes:
        reaped: stamped pods, in the last day.
        deferred: leaks that wait for a later tick, by the last one.
        told: leaks that are only told, by the last one: dry-run, or a person paused it.
        held_up_since: since when something has kept it from judging or reaping; None while nothing has for long.
        strangers: pods that bear the label and were never a runner's, by the last one.
        held: leaks that the fuse holds back, by the last one.
        kept: how many pods each guard of `REPORTED` keeps, by the last one.
        examples: the oldest pods of each guard of `REPORTED`.
    """

    reaped: int = 0
    deferred: int = 0
    told: int = 0
    held_up_since: float | None = None
    strangers: int = 0
    held: int = 0
    kept: Mapping[str, int] = {}
    examples: Mapping[str, tuple[Example, ...]] = {}


def kept_by_guard(reaping: TickResult) -> dict[str, int]:
    """How many stamped pods each guard keeps; those of the fuse are among them."""
    return dict(Counter(guard.value for _, guard in (*reaping.kept, *reaping.held)))


def examples(reaping: TickResult) -> dict[str, tuple[Example, ...]]:
    """For each guard that people are told of, its oldest pods."""
    found: dict[str, tuple[Example, ...]] = {}
    oldest = sorted((*reaping.kept, *reaping.held), key=lambda each: (each[0].created_at, each[0].uid))
    for guard in REPORTED:
        pods = [(f"{pod.namespace}/{pod.name}", pod.created_at) for pod, by in oldest if by is guard]
        if pods:
            found[guard.value] = tuple(pods[:MOST_EXAMPLES])
    return found


def is_overdue(at: float | None, now: float) -> bool:
    """Whether what happens each minute, and last did so `at`, has stopped. A clock that jumped counts as that."""
    return at is None or abs(now - at) > OVERDUE_SECONDS


def reaper_status(
    at: float | None,
    trouble_since: float | None,
    now: float,
    *,
    reaped: int,
    deferred: int,
    told: int,
    strangers: int,
    held: int = 0,
    kept: Mapping[str, int] | None = None,
    examples: Mapping[str, tuple[Example, ...]] | None = None,
) -> ReaperStatus:
    """What is told at `now` of a reaper whose last tick was `at`: of one that has stopped, only what it did before."""
    if is_overdue(at, now):
        return ReaperStatus(reaped)
    has_lasted = trouble_since is not None and now - trouble_since > OVERDUE_SECONDS
    reported = {guard.value: count for guard in REPORTED if (count := (kept or {}).get(guard, 0))}
    return ReaperStatus(
        reaped, deferred, told, trouble_since if has_lasted else None, strangers, held, reported, examples or {}
    )
