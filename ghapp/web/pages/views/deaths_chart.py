"""The deaths of a list over time: by cause, pool or node. Pure; times are epoch seconds.

The history counts deaths of each pool by cause for 90 days. This chart is made of the deaths themselves, which are kept
for a month, so that it shows those that the visitor may see and that match the filter: exactly those of the list.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from ghapp.deaths.patterns import DeathSummary
from ghapp.incidents.history import step_of
from ghapp.web.pages.views.charts import ChartKind, ChartSeries, ChartView
from ghapp.web.pages.views.history import cause_colour, series_colour
from ghapp.web.pages.views.wording import page_duration
from ghapp.wording import counted

CHARTED = ("cause", "pool", "node")
"""Kinds of values by which deaths are drawn; the first by default."""

MOST_COUNTED = 6
"""Pools or nodes with a series of their own, the most frequent. With the others and those without a value, each series
has a colour of its own. Causes are few: each has a series."""


def deaths_over_time(found: Sequence[DeathSummary], by: str, span: tuple[float, float], width: int) -> ChartView:
    """Returns the chart.

    Args:
        found: the deaths.
        by: one of `CHARTED`.
        span: its begin, which the first step contains, and its end, which the last step contains.
        width: of a step in seconds.
    """
    begin, last = (step_of(at, width) for at in span)
    names = _series_names(Counter(_value(each, by) for each in found), by)
    steps: dict[str, Counter[int]] = defaultdict(Counter)
    for each in found:
        # The list also counts a death that a clock ahead of this one dated: it belongs to the last step.
        steps[names[_value(each, by)]][min(step_of(each.at, width), last)] += 1
    series = tuple(
        ChartSeries(
            name,
            cause_colour(name) if by == "cause" else series_colour(at),
            tuple(steps[name][step] for step in range(begin, last + 1, width)),
        )
        for at, name in enumerate(dict.fromkeys(names.values()))
    )
    summary = f"{counted(len(found), 'death')} in steps of {page_duration(width)}, in UTC."
    return ChartView("deaths", f"Deaths by {by}", summary, ChartKind.STACKED_BARS, begin, width, series)


def _value(death: DeathSummary, by: str) -> str:
    """Returns a value of one of `CHARTED`; empty if it is unknown."""
    return str(getattr(death, by))


def _series_names(totals: Counter[str], by: str) -> dict[str, str]:
    """Returns the name of the series of each value, the most frequent value first."""
    ranked = sorted(filter(None, totals), key=lambda value: (-totals[value], value))
    most = len(ranked) if by == "cause" else MOST_COUNTED
    names = {value: value if at < most else f"other {by}s" for at, value in enumerate(ranked)}
    return names | ({"": f"{by} unknown"} if "" in totals else {})
