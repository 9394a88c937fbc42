"""What is known of a blue/green pool just now, from the stores: for the gate, on behalf of a job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ghapp.health.installation import Installation
from ghapp.health.rollout.active import ACTIVE_SECONDS, Deploy
from ghapp.health.rollout.gate import Sources
from ghapp.health.rollout.shardstanding import LOOP_SECONDS, Known
from ghapp.settings import PoolSettings
from ghapp.store.deaths import Deaths
from ghapp.store.shards import Shards
from jobs.house import House

MOST_DEATHS = 500


@dataclass(frozen=True, slots=True)
class Sight:
    """One look at one pool."""

    known: Known
    sources: Sources

    @property
    def without_repositories(self) -> Known:
        """The same, for the eyes of strangers: the names of repositories are left out."""
        return replace(self.known, jobs=[job._replace(repository="") for job in self.known.jobs])


async def sight_of(house: House, installation: Installation, pool: PoolSettings, deploys: Sequence[Deploy]) -> Sight:
    """What the stores say of a pool; its own command or URL was asked by `jobs.active`."""
    survey = await house.runners.survey(installation.id)  # first: what is read after it is no older
    runners = await house.runners.all(installation.id)
    jobs = await house.demand.all(installation.id)
    deaths = None
    if house.settings.namespaces:
        since = house.clock() - LOOP_SECONDS
        deaths = await Deaths(house.redis, house.clock).unclean(installation.id, since, MOST_DEATHS)
    answer = await Shards(house.redis).answer(installation.id, pool.name) if pool.active_source else None
    return Sight(
        Known(
            pool,
            house.settings.pools_of(installation.org),
            runners.values(),
            survey,
            house.settings.of(installation.org).evidence,
            jobs,
            deaths,
            await house.demand.taken(installation.id, house.clock() - ACTIVE_SECONDS),
        ),
        Sources(deploys, pool.active_source, answer),
    )
