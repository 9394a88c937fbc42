"""The history of a pool as a JSON document: a column of values for each gauge and count. Pure; times are epoch seconds.

All columns have one value for each step from `begin` to before `end`. A gap is null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypedDict

from ghapp.incidents.history import (
    CAUSES,
    HOUR_SECONDS,
    KEPT_SECONDS,
    OBSERVED,
    STEP_SECONDS,
    HistoryStep,
    step_of,
)
from ghapp.report.documents import Timestamp, timestamp
from ghapp.runners.verdict import State

MOST_STEPS = 2_304
"""Steps of one document: 8 days of 300 s, or 96 days of an hour."""

DEFAULT_SPAN_SECONDS = 86_400.0

FINE_SPAN_SECONDS = 7 * 86_400.0
"""Up to this span the step is 300 s unless another one is asked for."""

MEDIAN, HIGH = 0.5, 0.95
"""The percentiles that are shown: p50 and p95."""

HISTORY_STATES = tuple(state for state in State if state is not State.RETIRED)


class GaugeColumns(TypedDict):
    """A gauge: its last sample, the mean and the highest of the samples in each step."""

    last: list[int | None]
    mean: list[float | None]
    peak: list[int | None]


class HistoryDocument(TypedDict):
    """The history of a pool, or of all pools together (`pool` null)."""

    org: str
    pool: str | None
    pools: list[str]
    begin: Timestamp
    end: Timestamp
    step: int
    samples: list[int]
    runners: dict[State, GaugeColumns]
    busy: GaugeColumns
    queued: GaugeColumns
    lost: list[int | None]
    healed: list[int | None]
    heal_seconds: list[int | None]
    heal_p50: list[int | None]
    heal_p95: list[int | None]
    jobs: list[int | None]
    waited_seconds: list[int | None]
    wait_p50: list[int | None]
    wait_p95: list[int | None]
    deaths: dict[str, list[int | None]]
    calls: list[int | None] | None
    blind_seconds: list[int | None]
    paused_seconds: list[int | None]


class HistorySpan(NamedTuple):
    """The steps that are asked for: from `begin` to before `end`, both multiples of `step`, in seconds."""

    begin: int
    end: int
    step: int

    @property
    def steps(self) -> range:
        """The begin of each step."""
        return range(self.begin, self.end, self.step)


def span_of(begin: float | None, end: float | None, step: int | None, now: float) -> HistorySpan:
    """Returns the span of a request, cut to what is kept, and to the latest `MOST_STEPS` steps.

    Args:
        begin: None: a day before the end.
        end: None or a later time: now.
        step: 300 or 3600; None: by the span, and by what is still kept.
        now: epoch seconds.
    """
    until = now if end is None else min(end, now)
    since = until - DEFAULT_SPAN_SECONDS if begin is None else begin
    if step is None:
        is_fine = until - since <= FINE_SPAN_SECONDS and now - since <= KEPT_SECONDS[STEP_SECONDS]
        step = STEP_SECONDS if is_fine else HOUR_SECONDS
    last = step_of(until, step) + (0 if until % step == 0 else step)
    first = max(step_of(max(since, now - KEPT_SECONDS[step]), step), last - MOST_STEPS * step)
    return HistorySpan(min(first, last), last, step)


def gauge_columns(steps: Sequence[HistoryStep | None], gauge: str) -> GaugeColumns:
    """Returns the columns of a gauge."""
    return {
        "last": [step.last_of(gauge) if step and step.samples else None for step in steps],
        "mean": [round(step.mean(gauge), 2) if step and step.samples else None for step in steps],
        "peak": [step.highest(gauge) if step and step.samples else None for step in steps],
    }


def count_column(steps: Sequence[HistoryStep | None], name: str) -> list[int | None]:
    """Returns the column of a count. In a gap it is null, unless it is one that also deliveries and processes find."""
    return _column(steps, partial(HistoryStep.count, name=name), only_sampled=name in OBSERVED)


def wait_column(steps: Sequence[HistoryStep | None], share: float) -> list[int | None]:
    """Returns a percentile of the waits of each step, in seconds; null where no job was taken."""
    return [None if step is None else step.wait_times.percentile(share) for step in steps]


def heal_column(steps: Sequence[HistoryStep | None], share: float) -> list[int | None]:
    """Returns a percentile of the times to heal of each step, in seconds; null where no loss healed."""
    return [None if step is None else step.heal_times.percentile(share) for step in steps]


def death_columns(steps: Sequence[HistoryStep | None]) -> dict[str, list[int | None]]:
    """Returns a column for each cause of death that occurs."""
    causes = [cause for cause in CAUSES if any(step is not None and step.died_of(cause) for step in steps)]
    return {cause: _column(steps, partial(HistoryStep.died_of, cause=cause), only_sampled=False) for cause in causes}


def _column(
    steps: Sequence[HistoryStep | None], value: Callable[[HistoryStep], int], *, only_sampled: bool
) -> list[int | None]:
    found: list[int | None] = []
    for step in steps:
        number = 0 if step is None else value(step)
        is_known = step is not None and (step.samples > 0 or (number > 0 and not only_sampled))
        found.append(number if is_known else None)
    return found


def history_document(
    org: str, pool: str | None, pools: Sequence[str], span: HistorySpan, steps: Mapping[int, HistoryStep]
) -> HistoryDocument:
    """Returns the document of a pool; None: of all pools.

    Args:
        org: the organization's name.
        pool: the pool's name.
        pools: all pools with a history.
        span: the steps.
        steps: those that are stored, by their begin.
    """
    found = [steps.get(at) for at in span.steps]
    return {
        "org": org,
        "pool": pool,
        "pools": [*pools],
        "begin": timestamp(float(span.begin)),
        "end": timestamp(float(span.end)),
        "step": span.step,
        "samples": [0 if step is None else step.samples for step in found],
        "runners": {state: gauge_columns(found, state.value) for state in HISTORY_STATES},
        "busy": gauge_columns(found, "busy"),
        "queued": gauge_columns(found, "queued"),
        "lost": count_column(found, "lost"),
        "healed": count_column(found, "healed"),
        "heal_seconds": count_column(found, "heal_seconds"),
        "heal_p50": heal_column(found, MEDIAN),
        "heal_p95": heal_column(found, HIGH),
        "jobs": count_column(found, "jobs"),
        "waited_seconds": count_column(found, "waited_seconds"),
        "wait_p50": wait_column(found, MEDIAN),
        "wait_p95": wait_column(found, HIGH),
        "deaths": death_columns(found),
        "calls": count_column(found, "calls") if pool is None else None,
        "blind_seconds": count_column(found, "blind_seconds"),
        "paused_seconds": count_column(found, "paused_seconds"),
    }
