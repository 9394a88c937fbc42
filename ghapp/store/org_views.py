"""Loads what holds for all runners of an org, and what the gate judges a pool by."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from ghapp.gate.active_shard import ACTIVE_SECONDS
from ghapp.gate.shard_status import LOOP_SECONDS, ShardInputs, shard_statuses
from ghapp.installations.installation import Installation
from ghapp.pods.pod import Pod, is_fresh
from ghapp.pods.pod_claim import by_name
from ghapp.remediation.status import is_loss_over
from ghapp.report.org_view import OrgView
from ghapp.runners.evidence import Evidence
from ghapp.runners.verdict import State
from ghapp.settings import PoolSettings, Settings
from ghapp.store.deaths import identity
from ghapp.store.stores import Stores
from ghapp.workflow_jobs.job_queue import JobQueue

MOST_DEATHS = 500
"""Deaths that the gate reads, the latest."""


async def load_org_view(stores: Stores, installation: Installation, settings: Settings) -> OrgView:
    """Returns the view of an org; its reads run concurrently.

    Raises:
        StoreUnavailableError: Redis does not answer.
    """
    survey, by_pool, pauses, claims = await asyncio.gather(
        stores.runners.survey(installation.id),
        stores.fuses.all(installation.id),
        stores.fuses.pauses(installation.id),
        stores.pod_claims.stored(installation.id),
    )
    rules, policy = settings.pools_of(installation.org), settings.of(installation.org)
    mode = policy.remediation.mode
    return OrgView(installation.org, rules, policy.evidence, survey, by_pool, pauses, by_name(claims), mode)


async def load_current_runners(
    stores: Stores, installation: Installation, settings: Settings, now: float
) -> list[Evidence]:
    """Returns the runners of an org that are neither retired nor lost for good at `now`.

    Raises:
        StoreUnavailableError: Redis does not answer.
    """
    view = await load_org_view(stores, installation, settings)  # first, so that the runners are not older than it
    runners = (await stores.runners.all(installation.id)).values()
    verdicts = ((each, view.verdict(each, now)) for each in runners)
    return [
        each
        for each, verdict in verdicts
        if verdict.state is not State.RETIRED and not is_loss_over(each, verdict, now)
    ]


async def load_shard_inputs(
    stores: Stores, installation: Installation, settings: Settings, pool: PoolSettings, now: float
) -> ShardInputs:
    """Returns the gate's inputs for a pool.

    Raises:
        StoreUnavailableError: Redis does not answer.
    """
    survey = await stores.runners.survey(installation.id)  # first, so that the runners are not older than it
    runners, jobs, taken, ended = await asyncio.gather(
        stores.runners.all(installation.id),
        stores.demand.all(installation.id),
        stores.demand.taken(installation.id, now - ACTIVE_SECONDS),
        stores.demand.over(installation.id),
    )
    deaths = None
    if settings.namespaces:  # the latest clean exits, too: some are of runners that never worked
        since = now - LOOP_SECONDS
        unclean = await stores.deaths.unclean(installation.id, since, MOST_DEATHS)
        latest = await stores.deaths.recent(installation.id, since, MOST_DEATHS)
        deaths = [*{identity(each): each for each in (*unclean, *latest)}.values()]
    rules, limits = settings.pools_of(installation.org), settings.of(installation.org).evidence
    known = ShardInputs(pool, rules, runners.values(), survey, limits, jobs, deaths, taken, ended)
    return replace(known, pods=await _pods_of_unhealthy(stores, pool, known, now))


async def _pods_of_unhealthy(stores: Stores, pool: PoolSettings, known: ShardInputs, now: float) -> Mapping[str, Pod]:
    """Returns the pods of the pool's unhealthy runners; empty without a fresh view of them."""
    names = [each.name for shard in shard_statuses(known, now).values() for each in shard.unhealthy]
    if pool.namespace is None or not names:
        return {}
    view = await stores.pods.some(pool.namespace, names)
    return view.pods if view is not None and is_fresh(view.seen_at, now) else {}


async def load_job_queue(stores: Stores, installation: Installation, settings: Settings, now: float) -> JobQueue:
    """Returns the jobs and runners of an org at `now`; the reads run concurrently.

    Raises:
        StoreUnavailableError: Redis does not answer.
    """
    view, runners, jobs, ended, groups = await asyncio.gather(
        load_org_view(stores, installation, settings),
        stores.runners.all(installation.id),
        stores.demand.all(installation.id),
        stores.demand.over(installation.id),
        stores.runner_groups.of(installation.id),
    )
    return view.job_queue(runners.values(), jobs, now, ended=ended, groups=groups)
