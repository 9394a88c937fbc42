"""Judges all shards of an organization's blue/green pools, with the same inputs as one shard's gate."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from ghapp.gate.active_shard import Deploy
from ghapp.gate.gate_checks import posted_check
from ghapp.gate.judgement import ActiveShardSources, Gate, GateRequest, judge_gate
from ghapp.gate.shard_checks import known_shards
from ghapp.gate.shard_status import ShardInputs, has_shards, members_of
from ghapp.installations.installation import Installation
from ghapp.loading.views import load_shard_inputs, load_sources
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


class CheckRunLink(NamedTuple):
    """The page of a check run "Runner gate" on GitHub, and its repository (`owner/name`)."""

    repository: str
    url: str


class GateInputs(NamedTuple):
    """What the gates of a blue/green pool are judged by. `check_runs`: of the last deploys, by shard."""

    pool: PoolSettings
    known: ShardInputs
    sources: ActiveShardSources
    check_runs: Mapping[str, CheckRunLink]


class LoadedGates(NamedTuple):
    """The inputs of all blue/green pools of an organization as of `now` (epoch seconds)."""

    pools: tuple[GateInputs, ...]
    now: float

    @property
    def repositories(self) -> frozenset[str]:
        """All repositories (`owner/name`) that the gates may name."""
        of_jobs = {job.repository for each in self.pools for job in each.known.jobs}
        return frozenset(of_jobs | {link.repository for each in self.pools for link in each.check_runs.values()})

    def judge(self, named: Collection[str]) -> list[PoolGates]:
        """Returns the gates by pool; of each pool the active shard first. They name no repository but `named`."""
        return [_judge(each, self.now, named) for each in self.pools]


async def load_gates(stores: Stores, installation: Installation, settings: Settings, now: float) -> LoadedGates:
    """Returns the inputs of the gates as of `now`; the stores are read once for each pool.

    Raises:
        StoreUnavailableError: Redis does not answer.
    """
    loaded = []
    for pool in filter(has_shards, settings.pools_of(installation.org)):
        known = await load_shard_inputs(stores, installation, settings, pool, now)
        sources = await load_sources(stores, installation, pool)
        check_runs = await load_check_runs(stores, installation, settings.web_url, pool, sources.deploys)
        loaded.append(GateInputs(pool, known, sources, check_runs))
    return LoadedGates(tuple(loaded), now)


async def load_check_runs(
    stores: Stores, installation: Installation, web_url: str, pool: PoolSettings, deploys: Sequence[Deploy]
) -> dict[str, CheckRunLink]:
    """Returns the check runs of a pool's last deploys, by shard; `web_url`: of GitHub's pages."""
    if not pool.deploy_repository:
        return {}
    known, links = await stores.gate_checks.list(installation.id), {}
    for deploy in deploys:
        if (posted := posted_check(pool, deploy, known)) is not None:
            page = f"{web_url}/{installation.at_github(posted.repository)}/runs/{posted.check_run}"
            links[deploy.shard] = CheckRunLink(posted.repository, page)
    return links


def _judge(inputs: GateInputs, now: float, named: Collection[str]) -> PoolGates:
    pool, known, sources = inputs.pool, inputs.known.naming(named), inputs.sources
    names = sorted(known_shards(known, sources.deploys, sources.answer))
    urls = {shard: link.url for shard, link in inputs.check_runs.items() if link.repository in named}
    gates = [
        replace(judge_gate(GateRequest(name, pool.min_online), known, sources, now), check_url=urls.get(name))
        for name in names
    ]
    gates.sort(key=lambda gate: (gate.shard != gate.active, gate.shard))
    runners = {each.name: each.id for each in members_of(known) if not each.online or each.is_busy}
    jobs = frozenset(job.id for job in known.jobs if job.status == "running" and job.repository)
    return PoolGates(known.org, pool, tuple(gates), tuple(sources.deploys), runners, jobs)
