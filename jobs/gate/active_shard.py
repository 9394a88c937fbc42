"""Queries the active shard of each blue/green pool by its own command or URL, and stores the answer for the gate."""

from __future__ import annotations

import asyncio

from ghapp.active_shard import query_active_shard
from ghapp.health.installation import Installation
from ghapp.log import logger
from ghapp.settings import PoolSettings
from jobs.context import JobContext, configured, open_context

log = logger(__name__)


async def refresh_active_shards(installation_id: int) -> None:
    """The job: queries every pool of one org."""
    async with open_context(configured()) as context:
        await refresh_active_shards_of(context, installation_id)


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
