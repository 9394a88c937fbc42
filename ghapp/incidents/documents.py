"""Incidents and the history of a pool as JSON documents. Pure; times are epoch seconds.

The history has a column of values for each gauge and count. All columns have one value for each step from `begin` to
before `end`. A gap is null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Literal, NamedTuple, TypedDict

from ghapp.incidents.history import (
    CAUSES,
    HOUR_SECONDS,
    KEPT_SECONDS,
    OBSERVED,
    STEP_SECONDS,
    HistoryStep,
    step_of,
)
from ghapp.incidents.incident import LossIncident
from ghapp.incidents.texts import ends_of, fuse_of, listed, state_of, title_of, typical_heal_seconds
from ghapp.report.documents import Timestamp, timestamp
from ghapp.report.links import PageLinks
from ghapp.runners.verdict import State


class LossEndDocument(TypedDict):
    """How many losses of an incident ended in one way (`end`), and the way in words."""

    end: str
    losses: int
    text: str


class IncidentDocument(TypedDict):
    """An incident: losses that overlap in time.

    `state` is `open`, `stopped` (open, and a fuse waits for an admin), `healed` or `ended`; `open` counts the losses
    without an end; `ends` has how the others ended, the commonest first. `fuse` is the position of its fuse, null if
    none tripped; `heal_seconds` the median from first evidence to successor; `url` the page, null if its address is
    not configured.
    """

    id: str
    state: Literal["open", "stopped", "healed", "ended"]
    text: str
    began: Timestamp
    ended: Timestamp | None
    pools: list[str]
    lost: int
    open: int
    ends: list[LossEndDocument]
    fuse: str | None
    heal_seconds: float | None
    url: str | None


class IncidentsDocument(TypedDict):
    """The incidents of an organization, the open ones first."""

    org: str
    incidents: list[IncidentDocument]


def incidents_document(
    links: PageLinks, incidents: Iterable[LossIncident], limit: int, *, is_open: bool
) -> IncidentsDocument:
    """Returns at most `limit` incidents in the order of lists; only open ones if `is_open`.

    Args:
        links: the pages of the organization.
        incidents: all known ones.
        limit: how many at most.
        is_open: True for the open ones alone.
    """
    chosen = [each for each in listed(incidents) if each.is_open or not is_open][:limit]
    return {"org": links.org, "incidents": [incident_document(each, links) for each in chosen]}


def incident_document(incident: LossIncident, links: PageLinks) -> IncidentDocument:
    """Returns the document of an incident."""
    losses = incident.losses
    return {
        "id": incident.id,
        "state": state_of(incident),
        "text": title_of(incident),
        "began": timestamp(incident.began),
        "ended": None if incident.ended is None else timestamp(incident.ended),
        "pools": sorted({each.pool for each in losses}),
        "lost": len(losses),
        "open": sum(each.is_open for each in losses),
        "ends": [{"end": each.code, "losses": each.losses, "text": each.words} for each in ends_of(losses)],
        "fuse": fuse_of(incident) or None,
        "heal_seconds": typical_heal_seconds(losses),
        "url": links.below(f"incidents/{incident.id}"),
    }


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
