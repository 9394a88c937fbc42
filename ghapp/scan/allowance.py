"""How many calls a scan may spend, and on what. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ghapp.installations.scope import ListedRepository

CALLS_A_HUNDRED_RUNNERS = 60

MOST_JOB_CALLS = 600
"""Calls for repositories and jobs, however many runners there are: a person waits for the result."""

CALLS_A_REPOSITORY = 3
"""Its queued runs, its runs in progress, and the jobs of one of them."""

FINISHED_REPOSITORIES, FINISHED_RUNS = 5, 4
"""Repositories whose newest completed runs are read with calls that are left, and how many of each.

Their jobs show what labels are asked for, and which runners were at work.
"""

GETS_A_HUNDRED_RUNNERS, MOST_GETS = 10, 200
"""Runners that the second list lacks and that GitHub is asked for again."""


def most_calls(runners: int) -> int:
    """Returns how many calls the scan of a scope with so many runners may send."""
    return CALLS_A_HUNDRED_RUNNERS * _hundreds(runners)


def most_gets(runners: int) -> int:
    """Returns for how many missing runners GitHub is asked one by one."""
    return min(MOST_GETS, GETS_A_HUNDRED_RUNNERS * _hundreds(runners))


def _hundreds(runners: int) -> int:
    return max(1, -(-runners // 100))


def repositories_to_read(known: Iterable[ListedRepository], calls_left: int) -> list[ListedRepository]:
    """Returns the repositories whose jobs are read: those that were pushed to last."""
    latest = sorted(
        (each for each in known if not each.archived), key=lambda each: (-each.pushed_at, each.name.lower())
    )
    return latest[: max(0, calls_left) // CALLS_A_REPOSITORY]


class UnfinishedRun(NamedTuple):
    """A workflow run that is queued or in progress."""

    repository: str
    id: int
    is_queued: bool


def runs_to_read(known: Sequence[UnfinishedRun], calls_left: int) -> list[UnfinishedRun]:
    """Returns the runs whose jobs are read, one call each: queued ones before others, the oldest first."""
    return sorted(known, key=lambda each: (not each.is_queued, each.id))[: max(0, calls_left)]


def finished_to_read(repositories: Sequence[ListedRepository], calls_left: int) -> list[ListedRepository]:
    """Returns the repositories whose newest completed runs are read: a call each, and one for each of the runs."""
    return [*repositories[: min(FINISHED_REPOSITORIES, max(0, calls_left) // (1 + FINISHED_RUNS))]]
