"""From the loss of a registration to the event that asks for its replacement, with every role a real process."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bench.figure import Figure, middle
from tests.bench.places import LIST_CALL, GitHub, github, running
from tests.support.local_redis import embedded_redis

RUNNERS = 300
LOSSES = 11
APART_SECONDS = (3.0, 7.0)
PATIENCE_SECONDS = 40.0
MOST_SECONDS = 15.0
POLICY = """
[sweep]
interval_seconds = 10
[evidence]
confirm_seconds = 5
startup_seconds = 1
"""
"""A lost runner must have been seen before; `startup_seconds` would only make the bench wait."""


def measure(folder: Path) -> list[Figure]:
    """The figure. The losses come at odd times, so that they fall anywhere between two sweeps."""
    with embedded_redis(folder / "redis", durable=True) as url, github(folder, RUNNERS) as sandbox:
        environ = sandbox.environ(url, folder, POLICY)
        with (
            running(["-m", "ghapp", "worker"], environ, folder / "worker.log"),
            running(["-m", "ghapp", "clock"], environ, folder / "clock.log"),
        ):
            _wait(sandbox, lambda account: LIST_CALL in account["calls"], folder)
            times = random.Random(1)
            for _ in range(LOSSES):
                time.sleep(times.uniform(*APART_SECONDS))
                sandbox.control("lose", org="acme", count=1)
            account = _wait(sandbox, lambda account: None not in _taken(account), folder)
    seconds, spread = middle([each for each in _taken(account) if each is not None])
    wrong = len(account["wrongful_removals"]) + len(account["wrongful_replacements"])
    if wrong:
        raise RuntimeError(f"{wrong} runners that worked were taken away")
    return [
        Figure(
            "registration lost → its replace event, median",
            f"{seconds:.1f} s",
            seconds,
            spread=spread,
            most=MOST_SECONDS,
            unit=" s",
            note=f"{LOSSES} losses at odd times among {RUNNERS} runners, swept every 10 s and confirmed after 5 s",
        )
    ]


def _taken(account: dict[str, Any]) -> list[float | None]:
    """For each loss the seconds to its replace event; None while there is none."""
    return [loss["seconds_to_replace"] for loss in account["losses"]]


def _wait(sandbox: GitHub, condition: Callable[[dict[str, Any]], bool], folder: Path) -> dict[str, Any]:
    """What the sandbox has seen once that is so; RuntimeError with the output of the roles when it never is."""
    ends = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < ends:
        if condition(account := sandbox.account()):
            return account
        time.sleep(0.1)
    text = "".join((folder / f"{role}.log").read_text()[-2000:] for role in ("worker", "clock"))
    raise RuntimeError(f"waited {PATIENCE_SECONDS:.0f} s without success: {text}")
