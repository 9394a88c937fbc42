"""The history of an organization or of one pool as charts. Pure; times are epoch seconds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import urlencode

from ghapp.deaths.cause import Cause
from ghapp.incidents.documents import HIGH, MEDIAN, count_column, death_columns, heal_column, span_of, wait_column
from ghapp.incidents.history import CAUSES, HOUR_SECONDS, STEP_SECONDS, HistoryStep, TimeSpread, all_times, step_of
from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.runners.verdict import State
from ghapp.web.pages.views.charts import ChartKind, ChartSeries, ChartStrip, ChartView, Sparkline, Value, sparkline
from ghapp.web.pages.views.paging import LONGEST_FILTER, UnknownValueError, choice_of
from ghapp.web.pages.views.wording import page_duration
from ghapp.wording import counted, duration

WRONG_STATES = (State.INVALIDATED, State.SUSPECT, State.OFFLINE, State.UNKNOWN)
"""Of these a chart has the highest number of each step: a loss of seconds is not seen in the latest sample.

They are no part of the stack: a runner that was suspect, then lost, then healthy would be drawn three times.
"""

STATES_SHOWN = (State.HEALTHY, State.STARTING, *WRONG_STATES)
"""From the lowest area to the highest."""

STRIPS = {"blind_seconds": "no complete list", "paused_seconds": "remediation paused"}
"""Names of the strips, by the count of seconds that they show."""

SERIES_COLOURS = 8
"""Colours `--chart-series-1` and on; more series use them again."""

MOST_LINES = 8
"""Pools in one chart."""

SPARK_STEPS = 24


class ChartSpan(NamedTuple):
    """A span of stored steps: its name in addresses and for people, their length, how many, and its end if not now."""

    name: str
    title: str
    width: int
    steps: int
    until: float | None = None

    def begin(self, now: float) -> int:
        """Returns the begin of the first step; the last one contains the end, or `now`."""
        return step_of(now if self.until is None else self.until, self.width) - (self.steps - 1) * self.width

    def end(self, now: float) -> int:
        """Returns the end of the last step."""
        return self.begin(now) + self.steps * self.width


SPANS = (
    ChartSpan("hour", "An hour", STEP_SECONDS, 12),
    ChartSpan("day", "24 hours", STEP_SECONDS, 288),
    ChartSpan("week", "7 days", STEP_SECONDS, 2016),
    ChartSpan("month", "30 days", HOUR_SECONDS, 720),
    ChartSpan("quarter", "90 days", HOUR_SECONDS, 2160),
)
"""Steps are as short as they are stored: an incident of minutes is seen within the week."""

DAY = SPANS[1]

CUSTOM = "range"
"""The name of a span that was entered."""


class SpanLink(NamedTuple):
    """A link to a span: its title, its query string, and whether it is shown now."""

    title: str
    address: str
    current: bool


class HistoryPageView(NamedTuple):
    """The page's content.

    Attributes:
        pool: empty for all pools.
        pools: those to choose from.
        span: what is shown.
        since: the begin of what is shown, as an input of date and time has it, in UTC.
        until: its end.
        spans: links to other spans.
        resolution: the length of a step in words.
        charts: what is drawn.
    """

    pool: str
    pools: tuple[str, ...]
    span: ChartSpan
    since: str
    until: str
    spans: tuple[SpanLink, ...]
    resolution: str
    charts: tuple[ChartView, ...]


def span_named(name: str) -> ChartSpan:
    """Returns the span of that name; a day for any other name."""
    return next((each for each in SPANS if each.name == name), DAY)


def span_holding(stored: Mapping[int, HistoryStep], now: float) -> ChartSpan:
    """Returns the shortest span of `SPANS` up to a day that holds the record; a day without one.

    Args:
        stored: the steps of the last day.
        now: epoch seconds.
    """
    first = min(stored, default=DAY.begin(now))
    return next(each for each in SPANS if each is DAY or each.begin(now) <= first)


def span_asked(name: str, begin: str, end: str, now: float) -> ChartSpan:
    """Returns the span of an address: between two times in UTC if one is given, else the span of that name.

    Args:
        name: of a span.
        begin: as `2026-11-20T00:00`; also with seconds or an offset. Empty: a day before the end.
        end: the same; empty: now.
        now: epoch seconds.

    Raises:
        UnknownValueError: a time is none, or the range is empty: another one in its place would mislead.
    """
    since, until = _epoch("from", begin), _epoch("to", end)
    if since is None and until is None:
        return span_named(name)
    asked = span_of(since, until, None, now)
    if not (steps := len(asked.steps)):
        last = f"to={end[:LONGEST_FILTER]}" if until is not None and until < now else f"now, {_entered(now)} UTC"
        raise UnknownValueError(f"This page has no from={begin[:LONGEST_FILTER]}: it has to be before {last}.")
    return ChartSpan(CUSTOM, "What you chose", asked.step, steps, float(asked.end - 1))


def _epoch(name: str, text: str) -> float | None:
    """Returns a time of an address in epoch seconds; None for an empty one."""
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        takes = "it takes a time in UTC such as 2026-11-20T08:00"
        raise UnknownValueError(f"This page has no {name}={text[:LONGEST_FILTER]}; {takes}.") from None


def _entered(at: float) -> str:
    """Returns a time as an input of date and time has it."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M")


def history_page(
    stored: Mapping[int, HistoryStep], pool: str, pools: Sequence[str], span: ChartSpan, now: float
) -> HistoryPageView:
    """Returns the page.

    Args:
        stored: the steps of the pool, by their begin.
        pool: its name; empty for all pools.
        pools: all pools to choose from.
        span: what is shown.
        now: epoch seconds.
    """
    return HistoryPageView(
        pool=pool,
        pools=tuple(pools),
        span=span,
        since=_entered(span.begin(now)),
        until=_entered(min(span.end(now), now)),
        spans=tuple(SpanLink(each.title, _address(each, pool), each is span) for each in SPANS),
        resolution=page_duration(span.width),
        charts=tuple(_charts(stored, span, now, with_calls=not pool)),
    )


def _address(span: ChartSpan, pool: str) -> str:
    return "?" + urlencode({"span": span.name, **({"pool": pool} if pool else {})})


def wait_chart(by_pool: Mapping[str, Mapping[int, HistoryStep]], span: ChartSpan, now: float) -> ChartView:
    """Returns the median wait of the jobs of each pool, of the `MOST_LINES` pools with the most jobs."""
    found = {pool: _steps(stored, span, now) for pool, stored in by_pool.items()}
    jobs = {pool: sum(step.count("jobs") for step in steps if step) for pool, steps in found.items()}
    shown = sorted((pool for pool in jobs if jobs[pool]), key=lambda pool: (-jobs[pool], pool))[:MOST_LINES]
    lines = [
        ChartSeries(pool, series_colour(at), tuple(wait_column(found[pool], MEDIAN))) for at, pool in enumerate(shown)
    ]
    every = [step for pool in shown for step in found[pool]]
    return _chart("wait", "Median wait by pool", _wait_summary(every), ChartKind.LINES, span, now, *lines, unit="s")


def deaths_chart(stored: Mapping[int, HistoryStep], span: ChartSpan, now: float) -> ChartView:
    """Returns the deaths of a span by cause, without clean exits, as they were counted when they were recorded."""
    deaths = death_columns(_steps(stored, span, now))
    deaths.pop(Cause.CLEAN_EXIT, None)
    ranked = sorted(deaths, key=lambda cause: -_sum(deaths[cause]))
    summary = _deaths_summary({cause: _sum(deaths[cause]) for cause in ranked})
    causes = [ChartSeries(each, cause_colour(each), tuple(deaths[each])) for each in ranked]
    return _chart("deaths", "Deaths by cause", summary, ChartKind.STACKED_BARS, span, now, *causes)


def _charts(stored: Mapping[int, HistoryStep], span: ChartSpan, now: float, *, with_calls: bool) -> Iterator[ChartView]:
    steps = _steps(stored, span, now)
    sampled = [step if step and step.samples else None for step in steps]
    blind, paused = _strip(steps, "blind_seconds"), _strip(steps, "paused_seconds")
    strips = blind, paused
    states = [ChartSeries(_name(each), each, _lasts(sampled, each)) for each in STATES_SHOWN]
    summary = _runners_summary(sampled)
    yield _chart("runners", "Runners by state", summary, ChartKind.STACK, span, now, *states, strips=strips)
    wrong = [ChartSeries(_name(each), each, _highest(sampled, each)) for each in WRONG_STATES]
    most = _most_at_once(wrong)
    title = "Lost, suspect, offline and unknown runners"
    yield _chart("wrong", title, most, ChartKind.LANES, span, now, *wrong, strips=strips)
    lost, healed = count_column(steps, "lost"), count_column(steps, "healed")
    summary = f"{counted(_sum(lost), 'runner')} lost; the successors of {_sum(healed):,} came online."
    losses = ChartSeries("lost", "invalidated", tuple(lost)), ChartSeries("healed", "healthy", tuple(healed))
    yield _chart("losses", "Lost and healed", summary, ChartKind.BARS, span, now, *losses, strips=strips)
    heals = all_times(each.heal_times for each in steps if each)
    summary = _time_summary(heals, "From the loss of a runner to its successor online")
    if any(paused.seconds):
        where = "Remediation of at least one pool" if with_calls else "Remediation"
        summary += f" {where} was paused for {paused.total} of this time: losses waited for its end."
    heal = _percentiles(heal_column(steps, MEDIAN), heal_column(steps, HIGH))
    yield _chart("heal-seconds", "Time to heal", summary, ChartKind.LINES, span, now, *heal, unit="s", strips=(paused,))
    known = [step for step in sampled if step]
    most_queued = max((step.highest("queued") for step in known), default=0)
    latest = f"; {known[-1].last_of('queued'):,} at the end of the latest step" if known else ""
    summary = f"At most {counted(most_queued, 'job')} at once{latest}."
    queued = (
        ChartSeries("highest", "line-2", _highest(sampled, "queued")),
        ChartSeries("latest", "line-1", _lasts(sampled, "queued")),
    )
    yield _chart("queued", "Queued jobs", summary, ChartKind.LINES, span, now, *queued)
    wait = _percentiles(wait_column(steps, MEDIAN), wait_column(steps, HIGH))
    yield _chart("wait", "Wait in the queue", _wait_summary(steps), ChartKind.LINES, span, now, *wait, unit="s")
    yield deaths_chart(stored, span, now)
    if with_calls:
        calls = count_column(steps, "calls")
        spent = f"{counted(_sum(calls), 'call')} that GitHub charged to the App's limit in this time"
        summary = f"{spent}: sweeps, all else that ghapp asks for, and other tools of the App."
        series = ChartSeries("calls", "line-1", tuple(calls))
        yield _chart("calls", "Calls spent", summary, ChartKind.BARS, span, now, series)


def _chart(
    name: str,
    title: str,
    summary: str,
    kind: ChartKind,
    span: ChartSpan,
    now: float,
    *series: ChartSeries,
    unit: str = "",
    strips: tuple[ChartStrip, ...] = (),
) -> ChartView:
    has_values = any(value is not None for each in series for value in each.values)
    missing = "none" if unit else "gap"  # without a loss or a job in a step there is no time
    shown, marked = series if has_values else (), tuple(each for each in strips if any(each.seconds))
    return ChartView(name, title, summary, kind, span.begin(now), span.width, shown, unit, missing, marked)


def _steps(stored: Mapping[int, HistoryStep], span: ChartSpan, now: float) -> list[HistoryStep | None]:
    """Returns the steps of a span; None for those of which nothing is stored."""
    return [stored.get(at) for at in range(span.begin(now), span.end(now), span.width)]


def cause_colour(cause: str) -> str:
    """Returns the colour of a cause of death, the same in every chart: red for memory and crashes."""
    return f"cause-{cause if cause in CAUSES else 'unknown'}"


def series_colour(at: int) -> str:
    """Returns the colour of a series that means nothing by itself, such as a pool, by its position."""
    return f"series-{at % SERIES_COLOURS + 1}"


def pool_sparkline(stored: Mapping[int, HistoryStep], now: float) -> Sparkline:
    """Returns a day of a pool by hours: the mean number of its healthy runners; hours with a loss are marked."""
    last = step_of(now, HOUR_SECONDS)
    steps = [stored.get(last - (SPARK_STEPS - 1 - at) * HOUR_SECONDS) for at in range(SPARK_STEPS)]
    sampled = [step if step and step.samples else None for step in steps]
    values = _means(sampled, "healthy")
    known = [value for value in values if value is not None]
    lost = count_column(steps, "lost")
    if not known:
        return sparkline(values, (), "No history of the last 24 hours yet")
    label = f"Healthy runners in 24 hours, by the hour: {min(known):,.0f} to {max(known):,.0f}; {_sum(lost):,} lost"
    return sparkline(values, [bool(each) for each in lost], label)


def _means(steps: Sequence[HistoryStep | None], gauge: str) -> tuple[Value, ...]:
    return tuple(None if step is None else round(step.mean(gauge), 1) for step in steps)


def _name(state: State) -> str:
    return "lost" if state is State.INVALIDATED else state.value


def _strip(steps: Sequence[HistoryStep | None], name: str) -> ChartStrip:
    """Returns the strip of a count of seconds."""
    seconds = tuple(0 if step is None else step.count(name) for step in steps)
    return ChartStrip(STRIPS[name], name.removesuffix("_seconds"), seconds)


def _highest(steps: Sequence[HistoryStep | None], gauge: str) -> tuple[Value, ...]:
    return tuple(None if step is None else step.highest(gauge) for step in steps)


def _lasts(steps: Sequence[HistoryStep | None], gauge: str) -> tuple[Value, ...]:
    """Returns the last sample of each step: a whole number that was so."""
    return tuple(None if step is None else step.last_of(gauge) for step in steps)


def _percentiles(median: Sequence[Value], high: Sequence[Value]) -> tuple[ChartSeries, ChartSeries]:
    return ChartSeries("p50", "line-1", tuple(median)), ChartSeries("p95", "line-2", tuple(high))


def _sum(values: Sequence[int | None]) -> int:
    return sum(value or 0 for value in values)


def _runners_summary(sampled: Sequence[HistoryStep | None]) -> str:
    known = [step for step in sampled if step]
    if not known:
        return NOTHING
    numbers = {_name(each): known[-1].last_of(each.value) for each in STATES_SHOWN}
    latest = ", ".join(f"{number:,} {name}" for name, number in numbers.items() if number) or "no runner"
    gaps = sum(step is None for step in sampled[next(at for at, step in enumerate(sampled) if step) :])
    covered = " Gaps are times without a complete list." if gaps else ""
    return f"The numbers at the end of each step. Of the latest one: {latest}.{covered}"


def _most_at_once(series: Iterable[ChartSeries]) -> str:
    """Returns the highest number of each series, in their order."""
    most = {each.name: max((value for value in each.values if value is not None), default=None) for each in series}
    if None in most.values():
        return NOTHING
    numbers = ", ".join(f"{number:,} {name}" for name, number in most.items())
    return f"The most at once within each step. In this time: {numbers}."


NOTHING = "Nothing was recorded in this time."


def _time_summary(times: TimeSpread, what: str) -> str:
    median, high = times.percentile(MEDIAN), times.percentile(HIGH)
    if median is None or high is None:
        return f"{what}. {NOTHING}"
    return f"{what}: p50 about {duration(median)}, p95 about {duration(high)}."


def _wait_summary(steps: Iterable[HistoryStep | None]) -> str:
    waits = all_times(each.wait_times for each in steps if each)
    return _time_summary(waits, "From a job's creation to a runner that takes it")


def _deaths_summary(deaths: Mapping[str, int]) -> str:
    if not any(deaths.values()):
        return "No death was recorded in this time."
    by_cause = ", ".join(f"{number:,} {cause}" for cause, number in deaths.items())
    return f"{counted(sum(deaths.values()), 'death')}: {by_cause}."


def pool_asked(given: str, pools: Sequence[str]) -> str:
    """Returns the pool of an address, empty for all pools; raises UnknownValueError if there is no such pool."""
    return choice_of({"pool": "" if given == ALL_POOLS else given}, "pool", pools)
