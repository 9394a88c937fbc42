"""Where the App is installed, what it may do there, and by which names it is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from redis.asyncio import Redis
from redis.exceptions import WatchError

from ghapp.health.installation import Installation, known_as, named_by
from ghapp.store import keys

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Installation).decode

Rows = dict[int, Installation]


class Installations:
    """The tenants, by the names that the configuration bears.

    Args:
        redis: where they are kept.
        named: the names of the configuration, in lower case, and how much it says of each. None where there is no
            configuration: then each goes by the name under which it was recorded.
    """

    def __init__(self, redis: Redis, named: Mapping[str, int] | None = None) -> None:
        self._redis, self._named = redis, named

    async def all(self) -> list[Installation]:
        """Every known installation, by id."""
        rows: Any = await self._redis.hgetall(keys.INSTALLATIONS)
        return sorted((self._read(row) for row in rows.values()), key=lambda installation: installation.id)

    async def one(self, installation: int) -> Installation | None:
        """An installation by its id."""
        row: Any = await self._redis.hget(keys.INSTALLATIONS, str(installation))
        return self._read(row) if row is not None else None

    async def of(self, org: str) -> Installation | None:
        """An installation by any of its own names, whatever its case."""
        return next((each for each in await self.all() if each.answers_to(org)), None)

    async def put(self, installation: Installation) -> Installation:
        """Record what GitHub says of one installation; as what it is known."""
        rows = await self._revise(lambda known: {**known, installation.id: self._known_as(installation, known)})
        return rows[installation.id]

    async def replace_all(self, installations: Iterable[Installation]) -> list[Installation]:
        """Record a complete list: those not in it are gone; as what each is known, in the same order."""
        told = list(installations)

        def revise(known: Rows) -> Rows:
            seen = dict(known)  # the names of those that are gone are not free yet
            for each in told:
                seen[each.id] = self._known_as(each, seen)
            return {each.id: seen[each.id] for each in told}

        return [*(await self._revise(revise)).values()]

    def _known_as(self, told: Installation, known: Rows) -> Installation:
        return known_as(told, known.values(), self._named or {})

    def _read(self, row: bytes) -> Installation:
        return _decode(row) if self._named is None else named_by(_decode(row), self._named)

    async def _revise(self, change: Callable[[Rows], Rows]) -> Rows:
        """Write what becomes of all records, unless another process was faster: then see what it wrote, and again."""
        async with self._redis.pipeline(transaction=True) as pipe:
            while True:
                try:
                    await pipe.watch(keys.INSTALLATIONS)
                    before: Any = await pipe.hgetall(keys.INSTALLATIONS)
                    known = {each.id: each for each in map(_decode, before.values())}
                    after = change(known)
                    pipe.multi()  # type: ignore[no-untyped-call]
                    pipe.delete(keys.INSTALLATIONS)
                    if after:
                        rows = {str(each): _encode(installation) for each, installation in after.items()}
                        pipe.hset(keys.INSTALLATIONS, mapping=rows)  # type: ignore[arg-type]
                    await pipe.execute()
                except WatchError:
                    continue
                return after

    async def remove(self, installation: int) -> None:
        """The App was uninstalled there."""
        await self._redis.hdel(keys.INSTALLATIONS, str(installation))
