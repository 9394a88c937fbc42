"""A sweep of ten thousand runners: how long, how many calls, and what is kept of each runner."""

from __future__ import annotations

import asyncio
import math
import os
from pathlib import Path

from redis.asyncio import Redis

from ghapp.settings import Settings
from ghapp.store import keys
from jobs.context import JobContext, open_context
from jobs.installations.discover import discover_installations
from jobs.runners.record_list import SweepResult
from jobs.runners.sweep import sweep_installation
from tests.bench.cpu import scheduled
from tests.bench.figure import Figure, middle
from tests.bench.places import LIST_CALL, GitHub, github
from tests.support.local_redis import embedded_redis

RUNNERS = 10_000
PER_PAGE = 100
CALL_SECONDS = 0.1
CONCURRENCY = 10
ROUNDS = 5
MOST_OVER_FLOOR = 1.6
MOST_BYTES = 700


def measure(folder: Path) -> list[Figure]:
    """All figures of a sweep, in this process: what a work-horse does between its fork and its end."""
    with (
        embedded_redis(folder / "redis", durable=True) as url,
        github(folder, RUNNERS, latency_seconds=CALL_SECONDS) as sandbox,
    ):
        return asyncio.run(_measure(url, sandbox, folder))


async def _measure(url: str, sandbox: GitHub, folder: Path) -> list[Figure]:
    settings = Settings.read(sandbox.environ(url, folder))
    floor = RUNNERS / PER_PAGE * CALL_SECONDS / CONCURRENCY
    first, ours, theirs, waited = [], [], [], []
    async with open_context(settings) as context:
        await discover_installations(context)
        await _sweep(context, sandbox.installation)  # mints the token, which holds for an hour
        for _ in range(ROUNDS):
            await _forget(context.redis, sandbox.installation)
            here, there = scheduled(os.getpid()), scheduled(sandbox.process)
            account, listed, _ = await _seen(context, sandbox)
            spent = scheduled(os.getpid()).since(here)
            ours.append(spent.ran)
            waited.append(spent.waited)
            theirs.append(scheduled(sandbox.process).since(there).ran)
            first.append(account.milliseconds / 1000)
        quiet, _, billed = await _seen(context, sandbox)
        records, pages = await _bytes(context.redis, sandbox.installation)
    taken, spread = middle([each / floor for each in first])
    pages_in_all = math.ceil(RUNNERS / PER_PAGE)
    return [
        Figure(
            "sweep of 10,000 runners, 100 ms a call, 10 at once",
            f"{middle(first)[0]:.2f} s",
            taken,
            against=f"floor {floor:.1f} s",
            spread=spread,
            most=MOST_OVER_FLOOR,
            note=f"all of them new to Redis; {middle(ours)[0]:.2f} s of CPU here, {middle(waited)[0]:.2f} s without a "
            f"free core for it, {middle(theirs)[0]:.2f} s of CPU in the simulated GitHub. A quiet one: "
            f"{quiet.milliseconds / 1000:.2f} s. "
            "The first page must come before the others: no sweep can take less than 1.1 s",
        ),
        Figure("list calls of that sweep over ⌈N/100⌉", f"{listed} calls", listed / pages_in_all, least=1.0, most=1.0),
        Figure("billable calls of a second, quiet sweep", f"{billed} calls", float(billed), least=0.0, most=0.0),
        Figure(
            "Redis memory per known runner, of 10,000",
            f"{(records + pages) / RUNNERS:.0f} bytes",
            (records + pages) / RUNNERS,
            most=MOST_BYTES,
            unit=" bytes",
            note=f"every key of the installation: {records / RUNNERS:.0f} bytes of records, "
            f"{pages / RUNNERS:.0f} of GitHub's pages with their ETags",
        ),
    ]


async def _seen(context: JobContext, sandbox: GitHub) -> tuple[SweepResult, int, int]:
    """A sweep, the list calls that GitHub saw of it, and how many calls it counted."""
    sandbox.control("reset-account")
    account = await _sweep(context, sandbox.installation)
    calls = sandbox.calls()
    return account, calls[LIST_CALL]["total"], sum(each["counted"] for each in calls.values())


async def _sweep(context: JobContext, installation: int) -> SweepResult:
    account = await sweep_installation(context, installation, act=False)
    if account is None or account.flaw or account.runners != RUNNERS:
        raise RuntimeError(f"no good sweep: {account}")
    return account


async def _forget(redis: Redis, installation: int) -> None:
    """Everything but the token."""
    kept = keys.credential(installation).encode()
    await redis.delete(*[key async for key in redis.scan_iter(f"ghapp:{installation}:*") if key != kept])


async def _bytes(redis: Redis, installation: int) -> tuple[int, int]:
    """Of all keys of the installation but its pages, and of its pages."""
    sizes = {
        key: int(await redis.memory_usage(key, samples=0) or 0)
        async for key in redis.scan_iter(f"ghapp:{installation}:*")
    }
    pages = sizes.pop(keys.pages(installation).encode())
    return sum(sizes.values()), pages
