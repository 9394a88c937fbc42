"""The watch: how old its view of each namespace is, and who of its replicas leads."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial

from ghapp.cluster.access import WATCH_LEASE
from ghapp.cluster.api import Cluster
from ghapp.cluster.request import LEASES, ClusterRequest
from ghapp.cluster.wire.leases import lease
from ghapp.doctor.finding import Finding, ok, warning
from ghapp.doctor.probe import connected, probe
from ghapp.errors import ClusterForbiddenError
from ghapp.health.pods.pod import is_fresh
from ghapp.report.documents import timestamp
from ghapp.settings import Settings
from ghapp.store.heartbeats import Heartbeats
from ghapp.store.pods import Pods

GROUP = "cluster"
START = "start `ghapp watch`; two, for availability. Until then deaths and phantoms are not seen"
BROKE_OFF = "mend Redis, above"


async def of_views(settings: Settings, url: str | None) -> list[Finding]:
    """What the watch has stored of each namespace."""
    if url is None or not settings.namespaces:
        return []
    return await probe(GROUP, "views", partial(_views, settings.namespaces, url), BROKE_OFF)


async def of_leader(cluster: Cluster, url: str | None) -> list[Finding]:
    """Who leads, by the lease, and whether it is alive, by its heartbeat."""
    if url is None:
        return []
    return await probe(GROUP, "leader", partial(_leader, cluster, url), "see the rights of watch")


async def _views(namespaces: Sequence[str], url: str) -> list[Finding]:
    async with connected(url) as redis:
        pods = Pods(redis)
        return of_ages({each: await pods.seen_at(each) for each in namespaces}, time.time())


async def _leader(cluster: Cluster, url: str) -> list[Finding]:
    async with connected(url) as redis:
        alive = await Heartbeats(redis).alive("watch", time.time())
    try:
        body = await cluster.transport.send(ClusterRequest("get", LEASES, cluster.namespace, WATCH_LEASE))
    except ClusterForbiddenError:
        return []  # the rights say so; a worker's account need not read it
    return [of_holder("" if body is None else lease(body).holder, alive)]


def of_ages(seen_at: Mapping[str, float | None], now: float) -> list[Finding]:
    """How old each view is."""
    found = []
    for namespace, at in sorted(seen_at.items()):
        name = f"view of {namespace}"
        if at is None:
            found.append(warning(GROUP, name, "it was never seen", START))
        elif is_fresh(at, now):
            found.append(ok(GROUP, name, f"{max(0.0, now - at):.0f} s old"))
        else:
            fix = f"{START}. Where it runs, `watch sees nothing` in its log says why"
            found.append(warning(GROUP, name, f"last seen at {timestamp(float(int(at)))}", fix))
    return found


def of_holder(holder: str, alive: Sequence[str]) -> Finding:
    """Whether somebody leads.

    Args:
        holder: whom the lease names; empty for nobody.
        alive: the watches that were heard of lately.
    """
    if holder in alive:
        return ok(GROUP, "leader", f"{holder}, of {len(alive)} alive")
    if not alive:
        return warning(GROUP, "leader", "no watch is alive", START)
    said = f"{len(alive)} watches are alive, and " + (f"{holder} leads, which is not" if holder else "none leads")
    fix = "wait 20 s; if it stays so, `lease renewal failed` in their log says why"
    return warning(GROUP, "leader", said, fix)
