"""Checks the watch: the age of its snapshot of each namespace, and which replica is the leader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from ghapp.doctor.finding import Finding, ok, probe, warning, wrong
from ghapp.pods.degraded_sources import sources_of
from ghapp.pods.pod import is_fresh
from ghapp.settings import Settings
from ghapp.store.locks import ROLE
from ghapp.store.stores import open_stores
from ghapp.wording import time_of

GROUP = "cluster"
START = "start `ghapp watch`; two for availability. Until then deaths and phantoms are not detected"
REDIS_FAILED = "fix Redis, see redis above"


async def check(settings: Settings, url: str | None) -> list[Finding]:
    """Checks the snapshot that the watch stored of each namespace, and that a live watch records."""
    if url is None or not settings.namespaces:
        return []
    has_log_store = settings.loki_url is not None
    views = partial(_views, settings.namespaces, url, has_log_store=has_log_store)
    return await probe(GROUP, "views", views, REDIS_FAILED)


async def _views(namespaces: Sequence[str], url: str, *, has_log_store: bool) -> list[Finding]:
    async with open_stores(url) as stores:
        now = await stores.now()
        degraded = await stores.degraded_sources.of(sources_of(namespaces, has_log_store=has_log_store))
        ages = of_ages({each: await stores.pods.seen_at(each) for each in namespaces}, now)
        holder, alive = await stores.locks.holder(ROLE, "watch"), await stores.heartbeats.alive("watch", now)
        return [*ages, *of_degraded(degraded), of_holder(holder, alive)]


def of_ages(seen_at: Mapping[str, float | None], now: float) -> list[Finding]:
    """Judges the age of each snapshot."""
    found = []
    for namespace, at in sorted(seen_at.items()):
        name = f"view of {namespace}"
        if at is None:
            found.append(warning(GROUP, name, "never stored", START))
        elif is_fresh(at, now):
            found.append(ok(GROUP, name, f"{max(0.0, now - at):.0f} s old"))
        else:
            fix = f"{START}. If it runs, `watch failed` in its log has the reason"
            found.append(warning(GROUP, name, f"last stored at {time_of(at)}", fix))
    return found


def of_degraded(degraded: Mapping[str, str]) -> list[Finding]:
    """Reports what the watch, or a worker, cannot read of a source, in the server's words."""
    fix = (
        "grant what is missing, or ask the cluster's admin; meanwhile, what happens there is not seen, or only in part"
    )
    return [wrong(GROUP, f"not seen: {place}", why, fix) for place, why in degraded.items()]


def of_holder(holder: str, alive: Sequence[str]) -> Finding:
    """Checks that a live watch is the leader.

    Args:
        holder: the holder of the lock; empty for no holder.
        alive: the watches with a recent heartbeat.
    """
    if holder in alive:
        return ok(GROUP, "leader", f"{holder}, of {len(alive)} alive")
    if not alive:
        return warning(GROUP, "leader", "no watch is alive", START)
    text = f"{len(alive)} watches are alive, but " + (
        f"the leader is {holder}, which is not" if holder else "none leads"
    )
    fix = "wait 20 s; if it persists, `leadership lost` or `Redis unavailable, retrying` in their log has the reason"
    return warning(GROUP, "leader", text, fix)
