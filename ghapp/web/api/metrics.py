"""Numbers in Prometheus' text format. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

TYPE = "text/plain; version=0.0.4; charset=utf-8"

HELP = {
    "ghapp_inbox_lag": "Deliveries that are kept and not yet drained.",
    "ghapp_dead_letters": "Deliveries that were given up and wait to be replayed.",
    "ghapp_budget_limit_calls": "GitHub's hourly limit.",
    "ghapp_budget_used_calls": "Calls used of it.",
    "ghapp_budget_left_calls": "Calls that sweeps may still spend until the reset.",
    "ghapp_next_sweep_timestamp_seconds": "When the next attempt to sweep is due.",
    "ghapp_runners": "Runners by org, pool and state: invalidated ones are lost and still missed, retired ones left "
    "within the last 24 hours.",
    "ghapp_runners_healed": "Runners that were lost within the last 24 hours and have their replacement accepted.",
    "ghapp_fuse": "Where a pool's fuse stands; pools without one never left closed; * is the whole installation.",
    "ghapp_paused": "Pools that a person paused; * is the whole installation.",
    "ghapp_last_sweep_timestamp_seconds": "When the last complete sweep began.",
    "ghapp_last_sweep_runners": "How many runners it saw.",
    "ghapp_sweeps_failing_since_timestamp_seconds": "Since when no complete sweep was possible, and why.",
    "ghapp_sweeps_total": "Sweeps by outcome.",
    "ghapp_sweep_calls_total": "Requests that sweeps sent.",
    "ghapp_sweep_billable_calls_total": "Those of them that count against the hourly limit.",
    "ghapp_sweep_seconds_total": "Time that sweeps took.",
    "ghapp_remediations_total": "Lost runners acted on, by outcome.",
    "ghapp_deliveries_total": "Deliveries that took effect, by event and action.",
    "ghapp_deliveries_given_up_total": "Deliveries that went to the dead letters.",
    "ghapp_redeliveries_total": "Deliveries that GitHub was asked for again.",
    "ghapp_reports_total": "Check runs posted, or not, by outcome.",
    "ghapp_check_requests_total": "Deliveries about check runs, by what was done.",
    "ghapp_orphans_reaped_total": "Pods that belonged to nobody, by what became of them; and ticks that were skipped.",
    "ghapp_jobs_failed_total": "Failed jobs by the name of their function, and failed "
    "attempts to deliver an event to a pool's URL (deliver-event).",
    "ghapp_watch_view_age_seconds": "How long ago all of a namespace was last known to be as the watch recorded it.",
    "ghapp_phantoms": "What is counted as a runner and is none, by kind.",
    "ghapp_deaths_total": "Runners whose end was recorded, by cause.",
    "ghapp_unreadable_records_total": "Stored records that could not be read and were set aside, by kind.",
}
"""Every series of this version has a line here. A newer version beside this one may count more."""


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
        heading = [f"# HELP {name} {HELP[name]}"] if name in HELP else []
        heading.append(f"# TYPE {name} counter")
        lines.setdefault(name, heading).append(f"{series} {value!r}")
    return "".join(f"{line}\n" for rows in lines.values() for line in rows).encode()


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
