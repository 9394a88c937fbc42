"""Metrics for Prometheus: the list of them, and the collector that `prometheus_client` renders. Pure.

The values are shared by all processes and are read from Redis for each scrape. Each scrape therefore has a registry of
its own; `prometheus_client`'s default registry, with metrics of this process alone, is not exposed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from types import ModuleType

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample as StoredSample

from ghapp.deaths import metrics as deaths
from ghapp.deliveries import metrics as deliveries
from ghapp.installations import metrics as installations
from ghapp.log import logger
from ghapp.metric import Histogram, Metric, Sample
from ghapp.notifications import event_store
from ghapp.pods import metrics as pods
from ghapp.queue import jobs
from ghapp.report import metrics as fleet
from ghapp.store import left_out, metric_counters
from ghapp.versions import api as versions
from ghapp.workflow_jobs import metrics as workflow_jobs

log = logger(__name__)

DECLARED_IN: tuple[ModuleType, ...] = (
    deliveries,
    installations,
    fleet,
    versions,
    pods,
    deaths,
    workflow_jobs,
    event_store,
    jobs,
    left_out,
    metric_counters,
)
METRICS = {
    metric.name: metric for module in DECLARED_IN for metric in vars(module).values() if isinstance(metric, Metric)
}
"""All metrics of this version, by name. Counters of a newer version that runs beside it may be missing."""

MOST_PARSED = 100_000
"""Series whose parsed names and labels are kept between scrapes: those of 4,000 organizations with one pool each, some
600 bytes a series. With one series more than is kept, each scrape would parse all of them again.
"""


def family_of(name: str) -> str:
    """Returns the metric of a stored series' name: for a histogram without the suffix."""
    base = name.rpartition("_")[0]
    return base if isinstance(METRICS.get(base), Histogram) else name


_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\\n]|\\["\\n])*)"', re.ASCII)
_SERIES = re.compile(
    rf"(?P<name>[a-zA-Z_]\w*)(?:\{{(?P<labels>(?:{_LABEL.pattern}(?:,(?!\}})|(?=\}})))*)\}})?", re.ASCII
)
_ESCAPED = re.compile(r"\\.")
"""As `ghapp.metric.series_name` writes series. Prometheus' own parser takes most of a second for the series of 1,000
organizations.
"""


class ScrapedValues(Collector):
    """The values of one scrape as metric families."""

    def __init__(self, gauges: Iterable[Sample], counters: Mapping[str, float]) -> None:
        """Creates a collector.

        Args:
            gauges: in any order.
            counters: values by `name{label="value"}`, as `store.metric_counters` stores them.
        """
        self._gauges, self._counters = gauges, counters

    def collect(self) -> Iterator[Family]:
        """Yields one family for each metric: gauges, then counters by name."""
        families: dict[str, Family] = {}
        for gauge, labels, value in self._gauges:
            if gauge.name not in families:
                families[gauge.name] = GaugeMetricFamily(gauge.name, gauge.help)
            families[gauge.name].add_sample(gauge.name, dict(labels), value)
        for series, value in sorted(self._counters.items()):
            if (stored := _parsed(series)) is None:
                log.warning("unreadable counter skipped", series=series)
                continue
            name = family_of(stored.name)
            if name not in families:
                metric = METRICS.get(name)
                family = HistogramMetricFamily if isinstance(metric, Histogram) else CounterMetricFamily
                families[name] = family(name, metric.help if metric is not None else "")
            families[name].add_sample(stored.name, stored.labels, value)
        for each in families.values():
            if isinstance(each, HistogramMetricFamily):
                each.samples.sort(key=_place_in_histogram)
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
