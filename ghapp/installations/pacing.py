"""Computes when to sweep next, from the remaining budget, and how much of it each purpose of a call may use.

`next_sweep_in` slows sweeps down. Of the same hourly limit (`store.budget`) all processes take: sweeps up to `share`,
reports up to nine tenths of that, confirmations and removals up to `ACTING_SHARE` (`call_limits`). So do the sweeps of
other scopes of the same installation (`others_an_hour`).

GitHub grants an installation a number of calls an hour (5,000 at least; 15,000 on Enterprise Cloud). A sweep of N
runners costs ⌈N/100⌉ calls at most, and those whose page did not change cost nothing. At a share of 0.5 of 5,000,
2,500 calls an hour:

| runners | calls a sweep | an hour at 10 s | at 30 s | at 60 s | shortest interval if every page changes |
| ------: | ------------: | --------------: | ------: | ------: | --------------------------------------: |
|     100 |             1 |             360 |     120 |      60 |                                   1.4 s |
|     300 |             3 |           1,080 |     360 |     180 |                                   4.3 s |
|   1,000 |            10 |           3,600 |   1,200 |     600 |                                  14.4 s |
|   4,100 |            41 |          14,760 |   4,920 |   2,460 |                                  59.0 s |
|  10,000 |           100 |          36,000 |  12,000 |   6,000 |                                 144.0 s |

So the default of 60 s is kept up to 4,100 runners per installation, whatever they do; beyond that the interval
stretches, and shrinks again when pages do not change.

The cost of the next sweep is expected from the pages that changed between recent lists, not from the last list alone.
One loss changes the total on every page: a stretch after that would delay the sweeps that find and confirm the loss.
The first list with a new token pays for every page, too, and is no measure of the next one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

ACTING_SHARE = 0.9
"""Confirmations and removals may use up to this share of the hourly limit: they have priority over sweeps."""

REPORTING_SHARE = 0.9
"""Share of the sweeps' budget that reports may use: reports are deferred first."""

READ_POINTS, WRITE_POINTS = 1, 5
"""Cost of a call, in points of GitHub's limit per minute."""

MOST_POINTS = 890
"""Maximum points in any 61 seconds, counted by the second. GitHub allows 900 a minute."""

POINTS_SECONDS = 61
"""The span of that limit."""

SWEEPING_POINTS = 850
"""Those that sweeps and reports may use; confirmations and removals are still sent meanwhile."""

REDELIVERY_POINTS = 800
"""Those that requests for redelivery may use, of the App's own limit: 160 requests. What tokens and confirmations use
meanwhile is taken from these, and the rest is always left for them.
"""

PACED_POINTS = 840
"""The rate of sweeps that follow each other: those of 100,000 runners are 73 s apart. Without a pause each would use
points of the minute after it, until one of them finds none left and takes twice as long. The other ten points are for
confirmations and removals, which delay the sweeps otherwise.
"""

PATIENCE_SECONDS = 30.0
"""How long a call waits for a free slot in flight, or for the minute's points."""

SWEEPING_PATIENCE_SECONDS = 70.0
"""How long a sweep's call does: a list of more than 85,000 runners needs the points of the next minute, too."""

MOST_IN_FLIGHT = 80
"""Maximum concurrent requests of all processes. GitHub allows 100."""


AVERAGED_SWEEPS = 16
"""Sweeps over which changed pages are averaged; the recent ones weigh more."""

LATE_SHARE = 0.1
"""Share of the interval by which a sweep may begin late without putting off the next one. Otherwise the tenths of a
second add up, and a sweep that is due together with a confirmation has its list too late to confirm with it.
"""

LEAST_SWEEPS_LEFT = 20
"""While at least as many sweeps of the last one's cost fit into the rest of the hour, the average is believed."""


class Purpose(StrEnum):
    """Purpose of a call, in order of priority."""

    ACT = "act"
    SWEEP = "sweep"
    REPORT = "report"


@dataclass(frozen=True, slots=True)
class BudgetLimits:
    """The `[budget]` table: the share of an installation's hourly limit that sweeps may use."""

    share: float = 0.5


@dataclass(frozen=True, slots=True)
class Allowance:
    """An installation's hourly limit as last reported by GitHub.

    Attributes:
        limit: calls per hour.
        used: calls since the last reset.
        resets_in: seconds until the next reset; 0 if unknown or past.
        held_for: seconds for which GitHub requested to send no calls; 0 if it did not.
    """

    limit: int = 5000
    used: int = 0
    resets_in: float = 0.0
    held_for: float = 0.0


@dataclass(frozen=True, slots=True)
class CallLimits:
    """How much of GitHub's limits a call may use up, all calls of the installation included.

    Attributes:
        share: of the hourly limit.
        points_a_minute: of the limit of points.
        patience_seconds: how long the call waits for points, or for a free slot.
        turn: identifies a call that does not wait for points: without enough of them it gets a turn of its own, after
            those that came before; empty for a call that waits, and that goes before those with a turn.
    """

    share: float = 1.0
    points_a_minute: int = MOST_POINTS
    patience_seconds: float = PATIENCE_SECONDS
    turn: str = ""


def token_limits(purpose: Purpose, installation: int) -> CallLimits:
    """Returns the limits of the App's call that mints an installation's token.

    After a start, and after an outage, all installations need one at once, and GitHub permits 178 a minute. Sweeps and
    reports have turns. Confirmations and removals go first, and points are left for them.
    """
    if purpose is Purpose.ACT:
        return CallLimits()
    return CallLimits(points_a_minute=SWEEPING_POINTS, turn=f"token-{installation}")


def call_limits(purpose: Purpose, limits: BudgetLimits) -> CallLimits:
    """Returns the limits of calls of this purpose."""
    match purpose:
        case Purpose.ACT:
            return CallLimits(max(ACTING_SHARE, limits.share))
        case Purpose.SWEEP:
            return CallLimits(limits.share, SWEEPING_POINTS, SWEEPING_PATIENCE_SECONDS)
        case Purpose.REPORT:
            return CallLimits(limits.share * REPORTING_SHARE, SWEEPING_POINTS)


def left(allowance: Allowance, limits: BudgetLimits) -> int:
    """Returns the number of calls that sweeps may make until the reset."""
    return max(0, int(allowance.limit * limits.share) - allowance.used)


def mean_changed(before: float, changed: int | None) -> float:
    """Returns the mean number of pages that change from one list to the next.

    Args:
        before: the mean before this list; 0 before any.
        changed: pages that changed since the list before; None if that is unknown, as with a new token.
    """
    return before if changed is None else before + (changed - before) / AVERAGED_SWEEPS


def least_interval(calls: int) -> float:
    """Returns the least seconds from one sweep to the next, if each sends so many calls: GitHub limits their points."""
    return calls * READ_POINTS * POINTS_SECONDS / PACED_POINTS


def next_sweep_in(
    interval: float, changed: int, mean: float, allowance: Allowance, limits: BudgetLimits, others_an_hour: float = 0.0
) -> float:
    """Returns the seconds from one sweep to the next.

    Args:
        interval: in seconds, as configured or as `least_interval`; the minimum.
        changed: pages that changed before the last sweep; 0 if that is unknown.
        mean: of the pages that change between two sweeps.
        allowance: the remaining limit.
        limits: the share to keep under.
        others_an_hour: calls that sweeps of other scopes with the same limit would make an hour if none was stretched.

    Returns:
        The interval, stretched so that sweeps of the expected cost, and those of other scopes, last until the reset;
        the time until the reset if no sweep fits any more; and never less than the time for which GitHub requested to
        send no calls. If fewer than `LEAST_SWEEPS_LEFT` sweeps fit, the expected cost is not less than that of the last
        one.
    """
    interval = max(interval, allowance.held_for)
    calls = left(allowance, limits)
    cost = mean if calls >= LEAST_SWEEPS_LEFT * changed else max(mean, changed)
    if cost <= 0 or allowance.resets_in <= 0:
        return interval
    affordable = calls // (cost + others_an_hour * interval / 3600)
    if affordable <= 0:
        return max(interval, allowance.resets_in)
    return max(interval, allowance.resets_in / affordable)


def next_sweep_at(began: float, due_at: float | None, wait: float) -> float:
    """Returns when the next sweep is due (epoch seconds).

    Args:
        began: when the last one began.
        due_at: when that was due; None if it was requested.
        wait: seconds from one sweep to the next.
    """
    is_on_time = due_at is not None and 0.0 <= began - due_at <= wait * LATE_SHARE
    return wait + (due_at if due_at is not None and is_on_time else began)
