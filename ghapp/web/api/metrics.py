"""Renders metrics in Prometheus' text format. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

TYPE = "text/plain; version=0.0.4; charset=utf-8"

HELP = {
    "ghapp_inbox_lag": "Deliveries that are stored but not yet processed.",
    "ghapp_dead_letters": "Deliveries that were given up and can be replayed.",
    "ghapp_budget_limit_calls": "GitHub's hourly rate limit.",
    "ghapp_budget_used_calls": "Calls used of the hourly rate limit.",
    "ghapp_budget_left_calls": "Calls that sweeps may still spend until the reset.",
    "ghapp_next_sweep_timestamp_seconds": "When the next attempt to sweep is due.",
    "ghapp_runners": "Runners by org, pool and state: invalidated runners are lost and not yet replaced, retired ones "
    "left within the last 24 hours.",
    "ghapp_runners_healed": "Runners lost within the last 24 hours whose replacement was accepted.",
    "ghapp_fuse": "Position of each fuse that was ever not closed, by pool; pool * is the whole installation.",
    "ghapp_paused": "Paused pools; pool * is the whole installation.",
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
    "ghapp_deaths_total": "Recorded deaths of runners, by cause.",
    "ghapp_jobs": "Queued and running jobs of self-hosted runners, by pool; pool other: no known pool has the labels.",
    "ghapp_jobs_oldest_queued_seconds": "Age of the oldest queued job, 0 without one.",
    "ghapp_jobs_unserved": "Queued jobs that no online runner can take, by reason.",
    "ghapp_runners_idle": "Online runners without a job.",
    "ghapp_job_queue_seconds": "Wait of jobs that a self-hosted runner took, by configured pool; all others are pool "
    "other.",
    "ghapp_job_run_seconds": "Duration of jobs on self-hosted runners, by configured pool; all others are pool other.",
    "ghapp_unreadable_records_total": "Stored records that could not be read and were set aside, by kind.",
}
"""Help texts of all series of this version. Counters of a newer version that runs beside it may be missing."""


HISTOGRAMS = ("ghapp_job_queue_seconds", "ghapp_job_run_seconds")
"""Stored as counters, one for each bucket, the sum and the count; see `store.metric_counters`."""


def family_of(series: str) -> str:
    """Returns the metric of a stored series: its name, for a histogram without the suffix."""
    name = series.partition("{")[0]
    base = name.rpartition("_")[0]
    return base if base in HISTOGRAMS else name


class Sample(NamedTuple):
    """A gauge; its name must be in `HELP`."""

    name: str
    labels: Mapping[str, str]
    value: float


def exposition(gauges: Iterable[Sample], counters: Mapping[str, float]) -> bytes:
    """Returns all series, grouped by metric.

    Args:
        gauges: in any order.
        counters: values by `name{label="value"}`, as `store.metric_counters` stores them.
    """
    lines: dict[str, list[str]] = {}
    for name, labels, value in gauges:
        heading = [f"# HELP {name} {HELP[name]}", f"# TYPE {name} gauge"]
        pairs = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        lines.setdefault(name, heading).append(f"{name}{{{pairs}}} {value!r}" if pairs else f"{name} {value!r}")
    for series, value in sorted(counters.items()):
        name = family_of(series)
        heading = [f"# HELP {name} {HELP[name]}"] if name in HELP else []
        heading.append(f"# TYPE {name} {'histogram' if name in HISTOGRAMS else 'counter'}")
        lines.setdefault(name, heading).append(f"{series} {value!r}")
    return "".join(f"{line}\n" for rows in lines.values() for line in rows).encode()


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
