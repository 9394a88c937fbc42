"""Runs the faults, waits for recovery, and returns the account."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from random import Random

from redis.asyncio import Redis

from ghapp.deliveries.redelivery import FIRST_WAIT_SECONDS
from ghapp.installations.store import Installations
from ghapp.queue.jobs import BACKOFF_SECONDS
from ghapp.remediation.fuse import Position
from ghapp.remediation.store import Fuses
from tests.chaos.accounting import Account, account_of
from tests.chaos.faults import LANES
from tests.chaos.installation import (
    CONFIRM_SECONDS,
    INTERVAL_SECONDS,
    JOB_SECONDS,
    PROVE_SECONDS,
    STARTUP_SECONDS,
    Installation,
    open_installation,
)
from tests.chaos.schedule import schedule

TICK_SECONDS = 0.1
LOOK_SECONDS = 1.0
ROUNDS = 4
"""Batches of 3, 6, 12 and 24: as many as the largest loss needs."""

TAKEN_OVER_SECONDS = 20.0


def soak(seed: int, seconds: float, folder: Path, report: Callable[[str], object]) -> Account:
    """Run one chaos test; `report` receives each fault when it begins."""
    with open_installation(folder, seed) as context:
        _strike(context, seed, seconds, report)
        context.calm_down()
        return _calm(context, calm_seconds(seconds), report)


def calm_seconds(seconds: float) -> float:
    """Longest recovery in seconds of the last loss and the last delivery, after faults of this many seconds.

    The back-off of failed jobs and deliveries grows with each attempt; the bound is its largest value by then.
    """
    redelivered = FIRST_WAIT_SECONDS
    while 2 * redelivered <= seconds + FIRST_WAIT_SECONDS:  # its attempts were at 0, 30, 90, 210 …
        redelivered *= 2
    tried = accumulate(BACKOFF_SECONDS, initial=0)
    again = max(wait for at, wait in zip(tried, BACKOFF_SECONDS, strict=False) if at <= seconds)
    notice = JOB_SECONDS[1] + STARTUP_SECONDS + CONFIRM_SECONDS + 2 * INTERVAL_SECONDS
    return max(redelivered, again) + TAKEN_OVER_SECONDS + notice + ROUNDS * PROVE_SECONDS


def _strike(context: Installation, seed: int, seconds: float, report: Callable[[str], object]) -> None:
    coming = schedule(seed, seconds)
    began = time.monotonic()
    while (now := time.monotonic() - began) < seconds:
        context.supervise()
        while coming and coming[0].at <= now:
            strike = coming.pop(0)
            report(str(strike))
            LANES[strike.lane].faults[strike.name].act(context, Random(strike.draw), strike.seconds)
        time.sleep(TICK_SECONDS)


def _calm(context: Installation, seconds: float, report: Callable[[str], object]) -> Account:
    """Returns the account once nothing is left to wait for, or at the time limit."""
    report(f"calm, for {seconds:.0f} s at most")
    ends, resumed = time.monotonic() + seconds, 0
    while True:
        context.supervise()
        account = account_of(context, resumed)
        if account.settled or time.monotonic() > ends:
            return account
        if Position.STOPPED in account.stored.fuses.values():
            report("a fuse is stopped; a person resumes it")
            resumed += 1
            context.ask(lambda redis: _resume(context, redis))
        time.sleep(LOOK_SECONDS)


async def _resume(context: Installation, redis: Redis) -> None:
    installation = await Installations(redis).one(context.installation)
    if installation is not None:
        await Fuses(redis).resume(installation, None, "chaos", time.time(), context.settings.policy.fuse)
