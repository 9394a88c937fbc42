"""Where the App is installed, and what it may do there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from redis.asyncio import Redis

from ghapp.health.installation import Installation
from ghapp.store import keys

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Installation).decode


class Installations:
    """The tenants."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def all(self) -> list[Installation]:
        """Every known installation, by id."""
        rows: Any = await self._redis.hgetall(keys.INSTALLATIONS)
        return sorted((_decode(row) for row in rows.values()), key=lambda installation: installation.id)

    async def one(self, installation: int) -> Installation | None:
        """An installation by its id."""
        row: Any = await self._redis.hget(keys.INSTALLATIONS, str(installation))
        return _decode(row) if row is not None else None

    async def of(self, org: str) -> Installation | None:
        """An installation by its account's login, whatever its case."""
        return next((each for each in await self.all() if each.org.lower() == org.lower()), None)

    async def put(self, installation: Installation) -> None:
        """Record what GitHub says of one installation."""
        await self._redis.hset(keys.INSTALLATIONS, str(installation.id), _encode(installation))

    async def replace_all(self, installations: Iterable[Installation]) -> None:
        """Record a complete list: those not in it are gone."""
        rows = {str(each.id): _encode(each) for each in installations}
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.delete(keys.INSTALLATIONS)
            if rows:
                pipe.hset(keys.INSTALLATIONS, mapping=rows)  # type: ignore[arg-type]
            await pipe.execute()

    async def remove(self, installation: int) -> None:
        """The App was uninstalled there."""
        await self._redis.hdel(keys.INSTALLATIONS, str(installation))
