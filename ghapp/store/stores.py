"""All stores over one client: opened once by each process, and handed down. Nothing else opens a store."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from redis.asyncio import Redis

from ghapp.deaths.post_mortem_store import ClusterSummaries, PostMortems, Reruns
from ghapp.deaths.store import Deaths
from ghapp.deliveries.log_store import DeliveryStatus
from ghapp.deliveries.store import Ask, Inbox
from ghapp.gate.store import GateChecks, Shards
from ghapp.incidents.store import HistoryStore, Incidents, SettledSweeps
from ghapp.installations.store import EtagPages, Installations, InstallationStates, ScopedRepositories, UninstalledData
from ghapp.leaks.store import Leaks
from ghapp.notifications.event_store import Events
from ghapp.notifications.store import Notifications
from ghapp.pods.claim_store import PodClaims
from ghapp.pods.end_store import OwnDeletions, PodEnds
from ghapp.pods.store import DegradedSources, PodLocations, Pods, ScaleSets
from ghapp.redis_clock import redis_time
from ghapp.remediation.store import Fuses
from ghapp.report.store import CheckCreations, Reports
from ghapp.runners.store import Runners
from ghapp.store.audit import AuditLog
from ghapp.store.budget import Budget, SharedRateLimits
from ghapp.store.connect import connect
from ghapp.store.github_tokens import EnterpriseTokens
from ghapp.store.heartbeats import Heartbeats
from ghapp.store.left_out import LeftOutRecords
from ghapp.store.locks import Locks
from ghapp.store.metric_counters import MetricCounters
from ghapp.store.presses import Presses
from ghapp.store.quarantine import Quarantine
from ghapp.store.schedule import Schedule
from ghapp.store.tokens import Tokens
from ghapp.timings import NORMAL, Timings
from ghapp.versions.store import RunnerVersions
from ghapp.workflow_jobs.store import Demand, QueueChecks, RunnerGroupStore

if TYPE_CHECKING:
    from ghapp.store.github_tokens import SharedTokens
    from ghapp.store.sessions import Sessions


@dataclass(frozen=True, slots=True)
class Stores:
    """The stores, and the client that they share."""

    redis: Redis
    audit: AuditLog
    presses: Presses
    budget: Budget
    cluster_summaries: ClusterSummaries
    counters: MetricCounters
    deaths: Deaths
    degraded_sources: DegradedSources
    delivery_status: DeliveryStatus
    demand: Demand
    events: Events
    fuses: Fuses
    gate_checks: GateChecks
    heartbeats: Heartbeats
    history: HistoryStore
    inbox: Inbox
    incidents: Incidents
    installation_states: InstallationStates
    installations: Installations
    leaks: Leaks
    left_out: LeftOutRecords
    locks: Locks
    notifications: Notifications
    own_deletions: OwnDeletions
    pages: EtagPages
    pod_claims: PodClaims
    pod_locations: PodLocations
    pods: Pods
    pod_ends: PodEnds
    check_creations: CheckCreations
    post_mortems: PostMortems
    quarantine: Quarantine
    queue_checks: QueueChecks
    rate_limits: SharedRateLimits
    reports: Reports
    reruns: Reruns
    runner_groups: RunnerGroupStore
    runner_versions: RunnerVersions
    runners: Runners
    schedule: Schedule
    scoped_repositories: ScopedRepositories
    settled: SettledSweeps
    scale_sets: ScaleSets
    shards: Shards
    tokens: Tokens
    uninstalled: UninstalledData

    def token_cache(self, private_key: str) -> SharedTokens:
        """Returns the shared installation tokens; only who has the App's private key (PEM) can read them."""
        from ghapp.store.github_tokens import SharedTokens  # imports cryptography, which the web role does without

        return SharedTokens(self.redis, private_key)

    def enterprise_tokens(self, tokens: Sequence[str]) -> EnterpriseTokens:
        """Returns the configured tokens of enterprises; which of them GitHub lately refused is shared."""
        return EnterpriseTokens(self.redis, tokens)

    async def now(self) -> float:
        """Returns the time by Redis, which all processes share (epoch seconds)."""
        return await redis_time(self.redis)

    def sessions(self, private_key: str) -> Sessions:
        """Returns the sessions of people who signed in, sealed by a key that is derived from the App's private key."""
        from ghapp.store.sessions import Sessions

        return Sessions(self.redis, private_key)


def stores_over(
    redis: Redis,
    named: Mapping[str, int] | None = None,
    clock: Callable[[], float] = time.time,
    ask_for_drain: Ask | None = None,
    timings: Timings = NORMAL,
) -> Stores:
    """Returns the stores over a client, which its owner closes.

    Args:
        redis: the client.
        named: the orgs that the configuration names; see `Installations`.
        clock: epoch seconds.
        ask_for_drain: called after a delivery was stored; see `Inbox`.
        timings: how long locks outlive their holders.
    """
    return Stores(
        redis=redis,
        audit=AuditLog(redis),
        presses=Presses(redis),
        budget=Budget(redis, clock),
        cluster_summaries=ClusterSummaries(redis),
        counters=MetricCounters(redis),
        deaths=Deaths(redis, clock),
        degraded_sources=DegradedSources(redis),
        delivery_status=DeliveryStatus(redis),
        demand=Demand(redis),
        events=Events(redis),
        fuses=Fuses(redis),
        gate_checks=GateChecks(redis),
        heartbeats=Heartbeats(redis),
        history=HistoryStore(redis),
        inbox=Inbox(redis, ask_for_drain),
        incidents=Incidents(redis),
        installation_states=InstallationStates(redis),
        installations=Installations(redis, named),
        leaks=Leaks(redis),
        left_out=LeftOutRecords(redis),
        locks=Locks(redis, timings.lock_seconds),
        notifications=Notifications(redis),
        own_deletions=OwnDeletions(redis),
        pages=EtagPages(redis),
        pod_claims=PodClaims(redis, clock),
        pod_locations=PodLocations(redis),
        pods=Pods(redis),
        pod_ends=PodEnds(redis),
        check_creations=CheckCreations(redis),
        post_mortems=PostMortems(redis),
        quarantine=Quarantine(redis),
        queue_checks=QueueChecks(redis),
        rate_limits=SharedRateLimits(redis),
        reports=Reports(redis),
        reruns=Reruns(redis),
        runner_groups=RunnerGroupStore(redis),
        runner_versions=RunnerVersions(redis),
        runners=Runners(redis, clock),
        schedule=Schedule(redis),
        scoped_repositories=ScopedRepositories(redis),
        settled=SettledSweeps(redis),
        scale_sets=ScaleSets(redis),
        shards=Shards(redis),
        tokens=Tokens(redis),
        uninstalled=UninstalledData(redis),
    )


@asynccontextmanager
async def open_stores(
    url: str, named: Mapping[str, int] | None = None, timings: Timings = NORMAL
) -> AsyncIterator[Stores]:
    """Yields the stores of a Redis; its connections are closed at the end of the block."""
    async with connect(url) as redis:
        yield stores_over(redis, named, timings=timings)
