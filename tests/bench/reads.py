"""What `ghapp web` is to those who ask it: health reads a second, and how soon and how small it is there."""

from __future__ import annotations

import asyncio
import json
import random
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection
from pathlib import Path

from ghapp.installations.installation import NEEDED, Installation
from ghapp.installations.store import Installations
from ghapp.runners.evidence import Registration, Survey
from ghapp.runners.observations import SeenBy, registration_seen
from ghapp.runners.store import Runners
from ghapp.store.connect import connect
from ghapp.store.tokens import Tokens
from tests.bench.figure import Figure, middle
from tests.bench.load import Outcome, Plan, Target, alternate
from tests.bench.places import POOL, await_listening, bare, running, web, web_environ
from tests.support.local_redis import embedded_redis
from tests.support.ports import free_port

INSTALLATION = 77
RUNNERS = 1000
FLEETS = {1_000: 0.95, 50_000: 0.95}
"""Runners, and the least ratio. All of them are asked for evenly."""

SURVEY_SECONDS = 5.0
"""How often a sweep is recorded meanwhile: so often that most reads of 50,000 runners are the first ones after a sweep."""

FIRST_ROUNDS = 4
"""In which no runner of 50,000 is asked for twice."""

AT_ONCE, LEAST_AT_ONCE = 1_000, 50_000

ROUNDS, SECONDS, CONNECTIONS = 15, 0.5, 64
STARTS = 5
MOST_SECONDS, MOST_MEGABYTES = 1.0, 80.0
READS_AFTER_START = 10_000


def measure_reads(folder: Path) -> list[Figure]:
    """Reads of known runners with a valid token, against Starlette's own JSON answer of the same document."""
    figures = []
    for runners, least in FLEETS.items():
        place = folder / str(runners)
        place.mkdir()
        figures += _measure_reads(place, runners, least)
    return figures


def measure_many(folder: Path) -> list[Figure]:
    """Reads of a thousand of 50,000 runners at once, in one request."""
    runners = max(FLEETS)
    with embedded_redis(folder / "redis", durable=False) as url:
        token = asyncio.run(fill(url, runners))
        with web(url, folder) as ours, sweeping(url, runners):
            _read(ours.port, token, 1)
            order = random.Random(1).sample(range(1, runners + 1), runners)
            batches = [order[start : start + AT_ONCE] for start in range(0, runners, AT_ONCE)]
            target = Target(*ours, requests=[_batch(each, token) for each in batches])
            (measured,) = alternate(Plan([target], ROUNDS, SECONDS, 4), folder)
    return [
        Figure(
            f"health of {AT_ONCE:,} of {runners:,} runners in one request: runners/s",
            f"{measured.rate * AT_ONCE:,.0f}/s",
            measured.rate * AT_ONCE,
            least=LEAST_AT_ONCE,
            unit="/s",
            note=measured.summary(),
        )
    ]


@contextmanager
def sweeping(url: str, runners: int) -> Iterator[None]:
    """Records a complete list every few seconds while the block runs."""
    done = threading.Event()

    async def record() -> None:
        redis = connect(url)
        await Runners(redis).save_survey(INSTALLATION, Survey(time.time(), runners))
        await redis.aclose()

    def sweep() -> None:
        while not done.wait(SURVEY_SECONDS):
            asyncio.run(record())

    thread = threading.Thread(target=sweep)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _measure_reads(folder: Path, runners: int, least: float) -> list[Figure]:
    """The first read of each of many runners, and later ones."""
    with embedded_redis(folder / "redis", durable=False) as url:
        token = asyncio.run(fill(url, runners))
        with web(url, folder) as ours:
            document = _read(ours.port, token, 1)
            if document["state"] != "healthy":
                raise RuntimeError(f"the runner should be healthy: {document}")
            size = f"both answer the same {len(json.dumps(document))} bytes"
            with bare(folder, document) as theirs, sweeping(url, runners):
                order = random.Random(1).sample(range(1, runners + 1), runners)
                asked = [_request(_path(number), token) for number in order]
                targets = [Target(*ours, requests=asked), Target(*theirs, requests=[_request("/health", token)])]
                first = alternate(Plan(targets, FIRST_ROUNDS, SECONDS, CONNECTIONS), folder)
                _read_all(ours.port, token, order)
                later = alternate(Plan(targets, ROUNDS, SECONDS, CONNECTIONS), folder)
    name = f"health reads/s, evenly over {runners:,} runners, valid token"
    figures = [_figure(name, later, least, f"each runner in turn, a sweep every {SURVEY_SECONDS:g} s; {size}")]
    if runners == max(FLEETS):
        figures.append(_figure(f"the same, the first read of each of {runners:,} runners", first, None, size))
    return figures


def _figure(name: str, outcomes: Sequence[Outcome], least: float | None, note: str) -> Figure:
    ours, bare_server = outcomes
    ratio, spread = middle(ours.against(bare_server))
    return Figure(
        name,
        f"{ours.rate:,.0f}/s",
        ratio,
        against=f"bare Starlette JSON {bare_server.rate:,.0f}/s",
        spread=spread,
        least=least,
        note=f"{note}; {ours.summary()}; bare: {bare_server.summary()}",
    )


def measure_start(folder: Path) -> list[Figure]:
    """From starting `ghapp web` to its first answer, a health read; and what it holds in memory then and later."""
    seconds, fresh, later = [], [], 0.0
    with embedded_redis(folder / "redis", durable=False) as url:
        token = asyncio.run(fill(url))
        for number in range(STARTS):
            port, log = free_port(), folder / "start.log"
            environ = web_environ(url, port)
            began = time.perf_counter()
            with running(["-m", "ghapp", "web"], environ, log) as process:
                await_listening(port, process, log, pause=0.002)
                _read(port, token, 1)
                seconds.append(time.perf_counter() - began)
                fresh.append(_megabytes(process.pid))
                if number == STARTS - 1:
                    later = _megabytes_after_reads(port, token, process.pid)
    taken, spread = middle(seconds)
    return [
        Figure(
            "first request of `ghapp web` after its start",
            f"{taken:.2f} s",
            taken,
            "",
            spread,
            None,
            MOST_SECONDS,
            " s",
        ),
        Figure(
            "memory (RSS) of `ghapp web` after that request",
            f"{middle(fresh)[0]:.0f} MB",
            max(fresh),
            spread=middle(fresh)[1],
            most=MOST_MEGABYTES,
            unit=" MB",
        ),
        Figure(
            "memory (RSS) of `ghapp web` after 10,000 reads",
            f"{later:.0f} MB",
            later,
            most=MOST_MEGABYTES,
            unit=" MB",
            note=f"of {RUNNERS:,} different runners",
        ),
    ]


async def fill(url: str, runners: int = RUNNERS) -> str:
    """A fleet that has just been swept, and a token to read it with."""
    redis, now = connect(url), time.time()
    await Installations(redis).put(Installation(INSTALLATION, "acme", 1, NEEDED))
    folds = {
        number: partial(registration_seen, seen=_registration(number), at=now - 3600, by=SeenBy.LIST)
        for number in range(1, runners + 1)
    }
    await Runners(redis).revise(INSTALLATION, folds)
    await Runners(redis).save_survey(INSTALLATION, Survey(now, runners))
    secret, _ = await Tokens(redis).create("bench", ("acme",), ("read",), now)
    await redis.aclose()
    return secret


def _registration(number: int) -> Registration:
    labels = ("self-hosted", "linux", "x64", POOL)
    return Registration(
        number, f"{POOL}-{number:05x}", "linux", online=True, busy=False, labels=labels, custom_labels=(POOL,)
    )


def _path(runner_id: int) -> str:
    return f"/v1/orgs/acme/runners/{runner_id}/health"


def _request(path: str, token: str) -> bytes:
    return (
        f"GET {path} HTTP/1.1\r\nHost: ghapp.example\r\nUser-Agent: controller/1\r\nAccept: application/json\r\n"
        f"Authorization: Bearer {token}\r\n\r\n"
    ).encode()


def _batch(ids: Sequence[int], token: str) -> bytes:
    body = json.dumps({"ids": list(ids)}).encode()
    head = (
        "POST /v1/orgs/acme/runners/health HTTP/1.1\r\nHost: ghapp.example\r\nUser-Agent: controller/1\r\n"
        f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _read(port: int, token: str, runner_id: int) -> dict[str, object]:
    return _send(port, "GET", _path(runner_id), token)


def _send(port: int, method: str, path: str, token: str, body: str | None = None) -> dict[str, object]:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request(method, path, body, headers={"Authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    if answer.status != 200:
        raise RuntimeError(f"{answer.status}: {text!r}")
    return dict(json.loads(text))


def _read_all(port: int, token: str, ids: Sequence[int]) -> None:
    """Reads all runners once."""
    for start in range(0, len(ids), AT_ONCE):
        _send(port, "POST", "/v1/orgs/acme/runners/health", token, json.dumps({"ids": ids[start : start + AT_ONCE]}))


def _megabytes_after_reads(port: int, token: str, pid: int) -> float:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    for number in range(READS_AFTER_START):
        connection.request("GET", _path(1 + number % RUNNERS), headers={"Authorization": f"Bearer {token}"})
        connection.getresponse().read()
    connection.close()
    return _megabytes(pid)


def _megabytes(pid: int) -> float:
    kilobytes = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    if kilobytes is None:
        raise RuntimeError("the process has ended")
    return int(kilobytes[1]) / 1024
