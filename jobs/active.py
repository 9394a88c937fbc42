"""Ask each blue/green pool's own command or URL which shard is active, and keep the answer for the gate."""

from __future__ import annotations

import asyncio

from ghapp.active import ask_active
from ghapp.health.installation import Installation
from ghapp.log import logger
from ghapp.settings import PoolSettings
from ghapp.store.shards import Shards
from jobs.house import House, furnished, open_house

log = logger(__name__)


async def ask_shards(installation_id: int) -> None:
    """The job: every pool of one org, on behalf of the clock."""
    async with open_house(furnished()) as house:
        await ask_shards_of(house, installation_id)


async def ask_shards_of(house: House, installation_id: int) -> int:
    """Ask them all at once; how many have answered. A failure is kept, too: the gate names it."""
    installation = await house.installations.one(installation_id)
    if installation is None:
        return 0
    pools = [pool for pool in house.settings.pools_of(installation.org) if pool.active_source]
    return sum(await asyncio.gather(*(_ask(house, installation, pool) for pool in pools)))


async def _ask(house: House, installation: Installation, pool: PoolSettings) -> bool:
    answer = await ask_active(house.settings, pool, house.clock)
    if answer is None:
        return False
    await Shards(house.redis).answered(installation.id, pool.name, answer)
    if answer.failure:
        log.warning("active shard not known", org=installation.org, pool=pool.name, why=answer.failure)
    return not answer.failure
