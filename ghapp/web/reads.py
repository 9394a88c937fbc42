"""What readers are told, and controllers tell: from an in-process cache, at most a second old, with Redis behind it.

While Redis is away they are told what was last known, and how old it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any, cast

from cachetools import LRUCache, TTLCache
from redis.asyncio import Redis
from redis.exceptions import RedisError

from ghapp.errors import StoreUnavailableError
from ghapp.health.document import Document, PoolStanding, health_document, never_seen
from ghapp.health.evidence import Evidence, Survey
from ghapp.health.fuse import Fuse
from ghapp.health.installation import Installation
from ghapp.health.pools import pool_of
from ghapp.health.verdict import judge
from ghapp.settings import Settings
from ghapp.store.fuses import WHOLE_ORG, Fuses, Pause
from ghapp.store.installations import Installations
from ghapp.store.runners import Runners

FRESH_SECONDS = 1.0
MOST_FRESH = 20_000
MOST_KNOWN = 50_000


@dataclass(frozen=True, slots=True)
class Org:
    """What holds for all runners of an org."""

    installation: Installation
    survey: Survey
    fuses: dict[str, Fuse]
    pauses: dict[str, Pause]


class Reads:
    """Health documents."""

    def __init__(self, settings: Settings, redis: Redis) -> None:
        self._settings = settings
        self._installations, self._runners, self._fuses = Installations(redis), Runners(redis), Fuses(redis)
        self._fresh: TTLCache[Hashable, Any] = TTLCache(MOST_FRESH, FRESH_SECONDS)
        self._last: LRUCache[Hashable, Any] = LRUCache(MOST_KNOWN)
        self._loading: dict[Hashable, asyncio.Future[Any]] = {}

    async def by_id(self, org: str, runner_id: int, now: float) -> Document:
        """The document of one runner; `unknown` when nobody told us of it, or of its org."""
        of = await self._org(org)
        if of is None:
            return never_seen(org, runner_id, None)
        installation = of.installation.id

        async def load() -> Evidence | None:
            return (await self._runners.some(installation, [runner_id])).get(runner_id)

        evidence: Evidence | None = await self._read(("runner", installation, runner_id), load)
        return never_seen(org, runner_id, None) if evidence is None else self._document(of, evidence, now)

    async def by_name(self, org: str, name: str, now: float) -> Document:
        """The same, by name: the latest registration that bears it."""
        of = await self._org(org)
        if of is None:
            return never_seen(org, None, name)
        installation = of.installation.id

        async def load() -> int | None:
            return (await self._runners.ids_of(installation, [name])).get(name)

        runner_id: int | None = await self._read(("name", installation, name), load)
        return never_seen(org, None, name) if runner_id is None else await self.by_id(org, runner_id, now)

    async def fleet(self, org: str, now: float) -> list[Document]:
        """Every known runner of an org, by id."""
        of = await self._org(org)
        if of is None:
            return []
        installation = of.installation.id
        runners: dict[int, Evidence] = await self._read(
            ("fleet", installation), lambda: self._runners.all(installation)
        )
        return [self._document(of, runners[runner_id], now) for runner_id in sorted(runners)]

    async def record(self, org: str, runner_id: int, fold: Callable[[Evidence], Evidence]) -> None:
        """What a controller tells of a runner; readers here see it at once. Nobody knows it: nothing to record."""
        of = await self._org(org)
        if of is None:
            return
        installation = of.installation.id
        await self._runners.revise(installation, {runner_id: lambda known: None if known is None else fold(known)})
        for key in (("runner", installation, runner_id), ("fleet", installation)):
            self._fresh.pop(key, None)

    def _document(self, of: Org, evidence: Evidence, now: float) -> Document:
        org = of.installation.org
        rules = self._settings.pools_of(org)
        pool = pool_of(evidence.labels, evidence.custom_labels, rules)
        standing = PoolStanding(of.fuses.get(pool, Fuse()).position, WHOLE_ORG in of.pauses or pool in of.pauses)
        verdict = judge(evidence, of.survey, now, self._settings.of(org).evidence)
        return health_document(org, evidence, verdict, of.survey, standing, rules, now)

    async def _org(self, org: str) -> Org | None:
        async def load() -> Org | None:
            installation = await self._installations.of(org)
            if installation is None:
                return None
            survey = await self._runners.survey(installation.id)
            fuses, pauses = await self._fuses.all(installation.id), await self._fuses.pauses(installation.id)
            return Org(installation, survey, fuses, pauses)

        return cast("Org | None", await self._read(("org", org.lower()), load))

    async def _read(self, key: Hashable, load: Callable[[], Awaitable[Any]]) -> Any:
        """From the cache; else loaded once, however many ask; else, with Redis away, what was last known."""
        if key in self._fresh:
            return self._fresh[key]
        if (running := self._loading.get(key)) is not None:
            return await asyncio.shield(running)
        self._loading[key] = loading = asyncio.ensure_future(load())
        try:
            value = await loading
        except (RedisError, OSError) as error:
            if key in self._last:
                return self._last[key]
            raise StoreUnavailableError("Redis is away, and nothing is known here yet; ask again") from error
        finally:
            del self._loading[key]
        self._fresh[key] = self._last[key] = value
        return value
