"""Loads the jobs of an organization together with all that explains why they wait."""

from __future__ import annotations

import asyncio

from redis.asyncio import Redis

from ghapp.health.installation import Installation
from ghapp.health.queue.job_queue import JobQueue
from ghapp.settings import Settings
from ghapp.store.demand import Demand
from ghapp.store.org_views import load_org_view
from ghapp.store.runner_groups import RunnerGroupStore
from ghapp.store.runners import Runners


async def load_job_queue(redis: Redis, installation: Installation, settings: Settings, now: float) -> JobQueue:
    """Returns the jobs and runners of an org at `now`; the reads run concurrently.

    Raises:
        StoreUnavailableError: Redis does not answer.
    """
    demand = Demand(redis)
    view, runners, jobs, ended, groups = await asyncio.gather(
        load_org_view(redis, installation, settings),
        Runners(redis).all(installation.id),
        demand.all(installation.id),
        demand.over(installation.id),
        RunnerGroupStore(redis).of(installation.id),
    )
    return view.job_queue(runners.values(), jobs, now, ended=ended, groups=groups)
