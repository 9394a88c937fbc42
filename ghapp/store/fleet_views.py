"""Loads an organization's state for its page, its check run, the commands and the API: one view for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ghapp.gate.gate_states import GateState, gate_states
from ghapp.installations.installation import Installation
from ghapp.pods.phantom_kinds import Phantom
from ghapp.report.fleet import FleetView, by_pool
from ghapp.report.org_view import OrgView
from ghapp.report.remaining_losses import RemainingLosses, remaining_losses
from ghapp.runners.evidence import Evidence
from ghapp.runners.next_attempt import next_attempt
from ghapp.settings import Settings
from ghapp.store.org_views import load_org_view
from ghapp.store.stores import Stores
from ghapp.store.unseen import Unseen, load_unseen
from ghapp.workflow_jobs.demand import UnservedJob, demand
from ghapp.workflow_jobs.job_queue import JobQueue
from ghapp.workflow_jobs.reason import QueueReason


class FleetFacts(NamedTuple):
    """What is known of an organization beside its runners and jobs.

    Attributes:
        sweep_at: when its next sweep is due (epoch seconds); None: none is planned.
        discovery_at: when the next discovery is due.
        unseen: what is not seen of the cluster and the log store.
        phantoms: lasting phantoms of the last check.
        gates: of `load_gates`.
    """

    sweep_at: float | None = None
    discovery_at: float | None = None
    unseen: Unseen = Unseen([], [])
    phantoms: Sequence[Phantom] = ()
    gates: Mapping[str, GateState] = {}


async def load_fleet_facts(stores: Stores, installation: Installation, settings: Settings, now: float) -> FleetFacts:
    """Returns the facts; the reads run concurrently.

    Raises:
        StoreUnavailableError: Redis does not answer.
    """
    rules, has_log_store = settings.pools_of(installation.org), settings.loki_url is not None
    sweep_at, discovery_at, unseen, summary, gates = await asyncio.gather(
        stores.schedule.next(installation.id),
        stores.schedule.next_discovery(),
        load_unseen(stores, rules, now, has_log_store=has_log_store),
        stores.cluster_summaries.of(installation.id),
        load_gates(stores, installation, settings, now),
    )
    return FleetFacts(sweep_at, discovery_at, unseen, summary.phantoms if summary else (), gates)


async def load_gates(
    stores: Stores, installation: Installation, settings: Settings, now: float
) -> dict[str, GateState]:
    """Returns the gates of all deployed shards of configured pools, by `gate_checks.place_of`."""
    gate_checks, deploys = await asyncio.gather(
        stores.gate_checks.list(installation.id), stores.shards.list_deploys(installation.id)
    )
    names = {rule.name for rule in settings.pools_of(installation.org)}
    return gate_states({pool: deploys[pool] for pool in names & deploys.keys()}, gate_checks, now)


def fleet_view(
    installation: Installation,
    settings: Settings,
    view: OrgView,
    runners: Iterable[Evidence],
    queue: JobQueue,
    facts: FleetFacts,
    now: float,
) -> FleetView:
    """Returns the state of an organization as of `now` (epoch seconds)."""
    policy = settings.of(installation.org)
    rows, unserved = demand(queue)
    explained, busy = policy.queue.explain_after_seconds, policy.queue.busy_after_seconds
    return FleetView(
        view=view,
        web_url=settings.web_url,
        runners=runners,
        phantoms=facts.phantoms,
        unseen=facts.unseen.namespaces,
        degraded_sources=facts.unseen.sources,
        login=installation.login,
        attempt=next_attempt(installation, view.survey, facts.sweep_at, facts.discovery_at, now),
        demand=rows,
        unserved=[each for each in unserved if now - each.job.queued_at >= explained],
        slow=[
            UnservedJob(job, QueueReason.ALL_BUSY, queue.pool(job))
            for job in queue.queued
            if now - job.queued_at >= busy and queue.is_slow(job)
        ],
        gates=facts.gates,
        prove_seconds=policy.fuse.prove_seconds,
    )


async def load_remaining_losses(
    stores: Stores, installation: Installation, settings: Settings, now: float
) -> RemainingLosses:
    """Returns the lost runners of an organization as of `now` (epoch seconds), read at once.

    Raises:
        StoreUnavailableError: Redis does not answer.
    """
    view = await load_org_view(stores, installation, settings)
    runners = (await stores.runners.all(installation.id)).values()
    return remaining_losses(by_pool(FleetView(view, settings.web_url, runners), now))


async def load_fleet(stores: Stores, installation: Installation, settings: Settings, now: float) -> FleetView:
    """Returns the state of an organization as of `now` (epoch seconds), read at once.

    Raises:
        StoreUnavailableError: Redis does not answer.
    """
    view = await load_org_view(stores, installation, settings)  # first, so that the runners are not older than it
    known, jobs, groups, facts = await asyncio.gather(
        stores.runners.all(installation.id),
        stores.demand.all(installation.id),
        stores.runner_groups.of(installation.id),
        load_fleet_facts(stores, installation, settings, now),
    )
    runners = [*known.values()]
    queue = view.job_queue(runners, jobs, now, groups=groups)
    return fleet_view(installation, settings, view, runners, queue, facts, now)
