"""When to sweep next, from what is left of the budget.

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

So the default of 60 s is kept up to 4,100 runners an installation whatever they do; beyond that the interval
stretches, and quiet pages win it back.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

ACTING_SHARE = 0.9
"""Confirmations and removals may spend up to this share of the hourly limit: they come before sweeps."""

REPORTING_SHARE = 0.9
"""Of what sweeps may spend: reports are the first to wait."""

READ_POINTS, WRITE_POINTS = 1, 5
"""What a call costs of the points that GitHub grants a minute."""

MOST_POINTS = 800
"""Over any 61 seconds, counted by the second. GitHub grants 900 a minute."""

MOST_IN_FLIGHT = 80
"""Requests at once, of GitHub's 100, over all processes."""


class Purpose(StrEnum):
    """What a call is for. When the budget is short, the later ones wait first."""

    ACT = "act"
    SWEEP = "sweep"
    REPORT = "report"


@dataclass(frozen=True, slots=True)
class BudgetLimits:
    """The `[budget]` table: the share of an installation's hourly limit that sweeps pace themselves towards."""

    share: float = 0.5


@dataclass(frozen=True, slots=True)
class Allowance:
    """What GitHub last said of an installation's hourly limit.

    Attributes:
        limit: calls an hour.
        used: calls spent since the last reset.
        resets_in: seconds until the next reset; 0 when unknown or past.
        held_for: seconds for which GitHub told us to stay away; 0 when it did not.
    """

    limit: int = 5000
    used: int = 0
    resets_in: float = 0.0
    held_for: float = 0.0


def ceiling(purpose: Purpose, limits: BudgetLimits) -> float:
    """The share of the hourly limit up to which calls of this purpose may go."""
    match purpose:
        case Purpose.ACT:
            return max(ACTING_SHARE, limits.share)
        case Purpose.SWEEP:
            return limits.share
        case Purpose.REPORT:
            return limits.share * REPORTING_SHARE


def left(allowance: Allowance, limits: BudgetLimits) -> int:
    """Calls that sweeps may still spend until the reset."""
    return max(0, int(allowance.limit * limits.share) - allowance.used)


def next_sweep_in(interval: float, cost: int, allowance: Allowance, limits: BudgetLimits) -> float:
    """Seconds from the beginning of one sweep to the next.

    Args:
        interval: the configured one, in seconds; never less than this.
        cost: what the last sweep cost, in billable calls.
        allowance: what is left until the reset.
        limits: the share to keep under.

    Returns:
        The interval, stretched so that sweeps of this cost last until the reset; the time until the reset when
        not even one more fits; and never within the time for which GitHub told us to stay away.
    """
    interval = max(interval, allowance.held_for)
    if cost <= 0 or allowance.resets_in <= 0:
        return interval
    affordable = left(allowance, limits) // cost
    if affordable <= 0:
        return max(interval, allowance.resets_in)
    return max(interval, allowance.resets_in / affordable)
