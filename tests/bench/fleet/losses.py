"""Ten thousand runners, swept every 15 s: one in a hundred is lost at once; then single ones at all phases of a sweep."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from ghapp.store.stores import open_stores
from tests.bench.figure import Figure, middle
from tests.bench.fleet.github import FIRST_INSTALLATION, Config, Report
from tests.bench.fleet.place import Place, place

RUNNERS, LATENCY_SECONDS = 10_000, 0.1
INTERVAL_SECONDS, CONFIRM_SECONDS = 15, 30
LOST = range(50, RUNNERS, 100)
MOST_SECONDS = INTERVAL_SECONDS + CONFIRM_SECONDS + 10.0
MOST_CALLS_EACH = 3.0
SINGLE_LOSSES, APART_SECONDS = 15, 8.0
"""So far apart they come at all phases of a sweep, each second one."""

HOURLY = 60_000
"""A loss changes every page of the list. Single losses are hours apart; these are within two minutes, and would exceed
GitHub's 15,000 calls an hour, which stretches the interval.
"""

MOST_MEDIAN_SECONDS = INTERVAL_SECONDS / 2 + CONFIRM_SECONDS + 2.0
PATIENCE_SECONDS = 240.0
POLICY = f"""
[sweep]
interval_seconds = {INTERVAL_SECONDS}
[evidence]
confirm_seconds = {CONFIRM_SECONDS}
startup_seconds = 1
[budget]
share = 0.9
[remediation]
per_sweep = 100
"""
ORG = "org-0"


def measure(folder: Path) -> list[Figure]:
    """The figures, all of one run of one worker."""
    with place(folder, Config(1, RUNNERS, LATENCY_SECONDS, hourly=HOURLY), POLICY, web=False) as running:
        _await(running, lambda report: len(report.lists.get(ORG, [])) >= 3)
        before = _calls_beyond_lists(running.report())
        lost_at = running.lose({ORG: list(LOST)})
        seconds = asyncio.run(_confirmed(running)) - lost_at
        calls = (_calls_beyond_lists(running.report()) - before) / len(LOST)
        _await(running, lambda report: len(report.events) == len(LOST))
        lost, began = {}, time.monotonic()
        for number in range(1, SINGLE_LOSSES + 1):
            time.sleep(max(0.0, began + number * APART_SECONDS - time.monotonic()))
            lost[number * 617] = running.lose({ORG: [number * 617]})
        events = _await(running, lambda report: lost.keys() <= report.events.keys()).events
    single, spread = middle([events[each] - at for each, at in lost.items()])
    setting = f"{RUNNERS:,} runners, {LATENCY_SECONDS * 1000:.0f} ms a call"
    return [
        Figure(
            f"{setting}: {len(LOST)} lost at once, the last one confirmed",
            f"{seconds:.1f} s",
            seconds,
            against=f"interval {INTERVAL_SECONDS} s, confirmed after {CONFIRM_SECONDS} s",
            most=MOST_SECONDS,
            unit=" s",
        ),
        Figure(
            "calls for each of them beyond the sweeps, until then",
            f"{calls:.2f} calls",
            calls,
            most=MOST_CALLS_EACH,
            unit=" calls",
        ),
        Figure(
            f"{setting}: registration lost → its replace event, median",
            f"{single:.1f} s",
            single,
            spread=spread,
            most=MOST_MEDIAN_SECONDS,
            unit=" s",
            note=f"{SINGLE_LOSSES} losses, {APART_SECONDS} s apart",
        ),
    ]


def _calls_beyond_lists(report: Report) -> int:
    return report.calls.get("GET", 0) + report.calls.get("named", 0)


def _await(running: Place, condition: Callable[[Report], bool]) -> Report:
    ends = time.monotonic() + PATIENCE_SECONDS
    while not condition(report := running.report()):
        if time.monotonic() > ends:
            raise RuntimeError(f"waited {PATIENCE_SECONDS:.0f} s: {report.calls}, {running.log('worker')}")
        time.sleep(0.2)
    return report


async def _confirmed(running: Place) -> float:
    """Returns when the last one was confirmed (epoch seconds)."""
    ends = time.monotonic() + PATIENCE_SECONDS
    async with open_stores(running.redis_url) as stores:
        while True:
            known = await stores.runners.some(FIRST_INSTALLATION, LOST)
            found = [each.confirmed_at for each in known.values() if each.confirmed_at is not None]
            if len(found) == len(LOST):
                return max(found)
            if time.monotonic() > ends:
                raise RuntimeError(f"{len(found)} of {len(LOST)} confirmed: {running.log('worker')}")
            await asyncio.sleep(0.2)
