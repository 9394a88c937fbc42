"""How soon the pages of 10,000 runners are there, first when nothing is in memory, then when it is."""

from __future__ import annotations

import asyncio
import time
from http.client import HTTPConnection
from pathlib import Path

from tests.bench.figure import Figure, middle
from tests.bench.places import web
from tests.bench.reads import furnish
from tests.support.local_redis import embedded_redis

RUNNERS = 10_000
MOST_MILLISECONDS = 100.0
ROUNDS = 15
FORGOTTEN_SECONDS = 3.5
"""After this the web role has to read the fleet anew: what it holds is a second old."""

PAGES = {
    "overview": "/orgs/acme",
    "list of runners, filtered and sorted": "/orgs/acme/runners?text=f&label=linux-4vcpu&sort=since",
    "one runner": "/orgs/acme/runners/4242",
}


def measure(folder: Path) -> list[Figure]:
    """Each page, as this machine's own browser gets it."""
    with embedded_redis(folder / "redis", durable=False) as url:
        asyncio.run(furnish(url, RUNNERS))
        with web(url, folder, GHAPP_OPEN_PAGE="1") as server:
            return [figure for name, path in PAGES.items() for figure in _of_page(server.port, name, path)]


def _of_page(port: int, name: str, path: str) -> list[Figure]:
    cold, warm = [], []
    _milliseconds(port, path)
    for _ in range(ROUNDS):
        time.sleep(FORGOTTEN_SECONDS)
        cold.append(_milliseconds(port, path))
        warm.append(_milliseconds(port, path))
    figures = []
    for kind, taken in (("read anew", cold), ("again within a second", warm)):
        value, spread = middle(taken)
        title = f"{name} of {RUNNERS:,} runners, {kind}"
        figures.append(Figure(title, f"{value:.0f} ms", value, spread=spread, most=MOST_MILLISECONDS, unit=" ms"))
    return figures


def _milliseconds(port: int, path: str) -> float:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    began = time.perf_counter()
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    taken = time.perf_counter() - began
    connection.close()
    if answer.status != 200:
        raise RuntimeError(f"{answer.status}: {body[:500]!r}")
    return taken * 1000
