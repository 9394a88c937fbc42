"""A metric of Prometheus, declared once, by the subject that counts or reads it: `ghapp.web.api.metrics` lists them.

Counters and histograms are kept in Redis, one field for each series (`ghapp.store.metric_counters`); gauges are read
for each scrape.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Metric:
    """What all metrics have.

    Attributes:
        name: as it is exposed; of a histogram without the suffixes of its series.
        help: one sentence or two, for people.
        labels: those that each of its series has.
        optional: those that only some of its series have.
    """

    name: str
    help: str
    labels: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()

    def check_labels(self, labels: Mapping[str, str]) -> None:
        """Raises ValueError unless these are the labels of one of its series."""
        if labels.keys() != {*self.labels, *(labels.keys() & self.optional)}:
            raise ValueError(f"{self.name} has the labels {self.labels}, and maybe {self.optional}, not {[*labels]}")


class Gauge(Metric):
    """A value that is read."""

    __slots__ = ()

    def sample(self, value: float, /, **labels: str) -> Sample:
        """Returns the value of one series."""
        self.check_labels(labels)
        return Sample(self, labels, value)


class Counter(Metric):
    """A value that only grows. Labels must come from closed sets or the configuration, never from payloads."""

    __slots__ = ()

    def series(self, **labels: str) -> str:
        """Returns the name of a series as it is stored: `name{label="value"}`, the labels sorted."""
        self.check_labels(labels)
        return series_name(self.name, labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram(Metric):
    """How many values are below each of some bounds; labels as of a counter.

    Attributes:
        buckets: the bounds, ascending, without infinity.
    """

    buckets: tuple[float, ...]

    def observed(self, values: Iterable[float], **labels: str) -> dict[str, float]:
        """Returns what these values add to each series: for each bucket (cumulative), to the sum and to the count."""
        self.check_labels(labels)
        measured = list(values)
        if not measured:
            return {}
        below = {f"{bound:g}": sum(value <= bound for value in measured) for bound in self.buckets}
        return {
            **{
                series_name(f"{self.name}_bucket", {**labels, "le": bound}): amount
                for bound, amount in {**below, "+Inf": len(measured)}.items()
            },
            series_name(f"{self.name}_sum", labels): sum(measured),
            series_name(f"{self.name}_count", labels): len(measured),
        }


class Sample(NamedTuple):
    """The value of one series of a gauge."""

    gauge: Gauge
    labels: Mapping[str, str]
    value: float


def series_name(name: str, labels: Mapping[str, str]) -> str:
    """Returns the name of a series as it is stored: `name{label="value"}`, the labels sorted."""
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in sorted(labels.items()))
    return f"{name}{{{pairs}}}" if pairs else name


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
