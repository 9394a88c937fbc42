"""A thousand installations of a hundred runners: is each swept in time, what do all roles cost, and does web answer?"""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from ghapp.incidents.history import STEP_SECONDS
from ghapp.web.pages.page_key import key_cookie
from tests.bench.figure import Figure, middle
from tests.bench.fleet.github import Config
from tests.bench.fleet.place import Place, place, serving
from tests.bench.load import Outcome, Plan, Target, alternate
from tests.bench.places import PAGE_KEY, bare

INSTALLATIONS, RUNNERS, OFFLINE = 1_000, 100, 3
"""Some runners of each installation are offline all the time, as in most fleets, and reported so."""

INTERVAL_SECONDS, OFFLINE_SECONDS = 60, 30
WARM_UP_SECONDS = 270.0
WARM_UP_SWEEPS = 3
"""Of each installation: the first records its runners, and the second reports those that are offline."""

MEASURED_SECONDS = STEP_SECONDS
"""Of five sweeps of a quiet installation one reads all records: the first in a step of the history."""

LOOK_SECONDS, SCRAPE_SECONDS = 3.0, 15.0
MOST_CORES, MOST_CPU_MILLISECONDS, MOST_ANSWER_MILLISECONDS = 0.7, 8.0, 100.0
MOST_INTERVALS = 1.1
LOAD_ROUNDS, LOAD_SECONDS, LOAD_CONNECTIONS = 6, 0.5, 64
LEAST_SPARE = 10.0
"""By how much the simulated GitHub must be faster than what is measured with it."""

ROLES = ("worker", "clock", "web", "redis")
ANSWERS = {"/readyz": LOOK_SECONDS, "/orgs/org-7": LOOK_SECONDS, "/metrics": SCRAPE_SECONDS}
"""What is asked of web, and the seconds between two requests."""

POLICY = f"""
[sweep]
interval_seconds = {INTERVAL_SECONDS}
[evidence]
offline_seconds = {OFFLINE_SECONDS}
"""


def measure(folder: Path) -> list[Figure]:
    """The figures, all of one run after the first sweeps of each installation."""
    with place(folder, Config(INSTALLATIONS, RUNNERS, offline=OFFLINE), POLICY) as running:
        _await_warm_up(running)
        began, before = time.time(), running.cpu_seconds()
        answers = _ask(running, began + MEASURED_SECONDS)
        seconds, after, report = time.time() - began, running.cpu_seconds(), running.report()
        if report.unknown or report.refused:
            raise RuntimeError(f"{report.refused} calls refused, unknown: {report.unknown}")
    spent = {role: after[role] - before[role] for role in after}
    sweeps = sum(at >= began for times in report.lists.values() for at in times)
    longest = max(
        later - earlier
        for times in report.lists.values()
        for earlier, later in pairwise([*(at for at in times if at >= began - INTERVAL_SECONDS), began + seconds])
    )
    cores = sum(spent[role] for role in ROLES) / seconds
    cpu, unit = (spent["worker"] + spent["redis"]) / sweeps * 1000, _bare_microseconds(folder)
    asked, limit = sweeps / seconds, _most_unchanged_pages(folder)
    return [
        Figure(
            f"{INSTALLATIONS:,} installations of {RUNNERS} runners: longest time between two sweeps of one",
            f"{longest:.1f} s",
            longest / INTERVAL_SECONDS,
            against=f"interval {INTERVAL_SECONDS} s",
            most=MOST_INTERVALS,
            note=f"{sweeps:,} sweeps in {seconds:.0f} s by one worker",
        ),
        Figure(
            "all roles together",
            f"{cores:.2f} cores",
            cores,
            most=MOST_CORES,
            unit=" cores",
            note=", ".join(f"{role} {spent[role] / seconds:.2f}" for role in ROLES)
            + f" cores; the simulated GitHub {spent['github'] / seconds:.2f}",
        ),
        Figure(
            f"CPU of a quiet sweep of {RUNNERS} runners, worker and Redis",
            f"{cpu:.1f} ms",
            cpu,
            against=f"bare Starlette: {unit:.0f} µs a request",
            most=MOST_CPU_MILLISECONDS,
            unit=" ms",
            note=f"as much as {cpu * 1000 / unit:.0f} requests of the bare Starlette, by which machines compare",
        ),
        *(
            Figure(
                f"{path} of web, median",
                f"{value:.0f} ms",
                value,
                spread=spread,
                most=MOST_ANSWER_MILLISECONDS,
                unit=" ms",
                note=f"asked every {every:g} s",
            )
            for path, every in ANSWERS.items()
            for value, spread in [middle(answers[path])]
        ),
        Figure(
            "the first answer of /metrics after that start",
            f"{answers['/metrics'][0]:.0f} ms",
            answers["/metrics"][0],
            most=MOST_ANSWER_MILLISECONDS,
            unit=" ms",
        ),
        Figure(
            "the limit of the simulated GitHub: unchanged pages/s",
            f"{limit:,.0f}/s",
            limit / asked,
            against=f"{asked:.0f}/s asked for",
            least=LEAST_SPARE,
        ),
    ]


def _bare_microseconds(folder: Path) -> float:
    """Returns the CPU that a bare Starlette takes for a request: a figure of this machine at this time."""
    with bare(folder, {"state": "healthy"}) as server:
        return _under_load(Target(*server, requests=[_request("/health")]), folder).microseconds


def _most_unchanged_pages(folder: Path) -> float:
    """Returns how many pages that have not changed the simulated GitHub can answer in a second."""
    path, alone = f"/orgs/org-0/actions/runners?per_page={RUNNERS}&page=1", folder / "alone"
    alone.mkdir()
    with serving("github", alone, Config(1, RUNNERS, points_a_minute=0)) as (address, process):
        etag = httpx.get(f"{address}{path}").headers["etag"]
        target = Target(
            urlsplit(address).port or 0, process, [_request(path, f"If-None-Match: {etag}\r\n")], status=304
        )
        return _under_load(target, alone).rate


def _under_load(target: Target, folder: Path) -> Outcome:
    (outcome,) = alternate(Plan([target], LOAD_ROUNDS, LOAD_SECONDS, LOAD_CONNECTIONS), folder)
    return outcome


def _request(path: str, headers: str = "") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: ghapp.example\r\n{headers}\r\n".encode()


def _await_warm_up(running: Place) -> None:
    ends = time.monotonic() + WARM_UP_SECONDS
    while (swept := sum(len(times) >= WARM_UP_SWEEPS for times in running.report().lists.values())) < INSTALLATIONS:
        if time.monotonic() > ends:
            raise RuntimeError(f"only {swept} installations were swept {WARM_UP_SWEEPS} times: {running.log('worker')}")
        time.sleep(1.0)


def _ask(running: Place, until: float) -> dict[str, list[float]]:
    """Returns the milliseconds of each answer of web."""
    answers: dict[str, list[float]] = {path: [] for path in ANSWERS}
    due = dict.fromkeys(ANSWERS, 0.0)
    with httpx.Client(
        base_url=running.web, cookies=[key_cookie(PAGE_KEY, urlsplit(running.web).port or 0)], timeout=30
    ) as client:
        while time.time() < until:
            for path, every in ANSWERS.items():
                if time.time() < due[path]:
                    continue
                due[path], began = time.time() + every, time.perf_counter()
                client.get(path).raise_for_status()
                answers[path].append((time.perf_counter() - began) * 1000)
            time.sleep(0.2)
    return answers
