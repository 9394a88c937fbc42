"""One worker under everything at once: deliveries without end, a controller that never answers, a redelivery.

Every role is a real process, one of each. What is measured is whether sweeps keep their interval, and whether lost
runners are replaced in time meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from ghapp.deliveries.store import Inbox
from ghapp.github.deliveries import encode, parse
from ghapp.notifications.event_store import Events
from ghapp.queue import jobs
from ghapp.queue.jobs import JobName
from ghapp.store.connect import connect, connect_sync
from tests.bench.figure import Figure
from tests.bench.places import LIST_CALL, POOL, GitHub, github, running
from tests.support.local_redis import embedded_redis

RUNNERS = 300
INTERVAL_SECONDS = 5
CONFIRM_SECONDS = 2
SECONDS = 45.0
DELIVERIES_A_SECOND = 40
WAITING_EVENTS = 300
REDELIVERED = 10_000
REDELIVERED_AFTER_SECONDS = 15.0
LOST_AT_SECONDS = (5.0, 12.0, 17.0, 24.0, 31.0)
LEAST_KEPT = 0.75
MOST_INTERVALS = 2.0
MOST_SECONDS = INTERVAL_SECONDS + CONFIRM_SECONDS + 5.0
START_SECONDS = 40.0
POLICY = f"""
[sweep]
interval_seconds = {INTERVAL_SECONDS}
[evidence]
confirm_seconds = {CONFIRM_SECONDS}
startup_seconds = 1
[[pools]]
org = "acme"
name = "silent"
labels = ["silent"]
replacer = "cloudevents"
url = "%s"
secret_env = "CONTROLLER_SECRET"
"""


def measure(folder: Path) -> list[Figure]:
    """The figures, all of one run."""
    with (
        silent_url() as silent,
        embedded_redis(folder / "redis", durable=True) as url,
        github(folder, RUNNERS) as sandbox,
    ):
        environ, log = sandbox.environ(url, folder, POLICY % silent), folder / "worker.log"
        with (
            running(["-m", "ghapp", "worker"], environ, log),
            running(["-m", "ghapp", "clock"], environ, folder / "clock.log"),
        ):
            _await_first_sweep(sandbox, folder)
            began = time.time()
            most_waiting, left = asyncio.run(_load(url, sandbox, began))
            ended = time.time()
            account = sandbox.account()
    starts = [at for at in _begins(log.read_text()) if began - INTERVAL_SECONDS <= at <= ended]
    longest = max((after - before for before, after in pairwise([*starts, ended])), default=SECONDS)
    seconds = [loss["seconds_to_replace"] for loss in account["losses"]]
    late = [SECONDS if each is None else each for each in seconds]
    due = round(SECONDS / INTERVAL_SECONDS)
    kept = min(due, sum(at >= began for at in starts))
    return [
        Figure(
            "one worker, steady load: sweeps kept of sweeps due",
            f"{kept} of {due}",
            kept / due,
            least=LEAST_KEPT,
            note="a sweep is due an interval after the one before began, so that each one's wait for its turn adds up",
        ),
        Figure(
            "one worker, steady load: longest time between two sweeps",
            f"{longest:.1f} s",
            longest / INTERVAL_SECONDS,
            against=f"interval {INTERVAL_SECONDS} s",
            most=MOST_INTERVALS,
            note=f"{DELIVERIES_A_SECOND} deliveries a second, {WAITING_EVENTS} events for a url that never answers, a "
            f"redelivery of {REDELIVERED:,} after {REDELIVERED_AFTER_SECONDS:.0f} s; one worker, one clock, "
            f"{SECONDS:.0f} s. At most {most_waiting:,} deliveries waited, {left} at the end",
        ),
        Figure(
            "one worker, steady load: registration lost → its replace event, worst",
            f"{max(late):.1f} s, {seconds.count(None)} of {len(seconds)} never",
            max(late) if None not in seconds else float("inf"),
            against=f"interval {INTERVAL_SECONDS} s, confirmed after {CONFIRM_SECONDS} s",
            most=MOST_SECONDS,
            unit=" s",
        ),
    ]


@contextmanager
def silent_url() -> Iterator[str]:
    """The URL of a server that takes connections and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1024)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"


def _await_first_sweep(sandbox: GitHub, folder: Path) -> None:
    ends = time.monotonic() + START_SECONDS
    while '"event": "swept"' not in (folder / "worker.log").read_text():
        if time.monotonic() > ends:
            raise RuntimeError(f"no sweep within {START_SECONDS:.0f} s: {(folder / 'worker.log').read_text()[-2000:]}")
        time.sleep(0.1)
    assert LIST_CALL in sandbox.calls()


async def _load(url: str, sandbox: GitHub, began: float) -> tuple[int, int]:
    """The load until its time is over: the most deliveries that waited at once, and how many did at the end."""
    redis, sync = connect(url), connect_sync(url)

    async def ask_for_drain() -> None:
        jobs.enqueue(sync, JobName.INBOX)

    inbox, events, draw = Inbox(redis, ask_for_drain), Events(redis), random.Random(1)
    for _ in range(WAITING_EVENTS):
        await events.append(sandbox.installation, _event(), "silent")
    losses, redelivered, sent, most_waiting = list(LOST_AT_SECONDS), False, 0, 0
    while (passed := time.time() - began) < SECONDS:
        if losses and passed >= losses[0]:
            losses.pop(0)
            threading.Thread(target=sandbox.control, args=("lose",), kwargs={"org": "acme", "count": 1}).start()
        if not redelivered and passed >= REDELIVERED_AFTER_SECONDS:
            redelivered = True
            await asyncio.gather(*(inbox.keep(*_delivery(sandbox, draw)) for _ in range(REDELIVERED)))
        due = int(passed * DELIVERIES_A_SECOND) - sent
        if due > 0:
            await asyncio.gather(*(inbox.keep(*_delivery(sandbox, draw)) for _ in range(due)))
            sent += due
        most_waiting = max(most_waiting, await inbox.lag())
        await asyncio.sleep(1 / DELIVERIES_A_SECOND)
    left = await inbox.lag()
    await redis.aclose()
    sync.close()
    return most_waiting, left


def _event() -> dict[str, Any]:
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    data = {"runner_id": 1, "pool": "silent"}
    return {"id": str(uuid.uuid4()), "type": "ghapp.runner.lost.v1", "time": now, "data": data}


def _delivery(sandbox: GitHub, draw: random.Random) -> tuple[str, str, bytes]:
    """GUID, event and facts of a `workflow_job` that waits in the queue."""
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    job = {"id": draw.randrange(10**9), "status": "queued", "labels": [POOL], "created_at": now, "started_at": now}
    body = {
        "action": "queued",
        "workflow_job": {"run_id": 1, "name": "build", **job},
        "repository": {"id": 1, "name": "app", "full_name": "acme/app"},
        "organization": {"login": "acme", "id": 1},
        "installation": {"id": sandbox.installation},
    }
    facts = encode(parse("workflow_job", json.dumps(body).encode(), "application/json"))
    return str(uuid.uuid4()), "workflow_job", facts


def _begins(log: str) -> list[float]:
    """When sweeps began (epoch seconds)."""
    lines = [line for line in log.splitlines() if '"event": "swept"' in line and line.endswith("}")]
    rows = [json.loads(line) for line in lines]
    return sorted(datetime.fromisoformat(row["timestamp"]).timestamp() - row["milliseconds"] / 1000 for row in rows)
