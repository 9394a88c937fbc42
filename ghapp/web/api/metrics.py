"""Metrics for Prometheus: their help texts, and the collector that `prometheus_client` renders. Pure.

The values are shared by all processes and are read from Redis for each scrape. Each scrape therefore has a registry of
its own; `prometheus_client`'s default registry, with metrics of this process alone, is not exposed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample as StoredSample

from ghapp.log import logger

log = logger(__name__)

HELP = {
    "ghapp_inbox_lag": "Deliveries that are stored but not yet processed.",
    "ghapp_dead_letters": "Deliveries that were given up and can be replayed.",
    "ghapp_budget_limit_calls": "GitHub's hourly rate limit.",
    "ghapp_budget_used_calls": "Calls used of the hourly rate limit.",
    "ghapp_budget_left_calls": "Calls that sweeps may still spend until the reset.",
    "ghapp_next_sweep_timestamp_seconds": "When the next attempt to sweep is due.",
    "ghapp_runners": "Runners by org, pool and state: invalidated runners are lost, and no successor is online; "
    "retired ones left within the last 24 hours.",
    "ghapp_runners_by_version": "Runners that GitHub lists, by configured pool, version and state of the version; all "
    "other pools are pool other, and all but 20 versions of an org are version other.",
    "ghapp_runners_healed": "Runners lost within the last 24 hours whose successor is online.",
    "ghapp_replacements_unanswered": "Lost runners whose replacement was accepted longer ago than [fuse] "
    "prove_seconds, and whose successor is not online.",
    "ghapp_fuse": "Position of each fuse that was ever not closed, by pool; pool * is all pools.",
    "ghapp_paused": "Paused pools; pool * is all pools.",
    "ghapp_last_sweep_timestamp_seconds": "When the last complete sweep began.",
    "ghapp_last_sweep_runners": "Runners that the last complete sweep listed.",
    "ghapp_sweeps_failing_since_timestamp_seconds": "Since when sweeps have failed, and the reason.",
    "ghapp_sweeps_total": "Sweeps by outcome.",
    "ghapp_sweep_calls_total": "Requests sent by sweeps.",
    "ghapp_sweep_billable_calls_total": "Requests sent by sweeps that count against the hourly rate limit.",
    "ghapp_sweep_seconds_total": "Duration of all sweeps.",
    "ghapp_remediations_total": "Remediations of lost runners by outcome.",
    "ghapp_deliveries_total": "Deliveries processed, by event and action.",
    "ghapp_deliveries_given_up_total": "Deliveries moved to the dead letters.",
    "ghapp_redeliveries_total": "Redeliveries requested from GitHub.",
    "ghapp_reports_total": "Attempts to post check runs, by outcome.",
    "ghapp_check_requests_total": "Deliveries about check runs, by the action taken.",
    "ghapp_orphans_reaped_total": "Orphaned pods by outcome, and skipped ticks of the reaper.",
    "ghapp_jobs_failed_total": "Failed jobs by function name, and failed attempts to deliver an event to a pool's URL "
    "(deliver-event).",
    "ghapp_watch_view_age_seconds": "Age of the watch's snapshot of each namespace.",
    "ghapp_phantoms": "Phantoms, which count as runners but are not, by kind.",
    "ghapp_deaths_total": "Recorded deaths of runners, by cause and configured pool; all others are pool other. "
    "Without clean exits, as on pages and in commands: ghapp_clean_exits_total counts those.",
    "ghapp_clean_exits_total": "Runners whose process finished its work and exited, by configured pool; all others are "
    "pool other.",
    "ghapp_reruns_total": "Tries to run a job again whose runner died, by outcome: accepted, refused by GitHub, or the "
    "reason against it.",
    "ghapp_jobs": "Queued and running jobs of self-hosted runners, by pool; pool other: no known pool has the labels. "
    "Running jobs of a shard have the label shard, and are in no other series.",
    "ghapp_jobs_oldest_queued_seconds": "Age of the oldest queued job, 0 without one.",
    "ghapp_jobs_unserved": "Queued jobs that no online runner can take, by reason.",
    "ghapp_runners_idle": "Online runners without a job. Those of a shard have the label shard, and are in no other "
    "series.",
    "ghapp_job_queue_seconds": "Wait of jobs that a self-hosted runner took, by configured pool; all others are pool "
    "other.",
    "ghapp_job_run_seconds": "Duration of jobs on self-hosted runners, by configured pool; all others are pool other.",
    "ghapp_heal_seconds": "Time from the loss of a runner to its successor online, by configured pool; all others are "
    "pool other.",
    "ghapp_events_dropped_total": "News for a pool's URL that were dropped because too many waited for it; requests "
    "for replacements are never dropped.",
    "ghapp_rows_left_out_total": "Rows, and fields of rows, of GitHub, the cluster and the log store that could not be "
    "read and were left out, by kind.",
    "ghapp_unreadable_records_total": "Stored records that could not be read and were set aside, by kind.",
}
"""Help texts of all series of this version. Counters of a newer version that runs beside it may be missing."""


MOST_PARSED = 100_000
"""Series whose parsed names and labels are kept between scrapes: those of 4,000 organizations with one pool each, some
600 bytes a series. With one series more than is kept, each scrape would parse all of them again.
"""

HISTOGRAMS = frozenset({"ghapp_job_queue_seconds", "ghapp_job_run_seconds", "ghapp_heal_seconds"})
"""Stored as counters, one for each bucket, the sum and the count; see `store.metric_counters`."""


def family_of(name: str) -> str:
    """Returns the metric of a stored series' name: for a histogram without the suffix."""
    base = name.rpartition("_")[0]
    return base if base in HISTOGRAMS else name


_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\\n]|\\["\\n])*)"', re.ASCII)
_SERIES = re.compile(
    rf"(?P<name>[a-zA-Z_]\w*)(?:\{{(?P<labels>(?:{_LABEL.pattern}(?:,(?!\}})|(?=\}})))*)\}})?", re.ASCII
)
_ESCAPED = re.compile(r"\\.")
"""As `metric_counters.series_name` writes series. Prometheus' own parser takes most of a second for the series of 1,000
organizations.
"""


class Sample(NamedTuple):
    """A gauge; its name must be in `HELP`."""

    name: str
    labels: Mapping[str, str]
    value: float


class ScrapedValues(Collector):
    """The values of one scrape as metric families."""

    def __init__(self, gauges: Iterable[Sample], counters: Mapping[str, float]) -> None:
        """Creates a collector.

        Args:
            gauges: in any order.
            counters: values by `name{label="value"}`, as `store.metric_counters` stores them.
        """
        self._gauges, self._counters = gauges, counters

    def collect(self) -> Iterator[Metric]:
        """Yields one family for each metric: gauges, then counters by name."""
        families: dict[str, Metric] = {}
        for name, labels, value in self._gauges:
            if name not in families:
                families[name] = GaugeMetricFamily(name, HELP[name])
            families[name].add_sample(name, dict(labels), value)
        for series, value in sorted(self._counters.items()):
            if (stored := _parsed(series)) is None:
                log.warning("unreadable counter skipped", series=series)
                continue
            name = family_of(stored.name)
            if name not in families:
                family = HistogramMetricFamily if name in HISTOGRAMS else CounterMetricFamily
                families[name] = family(name, HELP.get(name, ""))
            families[name].add_sample(stored.name, stored.labels, value)
        for name in HISTOGRAMS & families.keys():
            families[name].samples.sort(key=_place_in_histogram)
        yield from families.values()


OPENMETRICS = "application/openmetrics-text;version=1.0.0"
FORMATS = ("", OPENMETRICS)
"""`Accept` of the two formats that are made: the text format of Prometheus, and OpenMetrics."""


def format_for(accept: str) -> str:
    """Returns the one of `FORMATS` that answers an `Accept` header."""
    return OPENMETRICS if choose_encoder(accept)[1].startswith("application/openmetrics-text") else ""


def exposition(chosen: str, gauges: Iterable[Sample], counters: Mapping[str, float]) -> tuple[bytes, str]:
    """Returns all series, and their media type.

    Args:
        chosen: one of `FORMATS`.
        gauges: in any order.
        counters: values by `name{label="value"}`, as `store.metric_counters` stores them.
    """
    registry = CollectorRegistry()
    registry.register(ScrapedValues(gauges, counters))
    encode, media_type = choose_encoder(chosen)
    return encode(registry), media_type


def _place_in_histogram(sample: StoredSample) -> tuple[list[tuple[str, str]], bool, float, str]:
    """The order that OpenMetrics requires: of each set of labels the buckets by their bounds, then count and sum."""
    labels = sorted((name, value) for name, value in sample.labels.items() if name != "le")
    return labels, "le" not in sample.labels, float(sample.labels.get("le", 0.0)), sample.name


@lru_cache(MOST_PARSED)
def _parsed(series: str) -> StoredSample | None:
    """Returns the name and the labels of a stored series; None if it is not one, for example a damaged field."""
    found = _SERIES.fullmatch(series)
    if found is None:
        return None
    pairs = _LABEL.findall(found["labels"] or "")
    labels = {name: _ESCAPED.sub(_unescaped, value) for name, value in pairs}
    return StoredSample(found["name"], labels, 0.0) if len(labels) == len(pairs) else None


def _unescaped(escaped: re.Match[str]) -> str:
    return "\n" if escaped[0] == r"\n" else escaped[0][1:]
