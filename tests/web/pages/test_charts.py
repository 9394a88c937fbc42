"""Charts as pure functions of stored steps, and the history page over HTTP."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from html import unescape
from pathlib import Path

import pytest

from ghapp.incidents.history import (
    CAUSES,
    HOUR_SECONDS,
    STEP_SECONDS,
    HistorySample,
    at_least,
    joined,
    sampled,
    step_of,
)
from ghapp.incidents.store import HistoryStore
from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.web.pages import static_files
from ghapp.web.pages.views.charts import (
    MOST_ROWS,
    SPARK_BOTTOM,
    SPARK_TOP,
    SPARK_WIDTH,
    ChartKind,
    ChartSeries,
    ChartView,
    sparkline,
)
from ghapp.web.pages.views.history import (
    DAY,
    MOST_LINES,
    SPANS,
    deaths_chart,
    history_page,
    pool_asked,
    pool_sparkline,
    series_colour,
    span_asked,
    span_holding,
    span_named,
    wait_chart,
)
from ghapp.web.pages.views.paging import UnknownValueError
from tests.web.conftest import NOW

HOUR, _, WEEK, MONTH, QUARTER = SPANS
COUNTS = {"lost": 2, "healed": 1, "heal_seconds": 90, "jobs": 4, "waited_seconds": 140, "calls": 7, "death:crash": 1}
COUNTS |= {"heal:6": 1, "longest_heal": 90, "wait:3": 3, "wait:6": 1, "longest_wait": 95}


def step(at=NOW, counts=COUNTS, **gauges):
    return at_least(sampled({"healthy": 3, **gauges}, at), counts)


def page(stored, pool="", span=DAY, now=NOW + 60):
    return history_page(stored, pool, ["linux"], span, now)


def chart(of, name):
    return next(each for each in of.charts if each.id == name)


@pytest.mark.parametrize(
    ("span", "begin"),
    [
        (HOUR, step_of(NOW) - 11 * STEP_SECONDS),
        (DAY, step_of(NOW) - 287 * STEP_SECONDS),
        (WEEK, step_of(NOW) - 2015 * STEP_SECONDS),
        (MONTH, step_of(NOW, HOUR_SECONDS) - 719 * HOUR_SECONDS),
        (QUARTER, step_of(NOW, HOUR_SECONDS) - 2159 * HOUR_SECONDS),
    ],
    ids=["hour", "day", "week", "month", "quarter"],
)
def test_a_span_ends_with_the_current_step(span, begin):
    assert (span.begin(NOW), span.end(NOW)) == (begin, begin + span.steps * span.width)
    assert span.begin(NOW) < NOW < span.end(NOW + 1)


@pytest.mark.parametrize(
    ("name", "span"), [("hour", HOUR), ("day", DAY), ("week", WEEK), ("month", MONTH), ("", DAY), ("year", DAY)]
)
def test_an_unknown_span_is_a_day(name, span):
    assert span_named(name) is span


@pytest.mark.parametrize(
    ("begin", "end", "first", "last", "width"),
    [
        ("2027-01-14T07:02", "2027-01-14T07:08", "2027-01-14T07:00", "2027-01-14T07:10", 300),
        ("2027-01-14T07:00:00+02:00", "2027-01-14T08:00Z", "2027-01-14T05:00", "2027-01-14T08:00", 300),
        ("2027-01-08T08:00", "", "2027-01-08T08:00", "2027-01-15T08:00", 300),
        ("2027-01-08T07:00", "", "2027-01-08T07:00", "2027-01-15T08:00", 3600),
        ("2026-12-01T00:00", "2026-12-01T01:00", "2026-12-01T00:00", "2026-12-01T01:00", 3600),
        ("", "2027-01-14T08:00", "2027-01-13T08:00", "2027-01-14T08:00", 300),
        ("1970-01-01T00:00", "2999-01-01T00:00", "2026-10-17T08:00", "2027-01-15T08:00", 3600),
    ],
    ids=["minutes", "with offsets", "a week", "over a week", "long ago", "no begin", "all that is kept"],
)
def test_any_range_has_steps_as_short_as_they_are_stored(begin, end, first, last, width):
    span = span_asked("", begin, end, NOW)
    assert [_utc(at) for at in (span.begin(NOW), span.end(NOW))] == [first, last]
    assert (span.width, span.end(NOW) - span.begin(NOW)) == (width, span.width * span.steps)


def _utc(at):
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M")


def test_without_a_range_the_span_of_that_name_is_shown():
    assert span_asked("week", "", "", NOW) is WEEK


@pytest.mark.parametrize(
    ("begin", "end", "refused"),
    [
        ("yesterday", "", "from=yesterday; it takes a time in UTC such as 2026-11-20T08:00"),
        ("", "<b>", "to=<b>; it takes a time in UTC such as 2026-11-20T08:00"),
        ("2027-01-14T08:00", "2027-01-14T07:00", "from=2027-01-14T08:00: it has to be before to=2027-01-14T07:00"),
        ("2027-01-15T08:05", "", "from=2027-01-15T08:05: it has to be before now, 2027-01-15T08:00 UTC"),
        (
            "2027-01-15T08:05",
            "2027-01-16T08:05",
            "from=2027-01-15T08:05: it has to be before now, 2027-01-15T08:00 UTC",
        ),
    ],
    ids=["no time", "no end", "reversed", "from the future", "in the future"],
)
def test_what_is_no_range_is_refused(begin, end, refused):
    with pytest.raises(UnknownValueError, match=f"^{re.escape(f'This page has no {refused}.')}$"):
        span_asked("week", begin, end, NOW)


def test_an_incident_of_four_minutes_is_seen_within_the_week():
    five_days_ago = NOW - 5 * 86_400
    lost = {"lost": 12, "healed": 12}
    shown = page({step_of(five_days_ago): step(five_days_ago, lost, invalidated=12)}, span=WEEK)
    for name, series, value in (("losses", "lost", 12), ("losses", "healed", 12), ("wrong", "lost", 12)):
        (values,) = [each.values for each in chart(shown, name).series if each.name == series]
        assert [each for each in values if each is not None] == [value]


@pytest.mark.parametrize(("given", "pool"), [("linux", "linux"), ("", ""), (ALL_POOLS, "")])
def test_the_pool_of_an_address_is_one_of_those_with_a_history_or_all(given, pool):
    assert pool_asked(given, ["linux"]) == pool
    with pytest.raises(
        UnknownValueError, match=r"^This page has no pool=linxu; did you mean linux\? known are linux\.$"
    ):
        pool_asked("linxu", ["linux"])


def test_each_chart_has_its_values_and_missing_steps_are_gaps():
    shown = page({step_of(NOW): step(queued=6)})
    values = {each.id: {series.name: series.values for series in each.series} for each in shown.charts}
    assert {name: {series: each[-1] for series, each in of.items()} for name, of in values.items()} == {
        "runners": {
            "healthy": 3,
            "starting": 0,
            "lost": 0,
            "suspect": 0,
            "offline": 0,
            "unknown": 0,
        },
        "wrong": {"lost": 0, "suspect": 0, "offline": 0, "unknown": 0},
        "losses": {"lost": 2, "healed": 1},
        "heal-seconds": {"p50": 90, "p95": 90},
        "queued": {"highest": 6, "latest": 6},
        "wait": {"p50": 17, "p95": 95},
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


def test_runners_are_whole_numbers_that_were_so_at_the_end_of_the_step():
    sampled_twice = joined(step(NOW, {}, healthy=253), step(NOW + 60, {}, healthy=254))
    shown = page({step_of(NOW): sampled_twice})
    assert chart(shown, "runners").series[0].values[-1] == 254


def test_a_stack_never_exceeds_the_runners_of_one_moment_and_the_most_at_once_have_a_chart_of_their_own():
    """5 of 8 runners were suspect, then 4 lost, and healed, within a step: its last sample has none."""
    worst = joined(step(NOW, {}, healthy=3, suspect=5), step(NOW + 60, {}, healthy=2, invalidated=4, offline=2))
    shown = page({step_of(NOW): joined(worst, step(NOW + 120, {}, healthy=7, offline=1))})
    runners, wrong = chart(shown, "runners"), chart(shown, "wrong")
    assert runners.rows[0][1] == ("7", "0", "0", "0", "1", "0")
    assert runners.summary == "The numbers at the end of each step. Of the latest one: 7 healthy, 1 offline."
    assert wrong.rows[0][1] == ("4", "5", "2", "0")
    assert wrong.summary == (
        "The most at once within each step. In this time: 4 lost, 5 suspect, 2 offline, 0 unknown."
    )
    assert [each.name for each in runners.series][-len(wrong.series) :] == [each.name for each in wrong.series]


def test_time_without_a_complete_list_and_pauses_of_remediation_are_marked_within_their_steps():
    marked = {step_of(NOW): {"blind_seconds": 65, "paused_seconds": 30}, step_of(NOW) - 300: {"paused_seconds": 300}}
    shown = page({at: step(counts=counts) for at, counts in marked.items()}, span=HOUR)
    for name in ("runners", "wrong", "losses"):
        each = chart(shown, name)
        assert [(strip.name, strip.total) for strip in each.strips] == [
            ("no complete list", "1 min 5 s"),
            ("remediation paused", "5 min 30 s"),
        ]
        drawn = [{"colour": "blind", "steps": [11]}, {"colour": "paused", "steps": [10, 11]}]
        assert json.loads(each.data)["strips"] == drawn
        assert [values[-2:] for _, values in each.rows[:3]] == [("1 min 5 s", "30 s"), ("", "5 min"), ("", "")]
        assert {len(values) for _, values in each.rows} == {len(each.series) + 2}


@pytest.mark.parametrize(
    ("pool", "words"),
    [("", "Remediation of at least one pool was paused"), ("linux", "Remediation was paused")],
    ids=["all pools", "one pool"],
)
def test_a_time_to_heal_has_how_long_remediation_was_paused(pool, words):
    shown = chart(page({step_of(NOW): step(counts={**COUNTS, "paused_seconds": 240})}, pool), "heal-seconds")
    assert shown.summary.endswith(f" {words} for 4 min of this time: losses waited for its end.")
    assert [strip.name for strip in shown.strips] == ["remediation paused"]
    assert "paused" not in chart(page({step_of(NOW): step()}), "heal-seconds").summary


def test_a_record_without_such_time_has_no_column_for_it():
    shown = chart(page({step_of(NOW): step(counts={})}), "runners")
    assert json.loads(shown.data)["strips"] == []
    assert len(shown.rows[0][1]) == len(shown.series)


def test_percentiles_of_a_span_are_those_of_all_its_waits_and_heals():
    shown = page({step_of(NOW) - 600: step(NOW - 600), step_of(NOW): step(NOW)})
    assert (
        chart(shown, "wait").summary
        == "From a job's creation to a runner that takes it: p50 about 17 s, p95 about 1 min 35 s."
    )
    assert chart(shown, "heal-seconds").summary.startswith(
        "From the loss of a runner to its successor online: p50 about "
    )


def test_no_chart_is_drawn_without_recorded_steps():
    assert {each.series for each in page({}).charts} == {()}


def test_api_calls_are_shown_only_for_all_pools():
    assert [each.id for each in page({}, pool="linux").charts] == [
        each.id for each in page({}).charts if each.id != "calls"
    ]


def test_links_to_other_spans_keep_the_pool():
    assert [(each.address, each.current) for each in page({}, pool="a b", span=WEEK).spans] == [
        ("?span=hour&pool=a+b", False),
        ("?span=day&pool=a+b", False),
        ("?span=week&pool=a+b", True),
        ("?span=month&pool=a+b", False),
        ("?span=quarter&pool=a+b", False),
    ]


def view(*series, **changes):
    return ChartView("c", "C", "", ChartKind.LINES, step_of(NOW), 900, series)._replace(**changes)


def test_a_long_table_has_the_latest_rows():
    shown = view(ChartSeries("a", "line-1", tuple(range(MOST_ROWS + 1))))
    assert (len(shown.rows), shown.rows[0][1], shown.rows[-1][1]) == (MOST_ROWS, (f"{MOST_ROWS}",), ("1",))


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


def test_deaths_have_one_order_in_words_and_series():
    counts = {"death:crash": 1, "death:vanished": 2, "death:host-oom": 1}
    shown = deaths_chart({step_of(NOW): step(counts=counts)}, DAY, NOW)
    assert shown.summary == "4 deaths: 2 vanished, 1 host-oom, 1 crash."
    assert [each.name for each in shown.series] == ["vanished", "host-oom", "crash"]


def test_a_cause_has_the_same_colour_in_every_chart():
    alone = deaths_chart({step_of(NOW): step(counts={"death:crash": 1})}, DAY, NOW)
    counts = {f"death:{each}": 1 for each in CAUSES}
    every = deaths_chart({step_of(NOW): step(counts=counts)}, DAY, NOW)
    colours = {each.name: each.colour for each in every.series}
    assert list(colours) == [each for each in CAUSES if each != "clean-exit"]
    assert len(set(colours.values())) == len(colours)
    style = Path(static_files.__file__).with_name("static").joinpath("style.css").read_text()
    for colour in {each.colour for each in every.series} | {series_colour(at) for at in range(9)}:
        assert style.count(f"--chart-{colour}:") == 2, f"{colour}, light and dark"
    assert "--chart-cause-host-oom: #b3261e" in style, "memory is red"
    assert [each.colour for each in alone.series] == [colours["crash"]]


def test_waits_are_drawn_for_the_pools_with_the_most_jobs():
    by_pool = {
        f"pool-{at}": {
            step_of(NOW): step(counts={"jobs": 2 * at, "waited_seconds": 90 * at, "wait:5": 2 * at, "longest_wait": 56})
        }
        for at in range(12)
    }
    shown = wait_chart(by_pool, DAY, NOW)
    assert [each.name for each in shown.series] == [f"pool-{at}" for at in range(11, 11 - MOST_LINES, -1)]
    assert {each.values[-1] for each in shown.series} == {43}
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


@pytest.mark.parametrize(
    ("first", "span"),
    [
        (NOW - 60, HOUR),
        (HOUR.begin(NOW), HOUR),
        (HOUR.begin(NOW) - STEP_SECONDS, DAY),
        (DAY.begin(NOW), DAY),
        (None, DAY),
    ],
    ids=["a minute", "an hour", "more than an hour", "a day", "no record"],
)
def test_without_a_range_the_shortest_span_that_holds_the_record_is_shown(first, span):
    stored = {} if first is None else {step_of(first): step(first), step_of(NOW): step(NOW)}
    assert span_holding(stored, NOW) is span


@pytest.mark.parametrize(
    ("query", "steps"), [("", 12), ("?pool=linux-4vcpu", 12), ("?span=day", 288), ("?from=2027-01-15T07:30", 6)]
)
async def test_the_page_opens_on_the_record_unless_a_range_is_asked_for(key_holder, redis, fleet, query, steps):
    await record(redis, fleet["acme"])
    (first, *_) = re.findall(r'data-chart="(.*?)" data-library', await page_text(key_holder, query))
    assert len(json.loads(first)["series"][0]["values"]) == steps


async def page_text(client, query):
    return unescape((await client.get(f"/orgs/acme/history{query}")).text)


async def record(redis, installation, at=NOW - 60, pool="linux-4vcpu"):
    counts = {(each, step_of(at)): COUNTS for each in (pool, ALL_POOLS)}
    gauges = {pool: {"healthy": 2, "invalidated": 1}, ALL_POOLS: {"healthy": 2, "invalidated": 1}}
    await HistoryStore(redis).record(installation, HistorySample(at, gauges, counts), at)


async def test_the_page_shows_only_summaries_and_numbers_of_its_organization(key_holder, redis, fleet):
    await record(redis, fleet["acme"])
    text = unescape((await key_holder.get("/orgs/acme/history")).text)
    assert "2 runners lost; the successors of 1 came online." in text
    assert "Of the latest one: 2 healthy, 1 lost." in text
    assert "1 death: 1 crash." in text
    assert len(re.findall("data-chart=", text)) == 8
    assert "data-chart=" not in (await key_holder.get("/orgs/globex/history")).text


@pytest.mark.parametrize("query", ["?span=week", "?span=month&pool=linux-4vcpu"])
async def test_each_span_and_pool_is_a_page(key_holder, redis, fleet, query):
    await record(redis, fleet["acme"])
    assert (await key_holder.get(f"/orgs/acme/history{query}")).status_code == 200


@pytest.mark.parametrize("name", ["span", "pool", "from", "to"])
async def test_an_unknown_value_is_escaped_where_it_is_refused(key_holder, fleet, name):
    answer = await key_holder.get(f"/orgs/acme/history?{name}=<b>x")
    assert answer.status_code == 400
    assert "<b>x" not in answer.text


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
    assert "<h2>Median wait by pool</h2>" in text
    assert json.loads(drawn)["begin"] == DAY.begin(NOW)
    assert "data-chart" not in (await key_holder.get("/orgs/acme/jobs", headers={"hx-request": "true"})).text


async def test_a_range_is_in_the_address_and_in_two_inputs(key_holder, redis, fleet):
    await record(redis, fleet["acme"])
    page = await key_holder.get("/orgs/acme/history?from=2027-01-15T07:00&to=2027-01-15T08:00&pool=linux-4vcpu")
    for name, value in (("from", "2027-01-15T07:00"), ("to", "2027-01-15T08:00")):
        assert f'id="{name}" name="{name}" type="datetime-local" value="{value}"' in page.text
    assert '<input type="hidden" name="pool" value="linux-4vcpu">' in page.text
    (first, *_) = re.findall(r'data-chart="(.*?)" data-library', unescape(page.text))
    assert len(json.loads(first)["series"][0]["values"]) == 12
