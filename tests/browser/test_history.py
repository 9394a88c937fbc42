"""The history in a real browser: charts of each span, gaps, without JavaScript, narrow, dark; and a live page in time."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time

import pytest
from playwright.sync_api import expect

from ghapp.incidents.history import HOUR_SECONDS, STEP_SECONDS, HistorySample, step_of
from ghapp.incidents.store import HistoryStore
from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.remediation.pause import Pause
from ghapp.remediation.store import Fuses
from ghapp.store.connect import connect
from ghapp.web.pages.views.charts import MOST_ROWS
from tests.browser.axe import violations
from tests.browser.site import site
from tests.browser.test_pages import open_page  # noqa: F401 - a fixture
from tests.support.local_redis import embedded_redis
from tests.support.waiting import wait_for

POOL = "linux-4vcpu"
DAY = 86_400
SPANS = {"hour": 12, "day": 288, "week": 2016, "month": 720}
NARROW = 360
LIVE_MILLISECONDS = 2_000
"""The promise: an event is on an open page within two seconds."""


def in_a_thread(work):
    """Runs a coroutine while Playwright's event loop owns this thread."""
    failures = []

    def run():
        try:
            asyncio.run(work)
        except BaseException as error:  # noqa: BLE001 - raised below
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


async def fill(url, installation):
    """A month by hours and a day by five minutes, but for an hour yesterday that no sweep covers."""
    redis, now = connect(url), time.time()
    history, gap = HistoryStore(redis), step_of(now - DAY / 2, HOUR_SECONDS)
    hours = [now - 30 * DAY + hour * HOUR_SECONDS for hour in range(29 * 24)]
    for at in [*hours, *(now - DAY + step * STEP_SECONDS for step in range(DAY // STEP_SECONDS))]:
        if not gap <= at < gap + HOUR_SECONDS:
            lost = int(at // STEP_SECONDS) % 50 == 0
            gauges = {"healthy": 12 - lost, "busy": 5, "queued": int(at // HOUR_SECONDS) % 7, "invalidated": int(lost)}
            counts = {
                "lost": int(lost),
                "healed": int(lost),
                "heal_seconds": 90 * lost,
                "jobs": 3,
                "waited_seconds": 45,
                "heal:6": int(lost),
                "wait:3": 3,
            }
            counts |= {"death:host-oom": int(lost), "death:clean-exit": 2, "calls": 4}
            pools = (POOL, ALL_POOLS)
            seen = HistorySample(at, dict.fromkeys(pools, gauges), {(pool, step_of(at)): counts for pool in pools})
            await history.record(installation, seen, at)
    await redis.aclose()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory, chromium):
    folder = tmp_path_factory.mktemp("history")
    with embedded_redis(folder / "redis", durable=False) as url, site(folder, GHAPP_REDIS_URL=url) as shown:
        shown.redis_url, shown.installation = url, shown.github.installation_id("acme")
        in_a_thread(fill(url, shown.installation))
        yield shown


def charts(page):
    """Waits until all charts are drawn; what they were drawn from, by their id."""
    page.locator("[data-chart] canvas").first.wait_for()
    page.locator("[data-chart]:not(:has(canvas))").first.wait_for(state="detached")
    found = page.evaluate(
        "[...document.querySelectorAll('.chart:has([data-chart])')].map(each => [each.id, each.querySelector('[data-chart]').dataset.chart])"
    )
    return {name: json.loads(data) for name, data in found}


@pytest.mark.xdist_group("browser-history")
@pytest.mark.parametrize(("span", "width"), [("day", NARROW), *((span, 1280) for span in SPANS)])
def test_each_span_is_drawn_and_a_day_without_a_flaw_that_axe_finds(open_page, fleet, span, width):  # noqa: F811
    page = open_page(viewport={"width": width, "height": 900}, bypass_csp=True)
    page.goto(f"{fleet.base}/orgs/acme/history?span={span}")
    drawn = charts(page)
    rare = ["chart-heal-seconds", "chart-deaths"] if span == "hour" else []  # an hour may have no loss
    names = ("runners", "wrong", "losses", "heal-seconds", "queued", "wait", "deaths", "calls")
    assert [each for each in drawn if each not in rare] == [
        f"chart-{each}" for each in names if f"chart-{each}" not in rare
    ]
    assert {len(each["values"]) for chart in drawn.values() for each in chart["series"]} == {SPANS[span]}
    if width == NARROW:  # the others have the same elements, in tables that take axe much longer
        assert violations(page) == []


@pytest.mark.xdist_group("browser-history")
def test_charts_are_drawn_under_the_policy_of_the_page_and_again_when_the_colours_change(open_page, fleet):  # noqa: F811
    page = open_page(color_scheme="light")
    page.goto(f"{fleet.base}/orgs/acme")
    page.get_by_role("link", name="History", exact=True).click()
    drawn = charts(page)
    marker = "getComputedStyle(document.querySelectorAll('#chart-runners .u-marker')[1]).backgroundColor"
    before = page.evaluate(marker)
    page.emulate_media(color_scheme="dark")
    assert wait_for(lambda: page.evaluate(marker) != before, 5)
    assert charts(page) == drawn


SWAP = """() => {
  const place = document.querySelector("[data-chart]");
  const copy = place.cloneNode(false);
  copy.hidden = true;
  place.replaceWith(copy);
  document.dispatchEvent(new Event("htmx:afterSwap"));
}"""


@pytest.mark.xdist_group("browser-history")
def test_a_chart_that_a_live_page_replaced_is_drawn_again_and_the_others_stay(open_page, fleet):  # noqa: F811
    page = open_page()
    page.goto(f"{fleet.base}/orgs/acme/history")
    drawn = charts(page)
    page.evaluate("document.querySelector('#chart-calls canvas').kept = true")
    page.evaluate(SWAP)
    assert charts(page) == drawn
    assert page.locator("#chart-runners .uplot").count() == 1
    assert page.evaluate("document.querySelector('#chart-calls canvas').kept") is True


LONE_STEP = """([chart, at, values, marked]) => {
  const place = document.querySelector(`${chart} [data-chart]`);
  const given = JSON.parse(place.dataset.chart);
  given.series.forEach((each, number) => each.values = each.values.map((_, step) => step === at ? values[number] ?? 0 : null));
  given.strips = marked.map((colour) => ({ colour, steps: [at] }));
  const copy = place.cloneNode(false);
  copy.hidden = true;
  copy.dataset.chart = JSON.stringify(given);
  place.replaceWith(copy);
  document.dispatchEvent(new Event("htmx:afterSwap"));
}"""
PAINTED = """([chart, colour]) => {
  const canvas = document.querySelector(`${chart} canvas`);
  const copy = Object.assign(document.createElement("canvas"), { width: canvas.width, height: canvas.height });
  const drawn = copy.getContext("2d", { willReadFrequently: true });
  drawn.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(colour);
  drawn.fillRect(0, 0, 1, 1);
  const [red, green, blue] = drawn.getImageData(0, 0, 1, 1).data;
  drawn.drawImage(canvas, 0, 0);
  const all = drawn.getImageData(0, 0, canvas.width, canvas.height).data;
  let found = 0;
  for (let at = 0; at < all.length; at += 4) found += all[at] === red && all[at + 1] === green && all[at + 2] === blue;
  return found;
}"""


@pytest.mark.xdist_group("browser-history")
@pytest.mark.parametrize(
    ("chart", "span", "at", "values", "colours"),
    [
        ("#chart-runners", "hour", 5, [12], ["healthy"]),
        ("#chart-runners", "hour", SPANS["hour"] - 1, [12], ["healthy"]),
        ("#chart-wrong", "day", 5, [7, 7, 0, 7], ["invalidated", "suspect", "unknown"]),
        ("#chart-wrong", "day", SPANS["day"] - 1, [1, 7], ["invalidated", "suspect"]),
        ("#chart-wait", "hour", 5, [5, 90], ["line-1", "line-2"]),
        ("#chart-wait", "day", 5, [5, 90], ["line-1", "line-2"]),
        ("#chart-wait", "day", SPANS["day"] - 1, [90, 90], ["line-2"]),
    ],
)
def test_a_step_between_gaps_is_seen(open_page, fleet, chart, span, at, values, colours):  # noqa: F811
    page = open_page()
    page.goto(f"{fleet.base}/orgs/acme/history?span={span}")
    charts(page)
    page.evaluate(LONE_STEP, [chart, at, values, []])
    charts(page)
    for colour in colours:
        assert wait_for(lambda colour=colour: page.evaluate(PAINTED, [chart, f"--chart-{colour}"]) > 5, 5), colour
    assert page.evaluate(PAINTED, [chart, "--chart-blind"]) <= 1, "the swatch itself"


@pytest.mark.xdist_group("browser-history")
def test_a_step_without_a_complete_list_or_with_remediation_paused_is_marked(open_page, fleet):  # noqa: F811
    page = open_page()
    page.goto(f"{fleet.base}/orgs/acme/history?span=hour")
    charts(page)
    page.evaluate(LONE_STEP, ["#chart-runners", 4, [12], ["blind", "paused"]])
    charts(page)
    for colour in ("blind", "paused"):
        assert wait_for(lambda colour=colour: page.evaluate(PAINTED, ["#chart-runners", f"--chart-{colour}"]) > 100, 5)


@pytest.mark.xdist_group("browser-history")
def test_the_legend_names_the_step_that_it_shows(open_page, fleet):  # noqa: F811
    page = open_page()
    page.goto(f"{fleet.base}/orgs/acme/history?span=hour")
    charts(page)
    shown = page.locator("#chart-runners .u-legend tr").first
    expect(shown).to_have_text(re.compile(r"^Step from\d{4}-\d\d-\d\d \d\d:\d\d UTC \(the latest\)$"))
    page.locator("#chart-runners .u-over").hover(position={"x": 5, "y": 5})
    expect(shown).to_have_text(re.compile(r" UTC$"))


@pytest.mark.xdist_group("browser-history")
def test_a_gap_is_drawn_as_a_gap_and_named_in_the_numbers(open_page, fleet):  # noqa: F811
    page = open_page()
    page.goto(f"{fleet.base}/orgs/acme/history")
    values = charts(page)["chart-runners"]["series"][0]["values"]
    assert values.count(None) in (12, 13), "an hour, and perhaps the first step"
    page.locator("#chart-runners summary").click()
    rows = page.locator("#chart-runners tbody tr").filter(has_text="gap")
    assert rows.count() == values.count(None)


@pytest.mark.xdist_group("browser-history")
def test_a_pool_is_chosen_and_has_no_calls(open_page, fleet):  # noqa: F811
    page = open_page()
    page.goto(f"{fleet.base}/orgs/acme/history?span=week")
    page.get_by_label("Pool", exact=True).select_option(POOL)
    page.get_by_role("button", name="Show", exact=True).click()
    assert "chart-calls" not in charts(page)
    assert "span=week" in page.url
    page.get_by_role("link", name="30 days").click()
    assert page.get_by_label("Pool", exact=True).input_value() == POOL
    assert page.locator(".segments [aria-current]").inner_text() == "30 days"


@pytest.mark.xdist_group("browser-history")
def test_a_range_is_entered_and_stays_when_a_pool_is_chosen(open_page, fleet):  # noqa: F811
    page = open_page()
    page.goto(f"{fleet.base}/orgs/acme/history")
    page.get_by_label("From, UTC").fill("2020-01-01T00:00")
    page.get_by_role("button", name="Show this range").click()
    assert len(charts(page)["chart-runners"]["series"][0]["values"]) > 2_000, "90 days by hours"
    page.get_by_label("Pool", exact=True).select_option(POOL)
    page.get_by_role("button", name="Show", exact=True).click()
    assert "chart-calls" not in charts(page)
    assert page.locator(".segments [aria-current]").count() == 0


@pytest.mark.xdist_group("browser-history")
def test_without_javascript_the_same_numbers_are_in_tables_and_no_empty_place_is_left(open_page, fleet):  # noqa: F811
    page = open_page(java_script_enabled=False)
    page.goto(f"{fleet.base}/orgs/acme/history?span=week")
    assert page.locator("[data-chart]").first.is_hidden()
    data = json.loads(page.locator("#chart-runners [data-chart]").get_attribute("data-chart"))
    page.locator("#chart-runners summary").click()
    table = page.locator("#chart-runners table")
    expect(table).to_be_visible()
    rows = [row.split("\t") for row in table.locator("tbody").inner_text().strip().split("\n")]
    shown = [row[1] for row in rows][::-1]
    values = data["series"][0]["values"][-MOST_ROWS:]
    assert shown == ["gap" if value is None else f"{value:g}" for value in values]
    assert f"the latest {MOST_ROWS} steps" in page.locator("#chart-runners summary").inner_text()


@pytest.mark.xdist_group("browser-history")
def test_the_overview_has_a_line_of_the_last_day_for_each_pool(open_page, fleet):  # noqa: F811
    page = open_page(java_script_enabled=False)  # a live page may replace the line while it is measured
    page.goto(f"{fleet.base}/orgs/acme")
    line = page.get_by_role("img", name="Healthy runners in 24 hours")
    assert line.bounding_box()["width"] > 50
    assert line.locator("path:not(.axis)").bounding_box()["width"] > 50
    assert line.locator("rect").count() > 0


@pytest.mark.xdist_group("browser-history")
def test_an_open_page_shows_an_event_within_two_seconds_of_its_record(open_page, fleet):  # noqa: F811
    page = open_page()
    page.goto(f"{fleet.base}/orgs/acme")
    for number in range(5):
        page.wait_for_timeout(137 * number)  # events come at any time between two polls

        async def pause(why):
            redis = connect(fleet.redis_url)
            await Fuses(redis).unpause(fleet.installation, POOL)
            await Fuses(redis).pause(fleet.installation, POOL, Pause("mona", why, time.time()))
            await redis.aclose()

        in_a_thread(pause(f"reason {number}"))
        page.get_by_text(f"reason {number}").first.wait_for(timeout=LIVE_MILLISECONDS)


@pytest.mark.xdist_group("browser-history")
def test_the_banner_of_a_button_shows_the_outcome_when_the_work_has_ended(open_page, fleet):  # noqa: F811
    page = open_page()
    page.goto(f"{fleet.base}/orgs/acme/sweep")
    page.get_by_role("button", name="Sweep now").click()
    banner = page.locator("#outcome")
    outcome = re.compile(r"(Sweep, [0-9:]+ UTC: )(already running: )?found (no suspect|\d+ suspects?), \d+ calls?\.")
    expect(banner).to_have_text(outcome, timeout=30_000)
    match = outcome.match(banner.inner_text())
    found = match[0].removeprefix(match[1]).removesuffix(".")
    expect(page).to_have_url(f"{fleet.base}/orgs/acme"), "neither a reload nor a link repeats it"
    page.reload()
    expect(page.locator(".notice")).to_have_count(0)
    expect(page.get_by_role("cell", name=found).first).to_be_visible()
