"""Whether pools have their pods where the configuration says: a namespace that is wrong may exist all the same."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ghapp.doctor.finding import Finding, ok, warning
from ghapp.doctor.probe import connected, probe
from ghapp.health.pool_matching import pool_of
from ghapp.settings import PoolSettings, Settings
from ghapp.store.installations import Installations
from ghapp.store.pod_locations import PodLocations
from ghapp.store.runners import Runners

GROUP = "cluster"
IN_CLUSTER = ("arc", "pods")
"""Replacers that act on what is, or is not, in the namespace."""

BROKE_OFF = "mend Redis, above"


async def look(settings: Settings, url: str | None) -> list[Finding]:
    """What the watch and earlier looks have seen of each pool that is replaced in the cluster."""
    pools = [pool for pool in settings.pools if pool.namespace and pool.replacer in IN_CLUSTER]
    if url is None or not pools:
        return []
    return await probe(GROUP, "places", partial(_look, settings, pools, url), BROKE_OFF)


async def _look(settings: Settings, pools: Sequence[PoolSettings], url: str) -> list[Finding]:
    found: list[Finding] = []
    async with connected(url) as redis:
        installations = Installations(redis)
        for org in sorted({pool.org for pool in pools}):
            installation = await installations.of(org)
            if installation is None:
                continue
            rules, everyone = settings.pools_of(org), (await Runners(redis).all(installation.id)).values()
            peopled = {pool_of(each.labels, each.custom_labels, rules) for each in everyone if each.registered}
            seen = await PodLocations(redis).all(installation.id)
            found += of_places([pool for pool in pools if pool.org == org and pool.name in peopled], seen)
    return found


def of_places(pools: Sequence[PoolSettings], seen: set[tuple[str, str]]) -> list[Finding]:
    """Whether anything of these pools, each of which has runners, was ever seen in its namespace.

    Args:
        pools: of one org.
        seen: what was: (pool, namespace).
    """
    found = []
    for pool in pools:
        name, namespace = f"place of {pool.name}", pool.namespace or ""
        if (pool.name, namespace) in seen:
            found.append(ok(GROUP, name, f"its pods are in {namespace}", pool.org))
            continue
        said = f"nothing in {namespace} is called as one of its runners: of lost ones, none is replaced there"
        fix = "give [[pools]] the namespace of its pods, have pods called as their runners, and let `ghapp watch` run"
        found.append(warning(GROUP, name, said, fix, pool.org))
    return found
