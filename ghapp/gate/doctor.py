"""Checks the source of the active shard of blue/green pools: whether it answers, here and on the workers."""

from __future__ import annotations

import asyncio
import time
from functools import partial

from ghapp.active_shard import query_active_shard
from ghapp.doctor.finding import Finding, ok, probe, warning, wrong
from ghapp.doctor.roles import starting
from ghapp.gate.active_shard import ActiveShardAnswer
from ghapp.settings import PoolSettings, Settings
from ghapp.store.stores import open_stores

GROUP = "controllers"
REDIS_FAILED = "fix Redis, see redis above"

Stored = dict[tuple[str, str], ActiveShardAnswer | None]
"""(Org in lower case, pool) → the last answer that a worker got; None when no worker got one for minutes."""


async def check(settings: Settings, url: str | None, started_at: float | None = None) -> list[Finding]:
    """Queries each source once, as `ghapp gate` does, and compares the answer with the one that workers got.

    Args:
        settings: names the pools, and the environment variables that their commands may see.
        url: of Redis; None when Redis does not answer, so that the workers' answers are unknown.
        started_at: when the workers started (epoch seconds); None: unknown.
    """
    pools = [pool for pool in settings.pools if pool.active_source]
    if not pools:
        return []
    stored: Stored = {}
    redis_failure: list[Finding] = []
    if url is not None:
        redis_failure = await probe(GROUP, "active shards", partial(_read, pools, url, stored), REDIS_FAILED)
    here = await asyncio.gather(*(query_active_shard(settings, pool, time.time) for pool in pools))
    now = time.time()
    found = [
        of_answers(
            pool, answer, known=_key(pool) in stored, at_worker=stored.get(_key(pool)), now=now, started_at=started_at
        )
        for pool, answer in zip(pools, here, strict=True)
        if answer is not None
    ]
    return [*found, *redis_failure]


def of_answers(
    pool: PoolSettings,
    here: ActiveShardAnswer,
    at_worker: ActiveShardAnswer | None,
    now: float,
    *,
    known: bool,
    started_at: float | None = None,
) -> Finding:
    """Compares the answers of one pool's source.

    Args:
        pool: the pool.
        here: the answer on this machine, just now.
        at_worker: the last answer to a worker; None when there was none for minutes.
        now: epoch seconds.
        known: True if the worker's answer could be read from Redis.
        started_at: when the workers started (epoch seconds); None: unknown.
    """
    name, source, org = f"active shard of {pool.name}", pool.active_source, pool.org
    when = "" if at_worker is None else f"on a worker {max(0.0, now - at_worker.at):.0f} s ago"
    if here.failure and (at_worker is None or at_worker.failure):
        worker = f"; {when}: {at_worker.failure}" if at_worker is not None else ""
        text = f"{source} failed: {here.failure}{worker}"
        return wrong(GROUP, name, text, f"run it as the worker's user, then fix {source} or active_env", org)
    if here.failure and at_worker is not None:
        text = f"{source} failed here: {here.failure}; it returned {at_worker.shard} {when}"
        fix = "nothing, if only workers have access; `ghapp gate` queries from the machine where it runs"
        return warning(GROUP, name, text, fix, org)
    if not known:
        return ok(GROUP, name, f"{here.shard}, from {source}", org)
    if at_worker is None and (just_started := starting(started_at, now)):
        return ok(GROUP, name, f"{here.shard}, from {source}; no worker has queried it yet: {just_started}", org)
    if at_worker is None:
        text = f"{source} returns {here.shard} here; no worker has queried it for minutes"
        fix = "check that the clock and a worker run; the API uses only the workers' answers"
        return warning(GROUP, name, text, fix, org)
    if at_worker.failure:
        text = f"{source} returns {here.shard} here, but failed {when}: {at_worker.failure}"
        return warning(GROUP, name, text, "give the workers what it needs: the program, and active_env", org)
    if at_worker.shard.lower() != here.shard.lower():
        text = f"{source} returns {here.shard} here, but returned {at_worker.shard} {when}"
        fix = "if it was just switched, run doctor again in a minute; else make both ask for the same thing"
        return warning(GROUP, name, text, fix, org)
    return ok(GROUP, name, f"{here.shard}, from {source}, here and on the workers", org)


async def _read(pools: list[PoolSettings], url: str, stored: Stored) -> list[Finding]:
    async with open_stores(url) as stores:
        ids = {each.org.lower(): each.id for each in await stores.installations.all()}
        for pool in pools:
            if (installation := ids.get(pool.org.lower())) is not None:
                stored[_key(pool)] = await stores.shards.answer(installation, pool.name)
    return []


def _key(pool: PoolSettings) -> tuple[str, str]:
    return pool.org.lower(), pool.name
