"""The history over HTTP: spans and steps, gaps, bad input, and its ETag."""

from __future__ import annotations

import pytest

from ghapp.incidents.documents import MOST_STEPS, HistorySpan, span_of
from ghapp.incidents.history import HistorySample, step_of
from ghapp.incidents.store import HistoryStore
from ghapp.installations.pool_matching import ALL_POOLS
from tests.web.conftest import INSTALLATION, NOW

PATH = "/v1/orgs/acme/history"
STEP = step_of(NOW)
DAY, HOUR = 86_400, 3600


async def record(redis, at=NOW, pool="linux", counts=None, **gauges):
    seen = {"healthy": 3, "busy": 1, **gauges}
    places = {(each, step_of(at)): counts or {} for each in (pool, ALL_POOLS)}
    await HistoryStore(redis).record(INSTALLATION, HistorySample(at, {pool: seen, ALL_POOLS: seen}, places), at)


COUNTS = {"lost": 2, "healed": 1, "heal_seconds": 90, "jobs": 4, "waited_seconds": 140, "death:crash": 1, "calls": 7}
COUNTS |= {"blind_seconds": 61, "paused_seconds": 62}


async def test_a_day_in_steps_of_five_minutes_is_the_default(http, redis):
    await record(redis, NOW, counts=COUNTS)
    document = (await http.get(PATH)).json()
    assert (document["org"], document["pool"], document["pools"], document["step"]) == ("acme", None, ["linux"], 300)
    assert (document["begin"], document["end"]) == ("2027-01-14T08:00:00Z", "2027-01-15T08:00:00Z")
    assert {len(document[name]) for name in ("samples", "lost", "jobs", "calls")} == {288}


async def test_a_step_has_its_gauges_and_counts_and_a_gap_is_null(http, redis):
    await record(
        redis,
        NOW - 900,
        counts=COUNTS | {"wait:3": 3, "wait:6": 1, "longest_wait": 95, "heal:6": 1, "longest_heal": 90},
    )
    await record(redis, NOW - 840, healthy=6)
    document = (await http.get(PATH, params={"from": "2027-01-15T07:40:00Z"})).json()
    assert document["samples"] == [0, 2, 0, 0]
    assert document["runners"]["healthy"] == {
        "last": [None, 6, None, None],
        "mean": [None, 4.5, None, None],
        "peak": [None, 6, None, None],
    }
    assert set(document["runners"]) == {"healthy", "starting", "offline", "suspect", "invalidated", "unknown"}
    assert document["runners"]["offline"]["last"] == [None, 0, None, None]
    assert document["busy"]["last"] == [None, 1, None, None]
    shown = {name: document[name][1] for name in COUNTS if ":" not in name}
    assert shown == {name: COUNTS[name] for name in shown}
    assert document["lost"] == [None, 2, None, None]
    spreads = [document[name] for name in ("wait_p50", "wait_p95", "heal_p50", "heal_p95")]
    assert spreads == [[None, each, None, None] for each in (17, 95, 90, 90)]
    assert document["deaths"] == {"crash": [None, 1, None, None]}


async def test_api_calls_are_counted_for_the_organization_and_not_for_a_pool(http, redis):
    await record(redis)
    assert (await http.get(PATH, params={"pool": "linux"})).json()["calls"] is None


async def test_a_pool_without_a_history_is_404(http, redis):
    await record(redis)
    answer = await http.get(PATH, params={"pool": "made-up"})
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
    assert "linux" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ({"from": "yesterday"}, "from"),
        ({"to": "2027-01-15T08:00:00"}, "to"),
        ({"to": ""}, "to"),
        ({"from": "1790000000"}, "from"),
        ({"step": "60"}, "step"),
        ({"step": "3600.0"}, "step"),
        ({"step": "-300"}, "step"),
    ],
)
async def test_bad_input_is_a_problem_that_names_the_parameter(http, query, named):
    answer = await http.get(PATH, params=query)
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
    assert answer.json()["detail"].startswith(f"{named} takes")


async def test_an_organization_without_the_app_is_404_and_an_organization_of_another_token_is_403(http):
    assert (await http.get("/v1/orgs/other/history")).status_code == 403
    del http.headers["authorization"]
    assert (await http.get(PATH)).status_code == 401


async def test_the_history_is_304_until_a_step_is_recorded(http, redis):
    await record(redis, NOW - 60)
    first = await http.get(PATH)
    again = await http.get(PATH, headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    await record(redis, NOW - 30)
    assert (await http.get(PATH, headers={"if-none-match": first.headers["etag"]})).status_code == 200


@pytest.mark.parametrize(
    ("begin", "end", "step", "span"),
    [
        (None, None, None, (STEP - DAY, STEP, 300)),
        (NOW - 7 * DAY, None, None, (STEP - 7 * DAY, STEP, 300)),
        (NOW - 7 * DAY - 1, None, None, (STEP - 7 * DAY - HOUR, STEP, HOUR)),
        (NOW - 8 * DAY, NOW - 7 * DAY, None, (STEP - 8 * DAY, STEP - 7 * DAY, HOUR)),
        (NOW - 1, None, None, (STEP - 300, STEP, 300)),
        (NOW - 30 * DAY, NOW - 30 * DAY + 60, None, (STEP - 30 * DAY, STEP - 30 * DAY + HOUR, HOUR)),
        (NOW - 30 * DAY, NOW, 300, (STEP - 7 * DAY, STEP, 300)),
        (0.0, None, HOUR, (STEP - 90 * DAY, STEP, HOUR)),
        (NOW, NOW - 600, 300, (STEP - 600, STEP - 600, 300)),
        (NOW + DAY, NOW + 2 * DAY, 300, (STEP, STEP, 300)),
        (-6e10, 3e11, None, (STEP - 90 * DAY, STEP, HOUR)),
    ],
)
def test_a_span_is_limited_to_the_retention(begin, end, step, span):
    assert NOW % HOUR == 0
    assert span_of(begin, end, step, NOW) == span


def test_an_answer_has_a_bounded_number_of_steps():
    for step in (300, HOUR):
        assert len(span_of(0.0, None, step, NOW + 1).steps) <= MOST_STEPS


def test_an_empty_span_has_no_steps():
    assert list(HistorySpan(STEP, STEP, 300).steps) == []
