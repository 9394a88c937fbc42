"""Loads the jobs of an organization together with all that explains why they wait."""

from __future__ import annotations

import asyncio

from ghapp.health.installation import Installation
from ghapp.health.queue.job_queue import JobQueue
from ghapp.settings import Settings
from ghapp.store.org_views import load_org_view
from ghapp.store.stores import Stores


async def load_job_queue(stores: Stores, installation: Installation, settings: Settings, now: float) -> JobQueue:
    """Returns the jobs and runners of an org at `now`; the reads run concurrently.

    Raises:
        StoreUnavailableError: Redis does not answer.
    """
    view, runners, jobs, ended, groups = await asyncio.gather(
        load_org_view(stores, installation, settings),
        stores.runners.all(installation.id),
        stores.demand.all(installation.id),
        stores.demand.over(installation.id),
        stores.runner_groups.of(installation.id),
    )
    return view.job_queue(runners.values(), jobs, now, ended=ended, groups=groups)
