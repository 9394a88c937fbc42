"""What is known of a blue/green pool just now, from the stores: for the gate, on behalf of a job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ghapp.health.gate.active_shard import ACTIVE_SECONDS, Deploy
from ghapp.health.gate.judgement import ActiveShardSources
from ghapp.health.gate.shard_status import LOOP_SECONDS, ShardInputs
from ghapp.health.installation import Installation
from ghapp.settings import PoolSettings
from jobs.context import JobContext

MOST_DEATHS = 500


@dataclass(frozen=True, slots=True)
class GateInputs:
    """The inputs of the gate for one pool, read at one moment."""

    known: ShardInputs
    sources: ActiveShardSources

    @property
    def without_repositories(self) -> ShardInputs:
        """The same without names of repositories, for a check run in a public repository."""
        return replace(self.known, jobs=[job._replace(repository="") for job in self.known.jobs])


async def gate_inputs(
    context: JobContext, installation: Installation, pool: PoolSettings, deploys: Sequence[Deploy]
) -> GateInputs:
    """What the stores say of a pool; its own command or URL was asked by `jobs.gate.active_shard`."""
    survey = await context.runners.survey(installation.id)  # first: what is read after it is no older
    runners = await context.runners.all(installation.id)
    jobs = await context.demand.all(installation.id)
    deaths = None
    if context.settings.namespaces:
        since = context.clock() - LOOP_SECONDS
        deaths = await context.deaths.unclean(installation.id, since, MOST_DEATHS)
    answer = await context.shards.answer(installation.id, pool.name) if pool.active_source else None
    return GateInputs(
        ShardInputs(
            pool,
            context.settings.pools_of(installation.org),
            runners.values(),
            survey,
            context.settings.of(installation.org).evidence,
            jobs,
            deaths,
            await context.demand.taken(installation.id, context.clock() - ACTIVE_SECONDS),
        ),
        ActiveShardSources(deploys, pool.active_source, answer),
    )
