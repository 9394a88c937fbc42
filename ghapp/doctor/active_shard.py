"""Who knows which shard of a blue/green pool is active: whether its command or URL answers, here and to the workers."""

from __future__ import annotations

import asyncio
import time
from functools import partial

from ghapp.active_shard import query_active_shard
from ghapp.doctor.finding import Finding, ok, warning, wrong
from ghapp.doctor.probe import connected, probe
from ghapp.health.gate.active_shard import ActiveShardAnswer
from ghapp.settings import PoolSettings, Settings
from ghapp.store.installations import Installations
from ghapp.store.shards import Shards

GROUP = "controllers"
BROKE_OFF = "mend Redis, above"

Kept = dict[tuple[str, str], ActiveShardAnswer | None]
"""Org in lower case and pool → what a worker was told last; None when none was for minutes."""


async def look(settings: Settings, url: str | None) -> list[Finding]:
    """Ask each of them once, as `ghapp gate` does, and hold it against what workers were told.

    Args:
        settings: names the pools, and what their commands may see of the environment.
        url: of Redis; None when it does not answer: what workers were told is not known then.
    """
    pools = [pool for pool in settings.pools if pool.active_source]
    if not pools:
        return []
    kept: Kept = {}
    broken: list[Finding] = []
    if url is not None:
        broken = await probe(GROUP, "active shards", partial(_read, pools, url, kept), BROKE_OFF)
    here = await asyncio.gather(*(query_active_shard(settings, pool, time.time) for pool in pools))
    now = time.time()
    found = [
        of_answers(pool, answer, known=_key(pool) in kept, told=kept.get(_key(pool)), now=now)
        for pool, answer in zip(pools, here, strict=True)
        if answer is not None
    ]
    return [*found, *broken]


def of_answers(
    pool: PoolSettings, here: ActiveShardAnswer, told: ActiveShardAnswer | None, now: float, *, known: bool
) -> Finding:
    """What is to be said of one source.

    Args:
        pool: whose.
        here: its answer to this machine, just now.
        told: its last answer to a worker; None when there was none for minutes.
        now: epoch seconds.
        known: whether `told` could be looked up at all.
    """
    name, source, org = f"active shard of {pool.name}", pool.active_source, pool.org
    heard = "" if told is None else f"to a worker {max(0.0, now - told.at):.0f} s ago"
    if here.failure and (told is None or told.failure):
        worker = f"; {heard}: {told.failure}" if told is not None else ""
        said = f"{source} failed, {here.failure}{worker}"
        return wrong(GROUP, name, said, f"run it as the worker's user, and mend {source}, or active_env", org)
    if here.failure and told is not None:
        said = f"{source} failed here, {here.failure}; it said {told.shard} {heard}"
        return warning(GROUP, name, said, "nothing, if only workers can ask; `ghapp gate` asks from where it runs", org)
    if not known:
        return ok(GROUP, name, f"{here.shard}, by {source}", org)
    if told is None:
        said = f"{source} says {here.shard} here, and no worker has asked it for minutes"
        return warning(
            GROUP, name, said, "see that the clock and a worker run; the API knows what workers are told", org
        )
    if told.failure:
        said = f"{source} says {here.shard} here, and failed {heard}: {told.failure}"
        return warning(GROUP, name, said, "give the workers what it needs: the program, and active_env", org)
    if told.shard.lower() != here.shard.lower():
        said = f"{source} says {here.shard} here, and said {told.shard} {heard}"
        fix = (
            "if it was switched just now, ask again in a minute; else here and at the workers it asks different things"
        )
        return warning(GROUP, name, said, fix, org)
    return ok(GROUP, name, f"{here.shard}, by {source}, here and at the workers", org)


async def _read(pools: list[PoolSettings], url: str, kept: Kept) -> list[Finding]:
    async with connected(url) as redis:
        ids = {each.org.lower(): each.id for each in await Installations(redis).all()}
        for pool in pools:
            if (installation := ids.get(pool.org.lower())) is not None:
                kept[_key(pool)] = await Shards(redis).answer(installation, pool.name)
    return []


def _key(pool: PoolSettings) -> tuple[str, str]:
    return pool.org.lower(), pool.name
