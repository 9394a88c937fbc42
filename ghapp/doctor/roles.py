"""Checks the roles: live workers and clocks, waiting and failed jobs, and the inbox of deliveries."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ghapp.deliveries.doctor import of_inbox
from ghapp.deliveries.metrics import DELIVERIES
from ghapp.doctor.finding import Finding, ok, warning, wrong
from ghapp.queue import jobs
from ghapp.store.connect import connect_sync
from ghapp.store.stores import open_stores
from ghapp.wording import counted

GROUP = "roles"
STARTING_SECONDS = 180.0
"""After the start of the workers: what runs once a minute may not have run yet."""

CLOCKS_DIFFER_SECONDS = 60.0
"""A worker dates its start by its machine's clock; a start further in the future is no date."""


def starting(started_at: float | None, now: float) -> str:
    """Returns that the workers have just started, as a part of a sentence; empty if they run for longer.

    Args:
        started_at: when the oldest live worker started (epoch seconds); None: no worker is alive.
        now: epoch seconds.
    """
    if started_at is None or not -CLOCKS_DIFFER_SECONDS <= now - started_at < STARTING_SECONDS:
        return ""
    return f"the workers started {max(0.0, now - started_at):.0f} s ago"


class RolesProbe(NamedTuple):
    """The findings, and when the oldest live worker started (epoch seconds; None: none is alive)."""

    findings: list[Finding]
    started_at: float | None = None


async def check(url: str, *, has_app: bool) -> RolesProbe:
    """Reads heartbeats, queue lengths and the inbox from Redis.

    Args:
        url: of Redis.
        has_app: False: there are no App credentials here; without them no worker and no clock starts.
    """
    async with open_stores(url) as stores:
        inbox, counters = stores.inbox, await stores.counters.all()
        has_come = any(series.startswith(DELIVERIES.name) for series in counters)
        now = await stores.now()
        clocks, off = await stores.heartbeats.alive("clock", now), await stores.heartbeats.clocks_off(now)
        load, started_at = await asyncio.to_thread(_load, url)
        if not has_app and not load.workers and not clocks:
            return RolesProbe([ok(GROUP, "roles", "workers and clocks start once there are App credentials")])
        found = [
            *of_roles(load, clocks),
            *of_clocks(off),
            *of_inbox(await inbox.lag(), await inbox.dead_letters(), has_come=has_come),
        ]
        return RolesProbe(found, started_at)


def of_roles(load: jobs.Load, clocks: Sequence[str]) -> list[Finding]:
    """Judges the number of live workers and clocks, jobs waiting by queue, and jobs failed in the last hour."""
    waiting = ", ".join(f"{name} {count}" for name, count in load.waiting.items() if count) or "nothing"
    found = [
        _of_workers(load),
        ok(GROUP, "clocks", f"{len(clocks)} alive")
        if clocks
        else wrong(GROUP, "clocks", "no clock is alive: no sweep starts", "start `ghapp clock`; two for availability"),
        ok(GROUP, "queues", f"waiting: {waiting}"),
    ]
    if load.failed:
        found.append(warning(GROUP, "failed jobs", f"{load.failed} in the last hour", "see `job failed` in the log"))
    return found


def _of_workers(load: jobs.Load) -> Finding:
    silent = f"{counted(load.silent, 'worker')} sent no heartbeat for {jobs.SILENT_SECONDS} s"
    fix = "see whether they hang or were killed; `ghapp worker` starts another one"
    if not load.workers:
        return wrong(
            GROUP, "workers", f"no worker is alive{f': {silent}' if load.silent else ''}", "start `ghapp worker`"
        )
    if load.silent:
        return warning(GROUP, "workers", f"{load.workers} alive; {silent}", fix)
    return ok(GROUP, "workers", f"{load.workers} alive")


def of_clocks(off: Mapping[str, float]) -> list[Finding]:
    """Judges the times of the roles' machines: by how many seconds each is ahead of Redis', if it differs."""
    fix = "synchronize that machine's clock (NTP): ghapp dates records by Redis, but GitHub refuses wrong tokens"
    ahead = {
        who: f"{abs(seconds):.0f} s {'ahead of' if seconds > 0 else 'behind'} Redis" for who, seconds in off.items()
    }
    return [warning(GROUP, "time", f"{who}: its clock is {how}", fix) for who, how in sorted(ahead.items())]


def _load(url: str) -> tuple[jobs.Load, float | None]:
    queue_redis = connect_sync(url)
    try:
        return jobs.load(queue_redis), jobs.started_at(queue_redis)
    finally:
        queue_redis.close()
