"""The history of an organization or of one pool as charts. Pure; times are epoch seconds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlencode

from ghapp.health.deaths.cause import Cause
from ghapp.health.history import CAUSES, HOUR_SECONDS, STEP_SECONDS, WHOLE_ORG, HistoryStep, folded, step_of
from ghapp.health.runner.verdict import State
from ghapp.report.history import count_column, death_columns
from ghapp.web.pages.views.charts import ChartKind, ChartSeries, ChartView, Sparkline, Value, sparkline
from ghapp.web.pages.views.wording import counted, duration, exact

STATES_SHOWN = (State.HEALTHY, State.STARTING, State.OFFLINE, State.SUSPECT, State.INVALIDATED, State.UNKNOWN)
"""From the lowest area to the highest."""

CAUSE_COLOURS = 8
"""Colours `--chart-cause-1` and on; more causes use them again."""

MOST_LINES = 8
"""Pools in one chart."""

SPARK_STEPS = 24


class ChartSpan(NamedTuple):
    """A span to choose: its name in addresses and for people, its stored steps, and how many drawn steps it has."""

    name: str
    title: str
    stored: int
    width: int
    steps: int

    def begin(self, now: float) -> int:
        """Returns the begin of the first step; the last one contains `now`."""
        return step_of(now, self.width) - (self.steps - 1) * self.width

    def end(self, now: float) -> int:
        """Returns the end of the last step."""
        return self.begin(now) + self.steps * self.width


SPANS = (
    ChartSpan("day", "24 hours", STEP_SECONDS, 3 * STEP_SECONDS, 96),
    ChartSpan("week", "7 days", HOUR_SECONDS, HOUR_SECONDS, 168),
    ChartSpan("month", "30 days", HOUR_SECONDS, 4 * HOUR_SECONDS, 180),
)


class SpanLink(NamedTuple):
    """A link to a span: its title, its query string, and whether it is shown now."""

    title: str
    address: str
    current: bool


class HistoryPageView(NamedTuple):
    """The page's content. `pool` is empty for all pools; `resolution` is the length of a drawn step in words."""

    pool: str
    pools: tuple[str, ...]
    span: ChartSpan
    spans: tuple[SpanLink, ...]
    resolution: str
    charts: tuple[ChartView, ...]


def span_named(name: str) -> ChartSpan:
    """Returns the span of that name; a day for any other name."""
    return next((each for each in SPANS if each.name == name), SPANS[0])


def span_of_days(days: str) -> ChartSpan:
    """Returns the span of a number of days; a day for other numbers."""
    return {"7": SPANS[1], "30": SPANS[2]}.get(days, SPANS[0])


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
        spans=tuple(SpanLink(each.title, _address(each, pool), each is span) for each in SPANS),
        resolution=duration(span.width),
        charts=tuple(_charts(stored, span, now, with_calls=not pool)),
    )


def _address(span: ChartSpan, pool: str) -> str:
    asked = {} if span is SPANS[0] else {"span": span.name}
    return "?" + urlencode({**asked, **({"pool": pool} if pool else {})})


def wait_chart(by_pool: Mapping[str, Mapping[int, HistoryStep]], span: ChartSpan, now: float) -> ChartView:
    """Returns the mean wait of the jobs of each pool, of the `MOST_LINES` pools with the most jobs."""
    found = {pool: _steps(stored, span, now) for pool, stored in by_pool.items()}
    jobs = {pool: sum(step.count("jobs") for step in steps if step) for pool, steps in found.items()}
    shown = sorted((pool for pool in jobs if jobs[pool]), key=lambda pool: (-jobs[pool], pool))[:MOST_LINES]
    lines = [
        ChartSeries(pool, f"cause-{at % CAUSE_COLOURS + 1}", _per(found[pool], "waited_seconds", "jobs"))
        for at, pool in enumerate(shown)
    ]
    every = [step for pool in shown for step in found[pool]]
    return _chart("wait", "Wait by pool", _wait_summary(every), ChartKind.LINES, span, now, *lines, unit="s")


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
    names = {State.INVALIDATED: "lost"}
    states = [
        ChartSeries(names.get(each, each.value), each.value, _means(sampled, each.value)) for each in STATES_SHOWN
    ]
    yield _chart("runners", "Runners by state", _runners_summary(sampled), ChartKind.STACK, span, now, *states)
    lost, healed = count_column(steps, "lost"), count_column(steps, "healed")
    summary = f"{counted(_sum(lost), 'runner')} lost; the successors of {_sum(healed):,} came online."
    losses = ChartSeries("lost", "invalidated", tuple(lost)), ChartSeries("healed", "healthy", tuple(healed))
    yield _chart("losses", "Lost and healed", summary, ChartKind.BARS, span, now, *losses)
    heal = ChartSeries("mean time to heal", "line-1", _per(steps, "heal_seconds", "healed"))
    summary = _time_summary(steps, "heal_seconds", "healed", "From the loss of a runner to its successor online")
    yield _chart("heal-seconds", "Time to heal", summary, ChartKind.LINES, span, now, heal, unit="s")
    mean, peak = _means(sampled, "queued"), tuple(None if each is None else each.highest("queued") for each in sampled)
    summary = f"At most {counted(max((value or 0 for value in peak), default=0), 'job')} at once."
    queued = ChartSeries("highest", "line-2", peak), ChartSeries("mean", "line-1", mean)
    yield _chart("queued", "Queued jobs", summary, ChartKind.LINES, span, now, *queued)
    wait = ChartSeries("mean wait", "line-1", _per(steps, "waited_seconds", "jobs"))
    yield _chart("wait", "Wait in the queue", _wait_summary(steps), ChartKind.LINES, span, now, wait, unit="s")
    yield deaths_chart(stored, span, now)
    if with_calls:
        calls = count_column(steps, "calls")
        summary = f"{counted(_sum(calls), 'call')} to GitHub that count against its hourly limit."
        spent = ChartSeries("calls", "line-1", tuple(calls))
        yield _chart("calls", "Calls spent", summary, ChartKind.BARS, span, now, spent)


def _chart(
    name: str,
    title: str,
    summary: str,
    kind: ChartKind,
    span: ChartSpan,
    now: float,
    *series: ChartSeries,
    unit: str = "",
) -> ChartView:
    has_values = any(value is not None for each in series for value in each.values)
    missing = "none" if unit else "gap"  # without a loss or a job in a step there is no mean time
    shown = series if has_values else ()
    return ChartView(name, title, summary, kind, span.begin(now), span.width, shown, unit, missing)


def _steps(stored: Mapping[int, HistoryStep], span: ChartSpan, now: float) -> list[HistoryStep | None]:
    """Returns the drawn steps of a span; None for those of which nothing is stored."""
    steps, begin = folded(stored, span.width), span.begin(now)
    return [steps.get(begin + at * span.width) for at in range(span.steps)]


def cause_colour(cause: str) -> str:
    """Returns the colour of a cause of death, the same in every chart."""
    return f"cause-{CAUSES.index(cause) % CAUSE_COLOURS + 1}"


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


def _per(steps: Sequence[HistoryStep | None], total: str, number: str) -> tuple[Value, ...]:
    """Returns the mean of each step; a step in which nothing was counted has none."""
    return tuple(
        round(step.count(total) / step.count(number), 1) if step and step.count(number) else None for step in steps
    )


def _sum(values: Sequence[int | None]) -> int:
    return sum(value or 0 for value in values)


def _runners_summary(sampled: Sequence[HistoryStep | None]) -> str:
    known = [step for step in sampled if step]
    if not known:
        return NOTHING
    last, worst = known[-1], max(step.highest("invalidated") for step in known)
    gaps = sum(step is None for step in sampled[next(at for at, step in enumerate(sampled) if step) :])
    covered = " Gaps are times without a complete list." if gaps else ""
    return f"Latest: {counted(last.last_of('healthy'), 'healthy runner')}. At most {worst:,} lost at once.{covered}"


NOTHING = "Nothing was recorded in this time."


def _time_summary(steps: Sequence[HistoryStep | None], total: str, number: str, what: str) -> str:
    seconds, count = (sum(step.count(name) for step in steps if step) for name in (total, number))
    return f"{what}: {exact(seconds / count)} on average." if count else f"{what}. {NOTHING}"


def _wait_summary(steps: Sequence[HistoryStep | None]) -> str:
    return _time_summary(steps, "waited_seconds", "jobs", "From a job's creation to a runner that takes it")


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
    """Returns the pool of an address if it has a history; else all pools."""
    return given if given in pools and given != WHOLE_ORG else ""
