"""Judges a shard for the gate once, from Redis and from the pool's own source of the active shard."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ghapp.cli.context import chosen
from ghapp.errors import ConfigurationError
from ghapp.gate.active_shard import ActiveShardAnswer
from ghapp.gate.judgement import ActiveShardSources, Gate, GateRequest, judge_gate
from ghapp.gate.shard_checks import unknown_shard
from ghapp.gate.shard_status import has_shards
from ghapp.nearest_name import meant
from ghapp.settings import PoolSettings, Settings

if TYPE_CHECKING:
    from ghapp.store.stores import Stores

REFRESH_SECONDS = 15.0
MOST_DEATHS = 500


def blue_green(settings: Settings, org: str, name: str) -> PoolSettings:
    """Returns the configured pool of that name, which must have shards.

    Raises:
        ConfigurationError: the org has no such pool.
    """
    known = {pool.name: pool for pool in settings.pools_of(org) if has_shards(pool)}
    if name not in known:
        raise ConfigurationError(no_such_pool(org, name, known))
    return known[name]


def no_such_pool(org: str, name: str, known: Iterable[str]) -> str:
    """Returns the message for a pool without shards."""
    names = meant(name, known, "it has")
    return f"[[pools]] {name}: {org} has no such pool with shard_label, shard_groups or shard_name; {names}"


class GateQuery:
    """Judges one shard; may be called repeatedly."""

    def __init__(
        self, settings: Settings, stores: Stores, org: str, pool: PoolSettings, clock: Callable[[], float] = time.time
    ) -> None:
        self._settings, self._stores, self._org, self._pool, self._clock = settings, stores, org, pool, clock
        self._answer: ActiveShardAnswer | None = None
        self.min_online, self.settle_seconds = pool.min_online, pool.settle_seconds
        self.sweep_seconds = settings.of(org).sweep.interval_seconds

    async def judge(self, question: GateRequest) -> Gate:
        """Returns the gate's result as of now.

        Raises:
            UnknownOrgError: the App is not installed there.
            ConfigurationError: the shard is unknown, and not expected to be new.
        """
        from ghapp.store.views import load_shard_inputs

        (installation,) = await chosen(self._stores.installations, self._org)
        answer = await self._active_shard()
        now = self._clock()  # after the answer, which may take seconds
        known = await load_shard_inputs(self._stores, installation, self._settings, self._pool, now)
        deploys = await self._stores.shards.deploys(installation.id, self._pool.name)
        if not question.expect_new and (why := unknown_shard(question.shard, known, deploys, answer)):
            raise ConfigurationError(why)
        sources = ActiveShardSources(deploys, self._pool.active_source, answer)
        plain = GateRequest(question.shard, self._pool.min_online)
        await self._stores.shards.record_result(installation.id, plain, known, sources, now)
        return judge_gate(question, known, sources, now)

    async def _active_shard(self) -> ActiveShardAnswer | None:
        """Queries the source itself: a user who may run this command may also run the pool's."""
        from ghapp.active_shard import query_active_shard

        last = self._answer
        if last is None or not 0 <= self._clock() - last.at < REFRESH_SECONDS:
            self._answer = await query_active_shard(self._settings, self._pool, self._clock)
        return self._answer
