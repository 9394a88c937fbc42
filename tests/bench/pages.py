"""How soon the pages of 10,000 runners are there, first when nothing is in memory, then when it is."""

from __future__ import annotations

import asyncio
import time
from http.client import HTTPConnection
from pathlib import Path

from ghapp.deaths.cause import Cause
from ghapp.deaths.death import DeadJob, Death
from ghapp.incidents.history import HOUR_SECONDS, STEP_SECONDS, HistorySample, step_of
from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.store.stores import open_stores
from ghapp.web.pages.page_key import key_cookie
from ghapp.workflow_jobs.job import Job
from tests.bench.figure import Figure, middle
from tests.bench.places import PAGE_KEY, POOL, web
from tests.bench.reads import fill
from tests.support.local_redis import embedded_redis

RUNNERS = 10_000
MOST_MILLISECONDS = 100.0
ROUNDS = 15
CHANGED = 100
FORGOTTEN_SECONDS = 1.0
"""After this the web role has to read the fleet again: it holds nothing for longer than 0.75 s."""

PAGES = {
    "overview": "/orgs/acme",
    "list of runners, filtered and sorted": "/orgs/acme/runners?text=f&label=linux-4vcpu&sort=since",
    "one runner": "/orgs/acme/runners/4242",
    "history of 24 hours": "/orgs/acme/history",
    "history of 30 days": "/orgs/acme/history?span=month",
    "incidents": "/orgs/acme/incidents",
    "list of 1,000 open jobs": "/orgs/acme/jobs",
    "one queued job": "/orgs/acme/jobs/1",
    "1,000 deaths": "/orgs/acme/deaths?days=30",
}


def measure(folder: Path) -> list[Figure]:
    """Each page, as a browser with the key of `ghapp up` gets it."""
    with embedded_redis(folder / "redis", durable=False) as url:
        asyncio.run(fill(url, RUNNERS))
        asyncio.run(_at_work(url))
        with web(url, folder, GHAPP_PAGE_KEY=PAGE_KEY) as server:
            return [figure for name, path in PAGES.items() for figure in _of_page(url, server.port, name, path)]


async def _at_work(url: str) -> None:
    """A thousand open jobs, half of them queued for four labels, and a thousand deaths with full logs."""
    now, log = time.time(), tuple("x" * 160 for _ in range(200))
    async with open_stores(url) as stores:
        (acme,) = await stores.installations.all()
        jobs = [
            Job(number, "queued", ("linux-4vcpu", f"label-{number % 4}"), f"acme/r{number % 50}", now - number)
            if number % 2
            else Job(number, "running", ("linux-4vcpu",), "acme/api", now - number, number, f"r{number}", now - 60)
            for number in range(1, 1001)
        ]
        await stores.demand.record(acme.id, jobs)
        for number in range(1000):
            at, job = now - number * 2000, DeadJob(number, "acme/api", "build")
            death = Death(f"vm-{number}", f"vm-{number}", "node-1", at, 137, 9, "OOMKilled", Cause.HOST_OOM, "Look.")
            await stores.deaths.record(acme.id, death._replace(job=job, runner_log=log, pool="linux-4vcpu"))
        gauges, pools = {"healthy": RUNNERS, "busy": 300, "queued": 700}, (POOL, ALL_POOLS)
        counts = {"jobs": 90, "waited_seconds": 3_000, "lost": 1, "healed": 1, "heal_seconds": 70, "death:host-oom": 3}
        hours = [now - hour * HOUR_SECONDS for hour in range(24, 30 * 24)]
        for at in sorted([*hours, *(now - step * STEP_SECONDS for step in range(24 * 12))]):
            places = {(pool, step_of(at)): counts for pool in pools}
            await stores.history.record(acme.id, HistorySample(at, dict.fromkeys(pools, gauges), places), at)


def _of_page(url: str, port: int, name: str, path: str) -> list[Figure]:
    cold, warm = [], []
    _milliseconds(port, path)
    for turn in range(ROUNDS):
        asyncio.run(_some_change(url, busy=turn % 2 == 0))
        time.sleep(FORGOTTEN_SECONDS)
        cold.append(_milliseconds(port, path))
        warm.append(_milliseconds(port, path))
    figures = []
    for kind, taken in (("cold", cold), ("again within a second", warm)):
        value, spread = middle(taken)
        title = f"{name}, {RUNNERS:,} runners, {kind}"
        figures.append(Figure(title, f"{value:.0f} ms", value, spread=spread, most=MOST_MILLISECONDS, unit=" ms"))
    return figures


async def _some_change(url: str, *, busy: bool) -> None:
    """A hundred runners take a job, or end it, as between two sweeps."""
    async with open_stores(url) as stores:
        (acme,) = await stores.installations.all()
        folds = dict.fromkeys(range(1, CHANGED + 1), lambda known: known and known._replace(busy=busy))
        await stores.runners.revise(acme.id, folds)


def _milliseconds(port: int, path: str) -> float:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    began = time.perf_counter()
    connection.request("GET", path, headers={"Cookie": "=".join(key_cookie(PAGE_KEY, port))})
    answer = connection.getresponse()
    body = answer.read()
    taken = time.perf_counter() - began
    connection.close()
    if answer.status != 200:
        raise RuntimeError(f"{answer.status}: {body[:500]!r}")
    return taken * 1000
