"""How many calls a scan may spend."""

from __future__ import annotations

import pytest

from ghapp.installations.scope import ListedRepository
from ghapp.scan.allowance import (
    UnfinishedRun,
    finished_to_read,
    most_calls,
    most_gets,
    repositories_to_read,
    runs_to_read,
)


@pytest.mark.parametrize(
    ("runners", "calls", "gets"), [(0, 60, 10), (1, 60, 10), (100, 60, 10), (101, 120, 20), (10_000, 6000, 200)]
)
def test_sixty_calls_a_hundred_runners(runners, calls, gets):
    assert (most_calls(runners), most_gets(runners)) == (calls, gets)


def test_the_repositories_that_were_pushed_to_last_are_read_and_no_archived_one():
    known = [
        ListedRepository("acme/old", pushed_at=1.0),
        ListedRepository("acme/new", pushed_at=9.0),
        ListedRepository("acme/archived", pushed_at=99.0, archived=True),
        ListedRepository("acme/unknown"),
    ]
    assert [each.name for each in repositories_to_read(known, 8)] == ["acme/new", "acme/old"]
    assert repositories_to_read(known, 2) == []
    assert repositories_to_read(known, -3) == []


def test_queued_runs_are_read_first_the_oldest_before_others():
    known = [UnfinishedRun("a", 3, False), UnfinishedRun("a", 9, True), UnfinishedRun("b", 2, True)]
    assert [each.id for each in runs_to_read(known, 9)] == [2, 9, 3]
    assert [each.id for each in runs_to_read(known, 1)] == [2]
    assert runs_to_read(known, -1) == []


@pytest.mark.parametrize(("left", "count"), [(-1, 0), (4, 0), (5, 1), (24, 4), (25, 5), (999, 5)])
def test_completed_runs_are_read_with_calls_that_are_left(left, count):
    known = [ListedRepository(f"acme/{each}") for each in range(9)]
    assert finished_to_read(known, left) == known[:count]
