"""Fuses follow their runners when pools are renamed, swapped, split or merged."""

from __future__ import annotations

from itertools import permutations

import pytest

from ghapp.remediation.fuse import Fuse, FuseReason, Position, fuse_of_runner
from ghapp.remediation.fuse_moves import MOST_RUNNERS, after_moves, open_pools, with_runners
from tests.rules.builders import NOW, proving

STOPPED = proving(position=Position.STOPPED, reason=FuseReason.BATCH_NEVER_ONLINE, stopped_at=NOW, runners=(1, 2))
PROVING = proving(runners=(3, 4))
HEALED = Fuse(closed_at=NOW - 900, reason=FuseReason.HEALED)
UNPROVEN = Fuse(since=NOW - 900, closed_at=NOW - 60, reason=FuseReason.UNPROVEN, runners=(5,))


def positions(fuses, pools):
    """The positions by pool; the same in whatever order the fuses are recorded."""
    found = [
        {pool: (fuse.position, fuse.runners) for pool, fuse in after_moves(dict(order), pools, NOW).items()}
        for order in permutations(fuses.items())
    ]
    assert all(each == found[0] for each in found)
    return found[0]


@pytest.mark.parametrize(
    ("fuses", "pools", "after"),
    [
        ({"a": STOPPED}, {"a": [1, 2, 9]}, {"a": (Position.STOPPED, (1, 2))}),
        ({"a": STOPPED}, {}, {"a": (Position.STOPPED, (1, 2))}),
        ({"a": STOPPED}, {"b": [1, 2]}, {"a": (Position.CLOSED, ()), "b": (Position.STOPPED, (1, 2))}),
        ({"a": STOPPED, "b": HEALED}, {"a": [9], "b": [1, 2]}, {"a": (Position.CLOSED, ()), "b": (Position.STOPPED, (1, 2))}),
        ({"a": STOPPED, "b": PROVING}, {"b": [1, 2], "a": [3, 4]}, {"a": (Position.PROVING, (3, 4)), "b": (Position.STOPPED, (1, 2))}),
        ({"a": STOPPED, "b": PROVING}, {"b": [1, 2], "c": [3, 4]}, {"a": (Position.CLOSED, ()), "b": (Position.STOPPED, (1, 2)), "c": (Position.PROVING, (3, 4))}),
        ({"a": STOPPED}, {"a": [1], "b": [2]}, {"a": (Position.STOPPED, (1,)), "b": (Position.STOPPED, (2,))}),
        ({"a": STOPPED, "b": PROVING}, {"b": [1, 2, 3, 4]}, {"a": (Position.CLOSED, ()), "b": (Position.STOPPED, (1, 2, 3, 4))}),
        ({"a": UNPROVEN, "b": HEALED}, {"b": [5]}, {"a": (Position.CLOSED, ()), "b": (Position.CLOSED, (5,))}),
        ({"*": STOPPED}, {"b": [1, 2]}, {"*": (Position.STOPPED, (1, 2))}),
        ({"#1": STOPPED}, {"b": [1, 2]}, {"#1": (Position.CLOSED, ()), "b": (Position.STOPPED, (1, 2))}),
    ],
    ids=[
        "nothing moved",
        "all runners are gone",
        "renamed",
        "into a pool with a closed fuse",
        "two names swapped",
        "names shifted by one",
        "split",
        "merged into a proving pool",
        "a closed one that may go on",
        "the installation's stays",
        "renamed, and its name sorts before that of the installation's",
    ],
)  # fmt: skip
def test_a_fuse_is_where_its_runners_are(fuses, pools, after):
    assert positions(fuses, pools) == after


@pytest.mark.parametrize(
    ("fuses", "pools", "found"),
    [
        ({"a": STOPPED, "b": HEALED}, {"a", "b"}, {"a"}),
        ({"a": PROVING, "*": STOPPED}, {"a"}, {"a", "*"}),
        ({"a": STOPPED}, {"b"}, {"a", "*"}),
        ({"*": STOPPED}, {"b"}, {"*"}),
        ({"a": HEALED}, {"b"}, set()),
    ],
    ids=["of its pool", "of all pools", "of a pool that was renamed", "of all pools alone", "closed"],
)
def test_until_a_plan_has_moved_the_fuse_of_a_renamed_pool_it_counts_for_all_pools(fuses, pools, found):
    assert open_pools(fuses, pools) == found


def test_a_closed_fuse_that_may_go_on_is_not_lost_to_one_that_healed():
    assert after_moves({"a": UNPROVEN, "b": HEALED}, {"b": [5]}, NOW)["b"].since == UNPROVEN.since


def test_the_remembered_runners_are_spread_over_all_that_were_lost():
    lost = range(10 * MOST_RUNNERS)
    runners = with_runners(proving(), list(lost)).runners
    assert len(runners) == MOST_RUNNERS
    for part in range(10):
        assert len(set(runners) & set(range(part * MOST_RUNNERS, (part + 1) * MOST_RUNNERS))) == MOST_RUNNERS // 10
    assert with_runners(proving(), [3, 1, 2]).runners == (1, 2, 3)


def test_a_request_is_held_by_the_fuse_that_counted_its_runner_before_that_fuse_has_moved():
    fuses = {"a": STOPPED, "*": PROVING}
    assert fuse_of_runner(fuses, "renamed", 1) is STOPPED
    assert fuse_of_runner(fuses, "renamed", 9) is PROVING
