"""Checks that each pool's pods are in its configured namespace; a wrong namespace may exist as well."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ghapp.doctor.finding import Finding, ok, probe, warning
from ghapp.installations.pool_matching import runner_pool
from ghapp.settings import PoolSettings, Settings
from ghapp.store.stores import open_stores

GROUP = "cluster"
IN_CLUSTER = ("arc", "pods")
"""Replacers that act on objects in the namespace."""

REDIS_FAILED = "fix Redis, see redis above"


async def check(settings: Settings, url: str | None) -> list[Finding]:
    """Checks each pool that is replaced in the cluster, from what the watch and earlier snapshots recorded."""
    pools = [pool for pool in settings.pools if pool.namespace and pool.replacer in IN_CLUSTER]
    if url is None or not pools:
        return []
    return await probe(GROUP, "places", partial(_check, settings, pools, url), REDIS_FAILED)


async def _check(settings: Settings, pools: Sequence[PoolSettings], url: str) -> list[Finding]:
    found: list[Finding] = []
    async with open_stores(url) as stores:
        installations = stores.installations
        for org in sorted({pool.org for pool in pools}):
            installation = await installations.of(org)
            if installation is None:
                continue
            rules, runners = settings.pools_of(org), (await stores.runners.all(installation.id)).values()
            with_runners = {runner_pool(each, rules) for each in runners if each.registered}
            seen = await stores.pod_locations.all(installation.id)
            found += of_places([pool for pool in pools if pool.org == org and pool.name in with_runners], seen)
    return found


def of_places(pools: Sequence[PoolSettings], seen: set[tuple[str, str]]) -> list[Finding]:
    """Reports whether a pod of each pool was ever seen in the pool's namespace.

    Args:
        pools: pools of one org, each with registered runners.
        seen: pairs of pool and namespace where a pod was seen.
    """
    found = []
    for pool in pools:
        name, namespace = f"place of {pool.name}", pool.namespace or ""
        if (pool.name, namespace) in seen:
            found.append(ok(GROUP, name, f"its pods are in {namespace}", pool.org))
            continue
        text = f"no pod in {namespace} has the name of one of its runners, so its lost runners are not replaced there"
        fix = "set the namespace in [[pools]], name pods as their runners, and run `ghapp watch`"
        found.append(warning(GROUP, name, text, fix, pool.org))
    return found
