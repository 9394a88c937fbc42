"""Charts over time as pages show them: series of one value per step, a summary in words, and the same numbers in rows.

Pure. A page places one with `{{ chart(root, view) }}` of `charts.html`.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

from ghapp.wording import duration

Value = int | float | None
"""None: a gap."""


MOST_ROWS = 288
"""Rows of a table below a chart: a day of steps of five minutes. A shorter range shows earlier ones."""


class ChartKind(StrEnum):
    """How the series are drawn."""

    STACK = "stack"
    """Areas on top of each other."""
    LINES = "lines"
    """A level line across each step; a narrow step between two gaps is a bar."""
    LANES = "lanes"
    """A small row of bars for each series, above each other, with one scale."""
    BARS = "bars"
    """Bars; of two series the second one is drawn downwards."""
    STACKED_BARS = "stacked-bars"


class ChartSeries(NamedTuple):
    """A series: its name, its colour (`--chart-…` of the stylesheet), and a value for each step."""

    name: str
    colour: str
    values: tuple[Value, ...]


class ChartStrip(NamedTuple):
    """A strip at the top of the steps that have some seconds of what it is about; coloured as a series is."""

    name: str
    colour: str
    seconds: tuple[int, ...]

    @property
    def total(self) -> str:
        """The seconds of all steps, as a duration."""
        return duration(sum(self.seconds))


class ChartView(NamedTuple):
    """A chart.

    Attributes:
        id: unique on its page.
        title: its heading.
        summary: what it shows, in one or two sentences.
        kind: how it is drawn.
        begin: of the first step (epoch seconds).
        step: its length in seconds.
        series: those to show; empty: nothing was recorded.
        unit: of all values: `s`, or empty for numbers.
        missing: what is shown where there is no value.
        strips: what is marked at the top.
    """

    id: str
    title: str
    summary: str
    kind: ChartKind
    begin: int
    step: int
    series: tuple[ChartSeries, ...]
    unit: str = ""
    missing: str = "gap"
    strips: tuple[ChartStrip, ...] = ()

    @property
    def data(self) -> str:
        """What `charts.js` draws, as JSON."""
        drawn = {"kind": self.kind, "begin": self.begin, "step": self.step, "unit": self.unit}
        drawn |= {"missing": self.missing, "series": [each._asdict() for each in self.series]}
        drawn["strips"] = [
            {"colour": each.colour, "steps": [at for at, seconds in enumerate(each.seconds) if seconds]}
            for each in self.strips
        ]
        return json.dumps(drawn, separators=(",", ":"))

    @property
    def digest(self) -> str:
        """Differs if another chart is drawn."""
        return f"{zlib.crc32(self.data.encode()):08x}"

    @property
    def rows(self) -> list[tuple[str, tuple[str, ...]]]:
        """The time of each step in UTC, and the values as texts; the latest first, as tables are read from the top.

        At most `MOST_ROWS`: a week has 2,016 steps.
        """
        columns = zip(*(each.values for each in self.series), strict=True)
        rows = [
            (
                _time(self.begin + at * self.step),
                (
                    *(self.missing if value is None else f"{value:,.1f}".removesuffix(".0") for value in row),
                    *(duration(each.seconds[at]) if each.seconds[at] else "" for each in self.strips),
                ),
            )
            for at, row in enumerate(columns)
        ]
        return rows[::-1][:MOST_ROWS]


class Sparkline(NamedTuple):
    """A small line without axes: its paths in a box of 96 by 20, the places of marks, and what it shows in words."""

    line: str
    marks: tuple[float, ...]
    label: str


SPARK_WIDTH, SPARK_TOP, SPARK_BOTTOM = 93.0, 2.0, 14.0
"""Of the line; marks are below it."""


def sparkline(values: Sequence[Value], marked: Sequence[bool], label: str) -> Sparkline:
    """Returns the line of some values; gaps interrupt it. The scale begins at zero."""
    highest = max((value for value in values if value is not None), default=0) or 1
    pitch = SPARK_WIDTH / max(1, len(values) - 1)
    parts, begins = [], True
    for at, value in enumerate(values):
        if value is None:
            begins = True
            continue
        y = SPARK_BOTTOM - (SPARK_BOTTOM - SPARK_TOP) * value / highest
        is_alone = begins and (at + 1 == len(values) or values[at + 1] is None)
        parts.append(f"{'M' if begins else 'L'}{at * pitch:.1f} {y:.1f}" + ("h1" if is_alone else ""))
        begins = False
    marks = tuple(round(at * pitch, 1) for at, is_marked in enumerate(marked) if is_marked)
    return Sparkline("".join(parts), marks, label)


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%b %d, %H:%M")
