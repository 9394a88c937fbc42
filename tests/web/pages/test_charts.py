"""Charts as pure functions of stored steps, and the history page over HTTP."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest

from ghapp.health.history import (
    CAUSES,
    HOUR_SECONDS,
    STEP_SECONDS,
    WHOLE_ORG,
    HistorySample,
    at_least,
    sampled,
    step_of,
)
from ghapp.store.history import HistoryStore
from ghapp.web.pages.views.charts import (
    SPARK_BOTTOM,
    SPARK_TOP,
    SPARK_WIDTH,
    ChartKind,
    ChartSeries,
    ChartView,
    sparkline,
)
from ghapp.web.pages.views.history import (
    CAUSE_COLOURS,
    MOST_LINES,
    SPANS,
    deaths_chart,
    history_page,
    pool_asked,
    pool_sparkline,
    span_named,
    wait_chart,
)
from tests.web.conftest import NOW

DAY, WEEK, MONTH = SPANS
COUNTS = {"lost": 2, "healed": 1, "heal_seconds": 90, "jobs": 4, "waited_seconds": 100, "calls": 7, "death:crash": 1}


def step(at=NOW, counts=COUNTS, **gauges):
    return at_least(sampled({"healthy": 3, **gauges}, at), counts)


def page(stored, pool="", span=DAY, now=NOW + 60):
    return history_page(stored, pool, ["linux"], span, now)


def chart(of, name):
    return next(each for each in of.charts if each.id == name)


@pytest.mark.parametrize(
    ("span", "begin"),
    [
        (DAY, step_of(NOW, 900) - 95 * 900),
        (WEEK, step_of(NOW, HOUR_SECONDS) - 167 * HOUR_SECONDS),
        (MONTH, step_of(NOW, 4 * HOUR_SECONDS) - 179 * 4 * HOUR_SECONDS),
    ],
    ids=["day", "week", "month"],
)
def test_a_span_ends_with_the_current_step(span, begin):
    assert (span.begin(NOW), span.end(NOW)) == (begin, begin + span.steps * span.width)
    assert span.begin(NOW) < NOW < span.end(NOW + 1)
    assert span.width % span.stored == 0


@pytest.mark.parametrize(("name", "span"), [("day", DAY), ("week", WEEK), ("month", MONTH), ("", DAY), ("year", DAY)])
def test_an_unknown_span_is_a_day(name, span):
    assert span_named(name) is span


@pytest.mark.parametrize(("given", "pool"), [("linux", "linux"), ("", ""), ("made-up", ""), (WHOLE_ORG, "")])
def test_a_pool_without_a_history_is_all_pools(given, pool):
    assert pool_asked(given, ["linux"]) == pool


def test_each_chart_has_its_values_and_missing_steps_are_gaps():
    shown = page({step_of(NOW): step(queued=6)})
    values = {each.id: {series.name: series.values for series in each.series} for each in shown.charts}
    assert {name: {series: each[-1] for series, each in of.items()} for name, of in values.items()} == {
        "runners": {"healthy": 3, "starting": 0, "offline": 0, "suspect": 0, "lost": 0, "unknown": 0},
        "losses": {"lost": 2, "healed": 1},
        "heal-seconds": {"mean time to heal": 90},
        "queued": {"highest": 6, "mean": 6},
        "wait": {"mean wait": 25},
        "deaths": {"crash": 1},
        "calls": {"calls": 7},
    }
    assert {value for of in values.values() for each in of.values() for value in each[:-1]} == {None}


def test_a_step_without_a_loss_has_no_time_to_heal_and_is_not_a_gap():
    shown = page({step_of(NOW): step(counts={})})
    assert chart(shown, "losses").series[0].values[-1] == 0
    assert chart(shown, "heal-seconds").series == ()
    assert chart(shown, "heal-seconds").missing == "none"
    assert chart(shown, "runners").missing == "gap"


def test_steps_of_five_minutes_are_joined_to_a_quarter_of_an_hour():
    begin = step_of(NOW, 900)
    stored = {begin + at: step(begin + at, healthy=healthy) for at, healthy in ((0, 3), (300, 6), (600, 9))}
    shown = page(stored, now=begin + 899)
    assert chart(shown, "runners").series[0].values[-1] == 6
    assert chart(shown, "losses").series[0].values[-1] == 6


def test_no_chart_is_drawn_without_recorded_steps():
    assert {each.series for each in page({}).charts} == {()}


def test_api_calls_are_shown_only_for_all_pools():
    assert [each.id for each in page({}, pool="linux").charts] == [
        each.id for each in page({}).charts if each.id != "calls"
    ]


def test_links_to_other_spans_keep_the_pool():
    assert [(each.address, each.current) for each in page({}, pool="a b", span=WEEK).spans] == [
        ("?pool=a+b", False),
        ("?span=week&pool=a+b", True),
        ("?span=month&pool=a+b", False),
    ]


def view(*series, **changes):
    return ChartView("c", "C", "", ChartKind.LINES, step_of(NOW), 900, series)._replace(**changes)


def test_rows_have_the_drawn_numbers_and_the_latest_is_first():
    shown = view(ChartSeries("a", "line-1", (1, None, 2.5)), ChartSeries("b", "line-2", (1000, 0, None)))
    assert shown.rows == [
        ("Jan 15, 08:30", ("2.5", "gap")),
        ("Jan 15, 08:15", ("gap", "0")),
        ("Jan 15, 08:00", ("1", "1,000")),
    ]
    assert json.loads(shown.data)["series"][0] == {"name": "a", "colour": "line-1", "values": [1, None, 2.5]}


def test_clean_exits_are_not_among_the_deaths():
    shown = deaths_chart({step_of(NOW): step(counts={"death:clean-exit": 9, "death:crash": 1})}, DAY, NOW)
    assert [each.name for each in shown.series] == ["crash"]
    assert shown.summary == "1 death: 1 crash."


def test_a_cause_has_the_same_colour_in_every_chart():
    alone = deaths_chart({step_of(NOW): step(counts={"death:crash": 1})}, DAY, NOW)
    counts = {f"death:{each}": 1 for each in CAUSES}
    every = deaths_chart({step_of(NOW): step(counts=counts)}, DAY, NOW)
    colours = {each.name: each.colour for each in every.series}
    assert list(colours) == [each for each in CAUSES if each != "clean-exit"]
    assert len(set(colours.values())) == CAUSE_COLOURS
    assert [each.colour for each in alone.series] == [colours["crash"]]


def test_waits_are_drawn_for_the_pools_with_the_most_jobs():
    by_pool = {f"pool-{at}": {step_of(NOW): step(counts={"jobs": at, "waited_seconds": 30 * at})} for at in range(12)}
    shown = wait_chart(by_pool, DAY, NOW)
    assert [each.name for each in shown.series] == [f"pool-{at}" for at in range(11, 11 - MOST_LINES, -1)]
    assert {each.values[-1] for each in shown.series} == {30}
    assert wait_chart({"pool": {step_of(NOW): step(counts={})}}, DAY, NOW).series == ()


def test_a_sparkline_begins_at_zero_reaches_the_highest_and_is_interrupted_by_a_gap():
    line = sparkline([0, 10, None, 5, None, 10], [False, True, False, False, False, False], "words").line
    pitch = SPARK_WIDTH / 5
    middle = (SPARK_TOP + SPARK_BOTTOM) / 2
    assert line == (
        f"M0.0 {SPARK_BOTTOM}L{pitch:.1f} {SPARK_TOP}M{3 * pitch:.1f} {middle}h1M{5 * pitch:.1f} {SPARK_TOP}h1"
    )
    assert sparkline([1, 1], [False, True], "").marks == (SPARK_WIDTH,)


def test_a_sparkline_without_values_is_empty():
    assert sparkline([None, None], [], "").line == ""
    assert sparkline([0], [], "").line == f"M0.0 {SPARK_BOTTOM}h1"


def test_the_line_of_a_pool_has_its_last_24_hours_and_marks_the_hour_of_a_loss():
    hour = step_of(NOW, HOUR_SECONDS)
    stored = {hour - 23 * HOUR_SECONDS: step(counts={}), hour: step(healthy=9)}
    line = pool_sparkline({**stored, hour - 24 * HOUR_SECONDS: step(healthy=99)}, NOW)
    assert line.marks == (SPARK_WIDTH,)
    assert line.label == "Healthy runners in 24 hours, by the hour: 3 to 9; 2 lost"
    assert pool_sparkline({}, NOW).label == "No history of the last 24 hours yet"


async def record(redis, installation, at=NOW - 60, pool="linux-4vcpu"):
    counts = {(each, step_of(at)): COUNTS for each in (pool, WHOLE_ORG)}
    gauges = {pool: {"healthy": 2, "invalidated": 1}, WHOLE_ORG: {"healthy": 2, "invalidated": 1}}
    await HistoryStore(redis).record(installation, HistorySample(at, gauges, counts), at)


async def test_the_page_shows_only_summaries_and_numbers_of_its_organization(key_holder, redis, fleet):
    await record(redis, fleet["acme"])
    text = unescape((await key_holder.get("/orgs/acme/history")).text)
    assert "2 runners lost; the successors of 1 came online." in text
    assert "Latest: 2 healthy runners. At most 1 lost at once." in text
    assert "1 death: 1 crash." in text
    assert len(re.findall("data-chart=", text)) == 7
    assert "data-chart=" not in (await key_holder.get("/orgs/globex/history")).text


@pytest.mark.parametrize("query", ["?span=week", "?span=month&pool=linux-4vcpu", "?span=<b>&pool=<script>"])
async def test_each_span_and_pool_is_a_page_and_texts_from_the_address_are_not_shown(key_holder, redis, fleet, query):
    await record(redis, fleet["acme"])
    answer = await key_holder.get(f"/orgs/acme/history{query}")
    assert answer.status_code == 200
    assert "<script>" not in answer.text
    assert "&lt;b&gt;" not in answer.text


async def test_a_pool_s_name_is_escaped_in_charts_and_choices(key_holder, redis, fleet):
    await record(redis, fleet["acme"], pool="<b>\"'")
    text = (await key_holder.get("/orgs/acme/history")).text
    assert "<b>\"'" not in text
    assert "&lt;b&gt;&#34;&#39;" in text


async def test_the_overview_shows_that_a_pool_has_no_history_yet(key_holder):
    assert "No history of the last 24 hours yet" in (await key_holder.get("/orgs/acme")).text


async def test_the_overview_has_a_line_for_each_pool(key_holder, redis, fleet):
    await record(redis, fleet["acme"])
    assert "Healthy runners in 24 hours, by the hour: 2 to 2; 2 lost" in (await key_holder.get("/orgs/acme")).text


async def test_the_page_of_jobs_has_a_chart_outside_of_its_live_part(key_holder, redis, fleet):
    await record(redis, fleet["acme"])
    text = unescape((await key_holder.get("/orgs/acme/jobs")).text)
    (drawn,) = re.findall(r'data-chart="(.*?)" data-library', text)
    assert "<h2>Wait by pool</h2>" in text
    assert json.loads(drawn)["begin"] == DAY.begin(NOW)
    assert "data-chart" not in (await key_holder.get("/orgs/acme/jobs", headers={"hx-request": "true"})).text


def test_the_steps_that_are_stored_divide_those_that_are_drawn():
    assert [span.stored for span in SPANS] == [STEP_SECONDS, HOUR_SECONDS, HOUR_SECONDS]
