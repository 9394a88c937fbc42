"""How soon the pages of 10,000 runners are there, first when nothing is in memory, then when it is."""

from __future__ import annotations

import asyncio
import time
from http.client import HTTPConnection
from pathlib import Path

from ghapp.health.history import HOUR_SECONDS, STEP_SECONDS, WHOLE_ORG, HistorySample, step_of
from ghapp.health.job import Job
from ghapp.store.connect import connect
from ghapp.store.demand import Demand
from ghapp.store.history import HistoryStore
from tests.bench.figure import Figure, middle
from tests.bench.places import POOL, web
from tests.bench.reads import INSTALLATION, furnish
from tests.support.local_redis import embedded_redis

RUNNERS, JOBS = 10_000, 1_000
MOST_MILLISECONDS = 100.0
ROUNDS = 15
FORGOTTEN_SECONDS = 1.0
"""After this the web role has to read the fleet anew: it holds nothing for longer than 0.75 s."""

PAGES = {
    "overview": "/orgs/acme",
    "list of runners, filtered and sorted": "/orgs/acme/runners?text=f&label=linux-4vcpu&sort=since",
    "one runner": "/orgs/acme/runners/4242",
    "history of 24 hours": "/orgs/acme/history",
    "history of 30 days": "/orgs/acme/history?span=month",
    "incidents": "/orgs/acme/incidents",
    "jobs": "/orgs/acme/jobs",
    "queued jobs": "/orgs/acme/jobs?state=queued",
    "deaths": "/orgs/acme/deaths",
    "gate": "/orgs/acme/gate",
}
"""By name. One that this version does not have answers 404 and is left out: add here what is to be measured."""


def measure(folder: Path) -> list[Figure]:
    """Each page, as this machine's own browser gets it."""
    with embedded_redis(folder / "redis", durable=False) as url:
        asyncio.run(_furnish(url))
        with web(url, folder, GHAPP_OPEN_PAGE="1") as server:
            return [figure for name, path in PAGES.items() for figure in _of_page(server.port, name, path)]


async def _furnish(url: str) -> None:
    """The fleet, its open jobs, and a history of a month."""
    await furnish(url, RUNNERS)
    redis, now = connect(url), time.time()
    jobs = [
        Job(
            number,
            "queued" if number % 3 else "running",
            ("self-hosted", POOL),
            f"acme/repository-{number % 40}",
            now - number,
            runner_id=None if number % 3 else number,
            started_at=None if number % 3 else now - number / 2,
            workflow="build",
            name=f"job {number}",
        )
        for number in range(1, JOBS + 1)
    ]
    await Demand(redis).record(INSTALLATION, jobs)
    history, gauges = HistoryStore(redis), {"healthy": RUNNERS, "busy": 300, "queued": 700}
    hours = [now - hour * HOUR_SECONDS for hour in range(24, 30 * 24)]
    for at in sorted([*hours, *(now - step * STEP_SECONDS for step in range(24 * 12))]):
        counts = {
            "jobs": 90,
            "waited_seconds": 3_000,
            "lost": 1,
            "healed": 1,
            "heal_seconds": 70,
            "death:clean-exit": 80,
        }
        pools = (POOL, WHOLE_ORG)
        places = {(pool, step_of(at)): counts for pool in pools}
        await history.record(INSTALLATION, HistorySample(at, dict.fromkeys(pools, gauges), places), at)
    await redis.aclose()


def _of_page(port: int, name: str, path: str) -> list[Figure]:
    cold, warm = [], []
    if _milliseconds(port, path) is None:
        return []
    for _ in range(ROUNDS):
        time.sleep(FORGOTTEN_SECONDS)
        cold.append(_milliseconds(port, path) or 0.0)
        warm.append(_milliseconds(port, path) or 0.0)
    figures = []
    for kind, taken in (("read anew", cold), ("again within a second", warm)):
        value, spread = middle(taken)
        title = f"{name} of {RUNNERS:,} runners, {kind}"
        figures.append(Figure(title, f"{value:.0f} ms", value, spread=spread, most=MOST_MILLISECONDS, unit=" ms"))
    return figures


def _milliseconds(port: int, path: str) -> float | None:
    """How long the page took; None where there is none."""
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    began = time.perf_counter()
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    taken = time.perf_counter() - began
    connection.close()
    if answer.status == 404:
        return None
    if answer.status != 200:
        raise RuntimeError(f"{answer.status}: {body[:500]!r}")
    return taken * 1000
