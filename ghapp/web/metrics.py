"""Numbers in Prometheus' text format. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

TYPE = "text/plain; version=0.0.4; charset=utf-8"

HELP = {
    "ghapp_inbox_lag": "Deliveries that are kept and not yet drained.",
    "ghapp_budget_left_calls": "Calls left of GitHub's hourly limit.",
    "ghapp_runners": "Known runners by org, pool and state.",
    "ghapp_fuse": "Where a pool's fuse stands; pools without one never left closed.",
    "ghapp_paused": "Pools that a person paused; * is the whole org.",
    "ghapp_last_sweep_timestamp_seconds": "When the last complete sweep began.",
    "ghapp_last_sweep_runners": "How many runners it saw.",
    "ghapp_sweeps_failing_since_timestamp_seconds": "Since when no complete sweep was possible, and why.",
}


class Sample(NamedTuple):
    """A gauge of ours; its name has a line in `HELP`."""

    name: str
    labels: Mapping[str, str]
    value: float


def exposition(gauges: Iterable[Sample], counters: Mapping[str, float]) -> bytes:
    """All series, each metric's together.

    Args:
        gauges: in any order.
        counters: `name{label="value"}`, as `store.counters` keeps them, → number.
    """
    lines: dict[str, list[str]] = {}
    for name, labels, value in gauges:
        heading = [f"# HELP {name} {HELP[name]}", f"# TYPE {name} gauge"]
        pairs = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        lines.setdefault(name, heading).append(f"{name}{{{pairs}}} {value!r}" if pairs else f"{name} {value!r}")
    for series, value in sorted(counters.items()):
        name = series.partition("{")[0]
        lines.setdefault(name, [f"# TYPE {name} counter"]).append(f"{series} {value!r}")
    return "".join(f"{line}\n" for rows in lines.values() for line in rows).encode()


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
