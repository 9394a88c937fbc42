"""Until when GitHub gives jobs to each version of the runner, as GitHub last reported it to each installation."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from redis.asyncio import Redis

from ghapp.store import keys
from ghapp.store.codec import Codec
from ghapp.store.quarantine import RecordReader
from ghapp.versions.lifetime import KEPT_SECONDS, EndDates

_end_dates = Codec("runner-version", EndDates)


class RunnerVersions:
    """The end dates of the versions that run in all installations."""

    def __init__(self, redis: Redis) -> None:
        self._redis, self._read = redis, RecordReader(redis, _end_dates)

    async def all(self, installation: int) -> dict[str, EndDates]:
        """Returns the end dates by version.

        Raises:
            StoreUnavailableError: Redis does not answer.
        """
        key = keys.runner_versions(installation)
        rows: Any = await self._redis.hgetall(key)
        return {version.decode(): dates for version, dates in (await self._read.many(key, rows)).items()}

    async def put(self, installation: int, dates: Mapping[str, EndDates], unused: Collection[str] = ()) -> None:
        """Records the end dates of some versions, and deletes those of others, which no runner has any more.

        Raises:
            StoreUnavailableError: Redis does not answer.
        """
        key = keys.runner_versions(installation)
        rows: dict[Any, Any] = {version: _end_dates.encode(each) for version, each in dates.items()}
        async with self._redis.pipeline(transaction=True) as pipe:
            if unused:
                pipe.hdel(key, *unused)
            if rows:
                pipe.hset(key, mapping=rows)
                pipe.expire(key, int(KEPT_SECONDS))
            await pipe.execute()
