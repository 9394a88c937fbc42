"""What several deaths have in common: node, pool, image."""

from __future__ import annotations

import pytest

from ghapp.deaths.cause import Cause
from ghapp.deaths.death import BURST_SECONDS, WEEK_SECONDS, Correlation, Death, correlation, counted

NOW = 1_000_000.0


def death(at=NOW, **changes):
    worst = Death("vm-1", "", "node-1", at, None, None, "", Cause.VANISHED, "", pool="vm")
    return worst._replace(**changes)


@pytest.mark.parametrize(
    ("earlier", "on_node"),
    [
        ([], 1),
        ([death(NOW - WEEK_SECONDS)], 2),
        ([death(NOW - WEEK_SECONDS - 0.1)], 1),
        ([death(NOW - 1, node="node-2")], 1),
        ([death(NOW - 1, cause=Cause.CLEAN_EXIT)], 1),
        ([death(NOW)], 1),
        ([death(NOW - 1, pool="other"), death(NOW - 2)], 3),
    ],
)
def test_earlier_deaths_on_the_node_within_a_week_count(earlier, on_node):
    assert correlation(death(), earlier).on_node == on_node
    assert correlation(death(node=""), earlier).on_node == 0


@pytest.mark.parametrize(
    ("ago", "burst"),
    [
        ([], (1, NOW)),
        ([BURST_SECONDS], (2, NOW - BURST_SECONDS)),
        ([BURST_SECONDS + 0.1], (1, NOW)),
        ([10.0, 10.0 + BURST_SECONDS, 20.1 + 2 * BURST_SECONDS], (3, NOW - 10 - BURST_SECONDS)),
    ],
)
def test_deaths_of_a_pool_are_a_burst_if_each_follows_within_the_hour(ago, burst):
    others = [death(NOW - each, node="") for each in ago]
    assert correlation(death(), others) == Correlation(1, *burst)
    assert correlation(death(), [each._replace(pool="other") for each in others])[1:] == (1, NOW)
    assert correlation(death(pool=""), [each._replace(pool="") for each in others])[1:] == (1, NOW)


def test_deaths_are_counted_by_a_value_most_first_without_those_that_lack_it():
    deaths = [death(node="b"), death(node="a"), death(node="b"), death(node="")]
    assert counted(deaths, lambda each: each.node) == [("b", 2), ("a", 1)]
