"""Judges all shards of an organization's blue/green pools, with the same inputs as one shard's gate."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple

from ghapp.gate.active_shard import Deploy
from ghapp.gate.judgement import ActiveShardSources, Gate, GateRequest, judge_gate
from ghapp.gate.shard_checks import known_shards
from ghapp.gate.shard_status import ShardInputs, has_shards, members_of
from ghapp.installations.installation import Installation
from ghapp.loading.views import load_shard_inputs
from ghapp.settings import PoolSettings, Settings
from ghapp.store.stores import Stores


class PoolGates(NamedTuple):
    """A blue/green pool of an organization, the gate of each known shard, and the last deploys, the latest last.

    `runners`: the ids of the runners that the gates may name, by name. `jobs`: ids of the jobs that the reader may see.
    """

    org: str
    pool: PoolSettings
    gates: tuple[Gate, ...]
    deploys: tuple[Deploy, ...]
    runners: Mapping[str, int] = MappingProxyType({})
    jobs: Collection[int] = ()


class GateInputs(NamedTuple):
    """What the gates of a blue/green pool are judged by."""

    pool: PoolSettings
    known: ShardInputs
    sources: ActiveShardSources


class LoadedGates(NamedTuple):
    """The inputs of all blue/green pools of an organization as of `now` (epoch seconds)."""

    pools: tuple[GateInputs, ...]
    now: float

    @property
    def repositories(self) -> frozenset[str]:
        """All repositories (`owner/name`) that the gates may name."""
        return frozenset(job.repository for each in self.pools for job in each.known.jobs)

    def judge(self, named: Collection[str]) -> list[PoolGates]:
        """Returns the gates by pool; of each pool the active shard first. They name no repository but `named`."""
        return [_judge(each, self.now, named) for each in self.pools]


async def load_gates(stores: Stores, installation: Installation, settings: Settings, now: float) -> LoadedGates:
    """Returns the inputs of the gates as of `now`; the stores are read once for each pool.

    Raises:
        StoreUnavailableError: Redis does not answer.
    """
    loaded = [
        GateInputs(
            pool,
            await load_shard_inputs(stores, installation, settings, pool, now),
            await load_sources(stores, installation, pool),
        )
        for pool in settings.pools_of(installation.org)
        if has_shards(pool)
    ]
    return LoadedGates(tuple(loaded), now)


async def load_sources(stores: Stores, installation: Installation, pool: PoolSettings) -> ActiveShardSources:
    """Returns what deploys, and the pool's own command or URL, say of the active shard."""

    async def no_answer() -> None:
        return None

    deploys, answer = await asyncio.gather(
        stores.shards.deploys(installation.id, pool.name),
        stores.shards.answer(installation.id, pool.name) if pool.active_source else no_answer(),
    )
    return ActiveShardSources(deploys, pool.active_source, answer)


def _judge(inputs: GateInputs, now: float, named: Collection[str]) -> PoolGates:
    pool, known, sources = inputs.pool, inputs.known.naming(named), inputs.sources
    names = sorted(known_shards(known, sources.deploys, sources.answer))
    gates = [judge_gate(GateRequest(name, pool.min_online), known, sources, now) for name in names]
    gates.sort(key=lambda gate: (gate.shard != gate.active, gate.shard))
    runners = {each.name: each.id for each in members_of(known) if not each.online or each.is_busy}
    jobs = frozenset(job.id for job in known.jobs if job.status == "running" and job.repository)
    return PoolGates(known.org, pool, tuple(gates), tuple(sources.deploys), runners, jobs)
