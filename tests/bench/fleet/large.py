"""A hundred thousand runners in one installation, within GitHub's 900 points a minute; and how its losses are found."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise
from pathlib import Path

from ghapp.store.stores import open_stores
from tests.bench.figure import Figure
from tests.bench.fleet.github import FIRST_INSTALLATION, PER_PAGE, Config
from tests.bench.fleet.place import Place, place, watched_memory

RUNNERS = 100_000
LATENCY_SECONDS = 0.1
POINTS_A_MINUTE = 900
UNLIMITED = 10**9
"""Calls an hour: what is measured are the points. The hourly limit stretches the interval further while pages change."""

FLOOR_SECONDS = RUNNERS / PER_PAGE / POINTS_A_MINUTE * 60
MOST_OVER_FLOOR = 1.1
MOST_MEGABYTES = 300.0
PHASES = (0.1, 0.4, 0.7)
"""Where in a sweep runners are lost, as parts of the time between two sweeps."""

LOST_AT_ONCE = 5
PATIENCE_SECONDS = 600.0
POLICY = """
[sweep]
interval_seconds = 15
[evidence]
confirm_seconds = 30
startup_seconds = 1
stale_seconds = 600
[budget]
share = 0.9
"""
ORG = "org-0"


def measure(folder: Path) -> list[Figure]:
    """The figures, all of one run: sweeps follow each other as closely as the points allow."""
    with place(folder, Config(1, RUNNERS, LATENCY_SECONDS, POINTS_A_MINUTE, UNLIMITED), POLICY, web=False) as running:
        with watched_memory(running.processes["worker"]) as peak:
            times = _await_lists(running, 3)
            cycle = times[-1] - times[-2]
            lost: dict[int, float] = {}
            for number, phase in enumerate(PHASES):
                times = _await_lists(running, len(times) + 1)
                time.sleep(phase * cycle)
                last = RUNNERS - number * LOST_AT_ONCE  # of the last page: the others stay as they are
                ids = list(range(last - LOST_AT_ONCE + 1, last + 1))
                lost |= dict.fromkeys(ids, running.lose({ORG: ids}))
            confirmed = _await_confirmed(running, lost)
            report = running.report()
        times = report.lists[ORG]
    if report.refused:
        raise RuntimeError(f"{report.refused} calls were over GitHub's limit")
    between = [later - earlier for earlier, later in pairwise(times[1:])]
    longest = sorted(between)[len(between) // 2]
    sweeps = max(sum(lost[each] < at <= confirmed[each] for at in times) for each in lost)
    return [
        Figure(
            f"{RUNNERS:,} runners, {POINTS_A_MINUTE} points a minute: from one complete sweep to the next",
            f"{longest:.0f} s",
            longest / FLOOR_SECONDS,
            against=f"floor {FLOOR_SECONDS:.0f} s",
            spread=(min(between) / FLOOR_SECONDS, max(between) / FLOOR_SECONDS),
            most=MOST_OVER_FLOOR,
            note=f"{len(times)} sweeps; {dict(sorted(report.calls.items()))}; no call was refused",
        ),
        Figure(
            "their losses, in three phases of a sweep: lists begun until the last is confirmed",
            f"{sweeps} lists",
            float(sweeps),
            most=2.0,
            unit=" lists",
            note=f"slowest {max(confirmed[each] - lost[each] for each in lost):.0f} s after the loss",
        ),
        Figure("worker, at its peak", f"{peak[0] / 1e6:.0f} MB", peak[0] / 1e6, most=MOST_MEGABYTES, unit=" MB"),
    ]


def _await_lists(running: Place, number: int) -> list[float]:
    ends = time.monotonic() + PATIENCE_SECONDS
    while len(times := running.report().lists.get(ORG, [])) < number:
        if time.monotonic() > ends:
            raise RuntimeError(f"only {len(times)} sweeps: {running.log('worker')}")
        time.sleep(0.5)
    return times


def _await_confirmed(running: Place, lost: dict[int, float]) -> dict[int, float]:
    """Returns when each loss was confirmed."""
    return asyncio.run(_confirmed(running, lost))


async def _confirmed(running: Place, lost: dict[int, float]) -> dict[int, float]:
    ends = time.monotonic() + PATIENCE_SECONDS
    async with open_stores(running.redis_url) as stores:
        while True:
            known = await stores.runners.some(FIRST_INSTALLATION, lost)
            found = {each: evidence.confirmed_at for each, evidence in known.items() if evidence.confirmed_at}
            if len(found) == len(lost):
                return found
            if time.monotonic() > ends:
                raise RuntimeError(f"{len(found)} of {len(lost)} confirmed: {running.log('worker')}")
            await asyncio.sleep(1.0)
