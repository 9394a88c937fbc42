"""The deaths of a list over time: which series there are, in which steps, and in which order."""

from __future__ import annotations

from ghapp.deaths.cause import Cause
from ghapp.deaths.patterns import DeathSummary
from ghapp.incidents.history import CAUSES
from ghapp.web.pages.views.deaths_chart import MOST_COUNTED, deaths_over_time
from ghapp.web.pages.views.history import cause_colour

STEP = 900
BEGIN = 1_790_000_100  # a multiple of STEP
SPAN = (BEGIN + 1.0, BEGIN + 2 * STEP + 1.0)


def died(at=0.0, cause=Cause.CRASH, **changes):
    return DeathSummary("vm-1", BEGIN + at, cause, "Error", **{"pool": "linux", "node": "node-1", **changes})


def series(*deaths, by):
    return {each.name: each.values for each in deaths_over_time(deaths, by, SPAN, STEP).series}


def test_each_death_is_in_the_step_that_contains_it():
    deaths = [died(0), died(STEP - 0.5), died(STEP), died(2 * STEP), died(3 * STEP)]
    chart = deaths_over_time(deaths, "node", SPAN, STEP)
    assert (chart.begin, chart.step) == (BEGIN, STEP)
    assert [(each.name, each.values) for each in chart.series] == [("node-1", (2, 1, 2))]
    assert (chart.title, chart.summary) == ("Deaths by node", "5 deaths in steps of 15 min, in UTC.")


def test_the_most_frequent_value_is_first_and_values_that_are_unknown_are_last():
    deaths = [
        died(node=""),
        died(node=""),
        died(node=""),
        died(node="b"),
        died(node="a"),
        died(node="c"),
        died(node="c"),
    ]
    assert list(series(*deaths, by="node")) == ["c", "a", "b", "node unknown"]
    assert list(series(died(pool=""), died(), by="pool")) == ["linux", "pool unknown"]


def test_rare_nodes_are_one_series_and_each_series_has_a_colour_of_its_own():
    named = [died(node=f"node-{at}") for at in range(MOST_COUNTED) for _ in range(2)]
    assert len(series(*named, by="node")) == MOST_COUNTED
    rare = [died(node="rare-1"), died(node="rare-2"), died(node="")]
    chart = deaths_over_time([*named, *rare], "node", SPAN, STEP)
    assert [(each.name, sum(each.values)) for each in chart.series[MOST_COUNTED:]] == [
        ("other nodes", 2),
        ("node unknown", 1),
    ]
    assert len({each.colour for each in chart.series}) == MOST_COUNTED + 2


def test_each_cause_is_a_series_in_its_colour_of_the_history():
    deaths = [died(cause=Cause(each)) for each in CAUSES]
    chart = deaths_over_time(deaths, "cause", SPAN, STEP)
    assert [(each.name, each.colour) for each in chart.series] == [
        (each, cause_colour(each)) for each in sorted(CAUSES)
    ]


def test_without_a_death_there_is_no_series():
    assert deaths_over_time([], "pool", SPAN, STEP).series == ()
