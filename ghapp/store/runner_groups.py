"""The runner groups of each organization, as GitHub last showed them."""

from __future__ import annotations

from typing import Any

from redis.asyncio import Redis

from ghapp.store import keys
from ghapp.store.codec import Codec
from ghapp.store.quarantine import RecordReader
from ghapp.workflow_jobs.runner_groups import RunnerGroups

KEPT_SECONDS = 2 * 3600
"""They are read once an hour. Older ones give no reason for a job to wait."""

_groups = Codec("runner-groups", RunnerGroups)


class RunnerGroupStore:
    """The runner groups of all installations."""

    def __init__(self, redis: Redis) -> None:
        self._redis, self._read = redis, RecordReader(redis, _groups)

    async def keep(self, installation: int, groups: RunnerGroups) -> None:
        """Records the groups of an organization."""
        await self._redis.set(keys.runner_groups(installation), _groups.encode(groups), ex=KEPT_SECONDS)

    async def of(self, installation: int) -> RunnerGroups | None:
        """Returns the groups; None if they were not read within two hours."""
        row: Any = await self._redis.get(keys.runner_groups(installation))
        return await self._read.one(keys.runner_groups(installation), row)
