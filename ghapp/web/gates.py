"""Judges all shards of an organization's blue/green pools, with the same inputs as one shard's gate."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from ghapp.health.gate.active_shard import Deploy
from ghapp.health.gate.judgement import ActiveShardSources, Gate, GateRequest, judge_gate
from ghapp.health.gate.shard_checks import known_shards
from ghapp.health.installation import Installation
from ghapp.health.shards import has_shards
from ghapp.settings import PoolSettings, Settings
from ghapp.store.org_views import load_shard_inputs
from ghapp.store.stores import Stores


class PoolGates(NamedTuple):
    """A blue/green pool, the gate of each shard that is known, and the last deploys, the latest last."""

    pool: PoolSettings
    gates: tuple[Gate, ...]
    deploys: tuple[Deploy, ...]


async def load_gates(
    stores: Stores, installation: Installation, settings: Settings, now: float, *, with_repositories: bool
) -> list[PoolGates]:
    """Returns the gates as of `now`, by pool; of each pool the active shard first.

    Args:
        stores: read once for each pool.
        installation: of the organization.
        settings: with its pools.
        now: epoch seconds.
        with_repositories: False: without the names of repositories, for who may not read all of them.

    Raises:
        StoreUnavailableError: Redis does not answer.
    """
    pools = [pool for pool in settings.pools_of(installation.org) if has_shards(pool)]
    return [
        await _load(stores, installation, settings, pool, now, with_repositories=with_repositories) for pool in pools
    ]


async def load_sources(stores: Stores, installation: Installation, pool: PoolSettings) -> ActiveShardSources:
    """Returns what deploys, and the pool's own command or URL, say of the active shard."""

    async def no_answer() -> None:
        return None

    deploys, answer = await asyncio.gather(
        stores.shards.deploys(installation.id, pool.name),
        stores.shards.answer(installation.id, pool.name) if pool.active_source else no_answer(),
    )
    return ActiveShardSources(deploys, pool.active_source, answer)


async def _load(
    stores: Stores,
    installation: Installation,
    settings: Settings,
    pool: PoolSettings,
    now: float,
    *,
    with_repositories: bool,
) -> PoolGates:
    known = await load_shard_inputs(stores, installation, settings, pool, now)
    known = known if with_repositories else known.without_repositories
    sources = await load_sources(stores, installation, pool)
    names = sorted(known_shards(known, sources.deploys, sources.answer))
    gates = [judge_gate(GateRequest(name, pool.min_online), known, sources, now) for name in names]
    gates.sort(key=lambda gate: (gate.shard != gate.active, gate.shard))
    return PoolGates(pool, tuple(gates), tuple(sources.deploys))
