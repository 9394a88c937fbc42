"""Queries the active shard of each blue/green pool by its own command or URL, and stores the answer for the gate."""

from __future__ import annotations

import asyncio

from ghapp.active_shard import query_active_shard
from ghapp.installations.installation import Installation
from ghapp.log import logger
from ghapp.queue.jobs import JobName
from ghapp.settings import PoolSettings
from jobs.context import JobContext
from jobs.each_installation import each_installation
from jobs.periodic_task import PeriodicTask, SchedulerContext, enqueue_where

log = logger(__name__)


async def refresh_active_shards(*installation_ids: int) -> None:
    """The job: queries every pool of these orgs."""
    await each_installation(JobName.ACTIVE, refresh_active_shards_of, installation_ids)


async def refresh_active_shards_of(context: JobContext, installation_id: int) -> int:
    """Queries all pools at once; returns how many answered. A failure is stored, too, for the gate's report."""
    installation = await context.installations.one(installation_id)
    if installation is None:
        return 0
    pools = [pool for pool in context.settings.pools_of(installation.org) if pool.active_source]
    return sum(await asyncio.gather(*(_ask(context, installation, pool) for pool in pools)))


async def _ask(context: JobContext, installation: Installation, pool: PoolSettings) -> bool:
    answer = await query_active_shard(context.settings, pool, context.clock)
    if answer is None:
        return False
    await context.shards.answered(installation.id, pool.name, answer)
    if answer.failure:
        log.warning("active shard unknown", org=installation.org, pool=pool.name, why=answer.failure)
    return not answer.failure


async def _has_source(context: SchedulerContext, installation: Installation) -> bool:
    return any(pool.active_source for pool in context.settings.pools_of(installation.org))


ASK_SHARDS = PeriodicTask("ask_shards", 30.0, enqueue_where(JobName.ACTIVE, _has_source))
"""Queries the active shard of blue/green pools; the gate accepts an answer for five minutes."""
