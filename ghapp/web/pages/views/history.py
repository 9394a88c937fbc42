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
from ghapp.web.pages.views.charts import ChartKind, ChartSeries, ChartView, Sparkline, Value, sparkline
from ghapp.web.pages.views.paging import choice_of
from ghapp.web.pages.views.wording import page_duration
from ghapp.wording import counted, duration

STATES_SHOWN = (State.HEALTHY, State.STARTING, State.OFFLINE, State.SUSPECT, State.INVALIDATED, State.UNKNOWN)
"""From the lowest area to the highest."""

HIGHEST_SHOWN = (State.SUSPECT, State.INVALIDATED)
"""Of these a step also has the highest number, as a mark: a loss of seconds would not be seen in the latest sample.

It is no part of the stack: a runner that was suspect, then lost, then healthy would be drawn three times.
"""

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
    """Returns the span of an address: between two times in UTC if they are times, else the span of that name.

    Args:
        name: of a span.
        begin: as `2026-11-20T00:00`; also with seconds or an offset. Empty: a day before the end.
        end: the same; empty: now.
        now: epoch seconds.
    """
    since, until = _epoch(begin), _epoch(end)
    if since is None and until is None:
        return span_named(name)
    asked = span_of(since, until, None, now)
    steps = len(asked.steps)
    if not steps:
        return span_named(name)
    return ChartSpan(CUSTOM, "What you chose", asked.step, steps, float(asked.end - 1))


def _epoch(text: str) -> float | None:
    try:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


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
    summary = _deaths_summary({cause: _sum(values) for cause, values in deaths.items()})
    causes = [ChartSeries(each, cause_colour(each), tuple(deaths[each])) for each in deaths]
    return _chart("deaths", "Deaths by cause", summary, ChartKind.STACKED_BARS, span, now, *causes)


def _charts(stored: Mapping[int, HistoryStep], span: ChartSpan, now: float, *, with_calls: bool) -> Iterator[ChartView]:
    steps = _steps(stored, span, now)
    sampled = [step if step and step.samples else None for step in steps]
    blind = tuple(0 if step is None else step.count("blind_seconds") for step in steps)
    states = [_latest_series(sampled, each) for each in STATES_SHOWN]
    marks = tuple(ChartSeries(f"{_name(each)}, highest", each, _highest(sampled, each)) for each in HIGHEST_SHOWN)
    summary = _runners_summary(sampled, sum(blind))
    yield _chart("runners", "Runners by state", summary, ChartKind.STACK, span, now, *states, blind=blind, marks=marks)
    lost, healed = count_column(steps, "lost"), count_column(steps, "healed")
    summary = f"{counted(_sum(lost), 'runner')} lost; the successors of {_sum(healed):,} came online."
    losses = ChartSeries("lost", "invalidated", tuple(lost)), ChartSeries("healed", "healthy", tuple(healed))
    yield _chart("losses", "Lost and healed", summary, ChartKind.BARS, span, now, *losses, blind=blind)
    heals = all_times(each.heal_times for each in steps if each)
    summary = _time_summary(heals, "From the loss of a runner to its successor online")
    heal = _percentiles(heal_column(steps, MEDIAN), heal_column(steps, HIGH))
    yield _chart("heal-seconds", "Time to heal", summary, ChartKind.LINES, span, now, *heal, unit="s")
    most = max((step.highest("queued") for step in sampled if step), default=0)
    summary = f"At most {counted(most, 'job')} at once."
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
    blind: tuple[int, ...] = (),
    marks: tuple[ChartSeries, ...] = (),
) -> ChartView:
    has_values = any(value is not None for each in series for value in each.values)
    missing = "none" if unit else "gap"  # without a loss or a job in a step there is no time
    shown, over = (series, marks) if has_values else ((), ())
    marked = blind if any(blind) else ()
    return ChartView(name, title, summary, kind, span.begin(now), span.width, shown, unit, missing, marked, over)


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


def _latest_series(steps: Sequence[HistoryStep | None], state: State) -> ChartSeries:
    latest = ", latest" if state in HIGHEST_SHOWN else ""
    return ChartSeries(f"{_name(state)}{latest}", state.value, _lasts(steps, state.value))


def _highest(steps: Sequence[HistoryStep | None], gauge: str) -> tuple[Value, ...]:
    return tuple(None if step is None else step.highest(gauge) for step in steps)


def _lasts(steps: Sequence[HistoryStep | None], gauge: str) -> tuple[Value, ...]:
    """Returns the last sample of each step: a whole number that was so."""
    return tuple(None if step is None else step.last_of(gauge) for step in steps)


def _percentiles(median: Sequence[Value], high: Sequence[Value]) -> tuple[ChartSeries, ChartSeries]:
    return ChartSeries("p95", "line-2", tuple(high)), ChartSeries("p50", "line-1", tuple(median))


def _sum(values: Sequence[int | None]) -> int:
    return sum(value or 0 for value in values)


def _runners_summary(sampled: Sequence[HistoryStep | None], blind_seconds: int) -> str:
    known = [step for step in sampled if step]
    if not known:
        return NOTHING
    last, worst = known[-1], max(step.highest("invalidated") for step in known)
    gaps = sum(step is None for step in sampled[next(at for at, step in enumerate(sampled) if step) :])
    blind = f" Marked at the top: {duration(blind_seconds)} without a complete list in all." if blind_seconds else ""
    covered = " Gaps are times without a complete list." if gaps else ""
    drawn = "Areas: the latest numbers of each step. Lines: the most lost and suspect at once within it."
    latest = f"Latest: {counted(last.last_of('healthy'), 'healthy runner')}. At most {worst:,} lost at once."
    return f"{latest} {drawn}{blind}{covered}"


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
    ranked = sorted(deaths.items(), key=lambda each: (-each[1], each[0]))
    return (
        f"{counted(sum(deaths.values()), 'death')}: "
        + ", ".join(f"{number:,} {cause}" for cause, number in ranked)
        + "."
    )


def pool_asked(given: str, pools: Sequence[str]) -> str:
    """Returns the pool of an address, empty for all pools; raises UnknownValueError if there is no such pool."""
    return choice_of({"pool": "" if given == ALL_POOLS else given}, "pool", pools)
