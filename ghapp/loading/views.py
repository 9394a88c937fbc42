"""Loads an organization's state for its page, its check run, the commands, the API and the gate: one view for all."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ghapp.deaths.cluster_summary import StaleNamespace, possible_phantoms, stale_namespaces
from ghapp.deaths.death import Death
from ghapp.deaths.patterns import RecentDeaths
from ghapp.deaths.store import identity
from ghapp.gate.active_shard import ACTIVE_SECONDS
from ghapp.gate.gate_states import GateState, gate_states
from ghapp.gate.judgement import ActiveShardSources, GateRequest, failing_text, shard_roles
from ghapp.gate.shard_status import LOOP_SECONDS, ShardInputs, TakenJob, has_shards, shard_statuses
from ghapp.incidents.interruptions import PAUSE, RESUME, PauseChange
from ghapp.installations.installation import Installation
from ghapp.installations.pool_matching import ALL_POOLS, NamespaceRule, PoolMatcher, namespaces_of
from ghapp.installations.scope import ScopeKind
from ghapp.installations.texts import WatchedPod
from ghapp.leaks.documents import LeakedPod, ReaperTerms, leaked_pods
from ghapp.leaks.reaper_status import DAY_SECONDS, is_overdue
from ghapp.pods.degraded_sources import DegradedSource, sources_of
from ghapp.pods.phantom_kinds import Phantom
from ghapp.pods.pod import Pod, is_fresh
from ghapp.pods.pod_claim import by_name
from ghapp.remediation.status import is_loss_over
from ghapp.report.fleet import FleetView, by_pool
from ghapp.report.org_view import OrgView
from ghapp.report.remaining_losses import RemainingLosses, remaining_losses
from ghapp.runners.evidence import Evidence
from ghapp.runners.next_attempt import next_attempt
from ghapp.runners.verdict import State
from ghapp.settings import PoolSettings, Settings
from ghapp.store.audit import BEGUN, AuditEntry
from ghapp.store.stores import Stores
from ghapp.workflow_jobs.capacity import AvailableRunner
from ghapp.workflow_jobs.demand import UnservedJob, demand
from ghapp.workflow_jobs.job import Job
from ghapp.workflow_jobs.job_queue import NOTHING_SHARED, JobQueue, SharedRunners
from ghapp.workflow_jobs.reason import QueueReason

MOST_DEATHS = 500
"""Deaths that the gate reads, the latest."""


async def load_org_view(stores: Stores, installation: Installation, settings: Settings) -> OrgView:
    """Returns the view of an org; its reads run concurrently.

    Raises:
        StoreUnavailableError: Redis does not answer.
    """
    survey, fuses, pauses, claims, end_dates = await asyncio.gather(
        stores.runners.survey(installation.id),
        stores.fuses.all(installation.id),
        stores.fuses.pauses(installation.id),
        stores.pod_claims.stored(installation.id),
        stores.runner_versions.all(installation.id),
    )
    rules, policy = settings.pools_of(installation.org), settings.of(installation.org)
    return OrgView(
        org=installation.org,
        rules=rules,
        limits=policy.evidence,
        survey=survey,
        fuses=fuses,
        pauses=pauses,
        claimed=by_name(claims),
        mode=policy.remediation.mode,
        end_dates=end_dates,
        version_limits=policy.versions,
    )


def pause_changes(entries: Iterable[AuditEntry]) -> list[PauseChange]:
    """Returns the pauses and resumptions among the entries of the audit log."""
    return [
        PauseChange(
            each.at,
            each.who,
            each.action,
            each.subject,
            each.why,
            each.until,
            each.result,
            each.detail if each.action == PAUSE else "",
        )
        for each in entries
        if each.action in (PAUSE, RESUME) and each.result != BEGUN
    ]


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


async def load_watched_pods(stores: Stores, settings: Settings, now: float) -> dict[str, WatchedPod]:
    """Returns the pods and EphemeralRunners of the watched namespaces by the names of their runners.

    Raises:
        StoreUnavailableError: Redis does not answer.
    """
    found: dict[str, WatchedPod] = {}
    for namespace in settings.namespaces:
        view = await stores.pods.all(namespace)
        if view is not None and is_fresh(view.seen_at, now):
            found |= dict.fromkeys(view.pods, WatchedPod(namespace, "pods"))
            names = {name for each in view.objects.values() for name in (each.name, each.runner_name) if name}
            found |= dict.fromkeys(names, WatchedPod(namespace, "arc"))
    return found


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
    deaths = await _load_loop_deaths(stores, installation, settings, now)
    rules, limits = settings.pools_of(installation.org), settings.of(installation.org).evidence
    known = ShardInputs(pool, rules, runners.values(), survey, limits, jobs, deaths, taken, ended)
    pods = await _pods_of_unhealthy(stores, pool, known, now)
    return replace(known, pods=pods, org=installation.org, server=settings.public_url or "")


async def _load_loop_deaths(
    stores: Stores, installation: Installation, settings: Settings, now: float
) -> list[Death] | None:
    """Returns the latest deaths, and the latest clean exits, too: some are of runners that never worked."""
    if not settings.namespaces:
        return None
    since = now - LOOP_SECONDS
    unclean = await stores.deaths.unclean(installation.id, since, MOST_DEATHS)
    latest = await stores.deaths.recent(installation.id, since, MOST_DEATHS)
    return [*{identity(each): each for each in (*unclean, *latest)}.values()]


async def load_sources(stores: Stores, installation: Installation, pool: PoolSettings) -> ActiveShardSources:
    """Returns what deploys, and the pool's own command or URL, say of the active shard."""

    async def no_answer() -> None:
        return None

    deploys, answer = await asyncio.gather(
        stores.shards.deploys(installation.id, pool.name),
        stores.shards.answer(installation.id, pool.name) if pool.active_source else no_answer(),
    )
    return ActiveShardSources(deploys, pool.active_source, answer)


async def _pods_of_unhealthy(stores: Stores, pool: PoolSettings, known: ShardInputs, now: float) -> Mapping[str, Pod]:
    """Returns the pods of the pool's unhealthy runners; empty without a fresh view of them."""
    names = [each.name for shard in shard_statuses(known, now).values() for each in shard.unhealthy]
    if pool.namespace is None or not names:
        return {}
    view = await stores.pods.some(pool.namespace, names)
    return view.pods if view is not None and is_fresh(view.seen_at, now) else {}


def reaper_terms(view: OrgView, settings: Settings) -> ReaperTerms:
    """Returns what holds for the leaked pods of an org."""
    leaks = settings.of(view.org).leaks
    return ReaperTerms(view.org, leaks.mode, view.pauses.get(ALL_POOLS), view.fuses, leaks.grace_seconds)


async def load_leaked_pods(
    stores: Stores, installation: Installation, terms: ReaperTerms, now: float
) -> list[LeakedPod]:
    """Returns the unused pods: those that the last tick left, and those deleted within a day."""
    last, reaped = await asyncio.gather(
        stores.leaks.last(installation.id), stores.leaks.reaped_after(installation.id, now - DAY_SECONDS)
    )
    return leaked_pods(() if is_overdue(last.at, now) else last.leaking, reaped, terms)


async def load_job_queue(stores: Stores, installation: Installation, settings: Settings, now: float) -> JobQueue:
    """Returns the jobs and runners of an org at `now`; the reads run concurrently.

    Raises:
        StoreUnavailableError: Redis does not answer.
    """
    view, runners, jobs, ended, groups, shared = await asyncio.gather(
        load_org_view(stores, installation, settings),
        stores.runners.all(installation.id),
        stores.demand.all(installation.id),
        stores.demand.over(installation.id),
        stores.runner_groups.of(installation.id),
        load_shared_runners(stores, installation, settings, now),
    )
    return view.job_queue(runners.values(), jobs, now, ended=ended, groups=groups, shared=shared)


async def load_shared_runners(
    stores: Stores, installation: Installation, settings: Settings, now: float
) -> SharedRunners:
    """Returns the runners of other scopes that may take a scope's jobs.

    A repository's jobs may run on runners of its organization, and those of both on the enterprise's, as far as that
    shares a runner group with the organization. An enterprise whose list is old explains nothing.

    Raises:
        StoreUnavailableError: Redis does not answer.
    """
    if installation.parent:
        parent = await stores.installations.one(installation.parent)
        if parent is None:
            return NOTHING_SHARED
        above = await load_shared_runners(stores, parent, settings, now)
        groups = await stores.runner_groups.of(parent.id)
        runners, is_fresh = await _load_available(stores, parent, settings, now)
        return SharedRunners([*runners, *above.runners], groups, is_fresh)
    enterprises = any(each.enterprise is not None for each in settings.scopes)
    if not enterprises or installation.kind is ScopeKind.ENTERPRISE:
        return NOTHING_SHARED
    groups = await stores.runner_groups.of(installation.id)
    inherited = [each.id for each in groups.groups if each.inherited] if groups is not None else []
    group_id = inherited[0] if len(inherited) == 1 else None  # of several, which one has a runner is not known
    shared: list[AvailableRunner] = []
    for each in await stores.installations.all() if inherited else ():
        if each.kind is ScopeKind.ENTERPRISE:
            runners, is_fresh = await _load_available(stores, each, settings, now)
            shared += [runner._replace(group_id=group_id) for runner in runners if is_fresh]
    return SharedRunners(shared)


async def _load_available(
    stores: Stores, installation: Installation, settings: Settings, now: float
) -> tuple[list[AvailableRunner], bool]:
    """Returns a scope's runners for `SharedRunners`, and whether their list is young enough to say so."""
    view = await load_org_view(stores, installation, settings)  # first, so that the runners are not older than it
    runners = [*(await stores.runners.all(installation.id)).values()]
    found = view.available_runners(runners, now)
    return [each._replace(pool=f"{each.pool} of {installation.org}") for each in found], view.is_fresh(now)


class Unseen(NamedTuple):
    """What is not seen now.

    Attributes:
        namespaces: those whose snapshot is old or missing.
        sources: those that cannot be read, or of which a part cannot.
    """

    namespaces: list[StaleNamespace]
    sources: list[DegradedSource]


async def load_unseen(stores: Stores, rules: Iterable[NamespaceRule], now: float, *, has_log_store: bool) -> Unseen:
    """Returns what is not seen of the namespaces of these pools; of the log store, if one is configured.

    Args:
        stores: all stores.
        rules: the pools.
        now: epoch seconds.
        has_log_store: True if a log store is configured; without a namespace, none is asked.
    """
    names = namespaces_of(rules)
    places = sources_of(names, has_log_store=has_log_store and bool(names))
    times = await asyncio.gather(*map(stores.pods.seen_at, names))
    degraded = await stores.degraded_sources.of(places)
    seen_at = dict(zip(names, times, strict=True))
    return Unseen(stale_namespaces(seen_at, now), [DegradedSource(*each) for each in degraded.items()])


class FleetFacts(NamedTuple):
    """What is known of an organization beside its runners and jobs.

    Attributes:
        sweep_at: when its next sweep is due (epoch seconds); None: none is planned.
        discovery_at: when the next discovery is due.
        unseen: what is not seen of the cluster and the log store.
        phantoms: lasting phantoms of the last check.
        possible_phantoms: names of what may become one within two minutes.
        gates: of `load_gate_states`.
        found_since: when each phantom was first found, by `phantom_kinds.key`.
        recent_deaths: of the last hour; None without any.
        shard_sources: what says which shard is active, by pool with shards.
        taken: jobs that runners took lately; empty without a pool with shards.
        loop_deaths: as of `ShardInputs`.
    """

    sweep_at: float | None = None
    discovery_at: float | None = None
    unseen: Unseen = Unseen([], [])
    phantoms: Sequence[Phantom] = ()
    possible_phantoms: frozenset[str] = frozenset()
    gates: Mapping[str, GateState] = {}
    found_since: Mapping[str, float] = {}
    recent_deaths: RecentDeaths | None = None
    shard_sources: Mapping[str, ActiveShardSources] = {}
    taken: Sequence[TakenJob] = ()
    loop_deaths: Sequence[Death] | None = None


async def load_fleet_facts(stores: Stores, installation: Installation, settings: Settings, now: float) -> FleetFacts:
    """Returns the facts; the reads run concurrently.

    Raises:
        StoreUnavailableError: Redis does not answer.
    """
    rules, has_log_store = settings.pools_of(installation.org), settings.loki_url is not None
    sweep_at, discovery_at, unseen, summary, gates, recent_deaths = await asyncio.gather(
        stores.schedule.next(installation.id),
        stores.schedule.next_discovery(),
        load_unseen(stores, rules, now, has_log_store=has_log_store),
        stores.cluster_summaries.of(installation.id),
        load_gate_states(stores, installation, settings, now),
        stores.deaths.within_hour(installation.id),
    )
    facts = FleetFacts(sweep_at, discovery_at, unseen, gates=gates, recent_deaths=recent_deaths)
    if sharded := [*filter(has_shards, rules)]:
        sources = await asyncio.gather(*(load_sources(stores, installation, each) for each in sharded))
        facts = facts._replace(
            shard_sources={pool.name: each for pool, each in zip(sharded, sources, strict=True)},
            taken=await stores.demand.taken(installation.id, now - ACTIVE_SECONDS),
            loop_deaths=await _load_loop_deaths(stores, installation, settings, now),
        )
    if summary is None:
        return facts
    return facts._replace(
        phantoms=summary.phantoms, possible_phantoms=possible_phantoms(summary), found_since=summary.since
    )


async def load_gate_states(
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
    rules = settings.pools_of(installation.org)
    shard_inputs = _shard_inputs(rules, view, runners, queue.inputs.jobs, facts)
    explained, busy = policy.queue.explain_after_seconds, policy.queue.busy_after_seconds
    return FleetView(
        view=view,
        web_url=settings.web_url,
        runners=runners,
        phantoms=facts.phantoms,
        possible_phantoms=facts.possible_phantoms,
        found_since=facts.found_since,
        unseen=facts.unseen.namespaces,
        degraded_sources=facts.unseen.sources,
        login=installation.login,
        settings_page=installation.settings_address(settings.web_url) if installation.has_settings else "",
        attempt=next_attempt(installation, view.survey, facts.sweep_at, facts.discovery_at, now),
        sweep_seconds=policy.sweep.interval_seconds,
        demand=rows,
        unserved=[each for each in unserved if now - each.job.queued_at >= explained],
        slow=[
            UnservedJob(job, QueueReason.ALL_BUSY, queue.pool(job))
            for job in queue.queued
            if now - job.queued_at >= busy and queue.is_slow(job)
        ],
        gates=facts.gates,
        recent_deaths=facts.recent_deaths,
        shard_roles={
            each.rule.name: shard_roles(each, facts.shard_sources[each.rule.name], now) for each in shard_inputs
        },
        gate_failures=_gate_failures(rules, shard_inputs, facts, now),
        fuse_limits=policy.fuse,
    )


def _shard_inputs(
    rules: Sequence[PoolSettings],
    view: OrgView,
    runners: Iterable[Evidence],
    jobs: Sequence[Job],
    facts: FleetFacts,
) -> list[ShardInputs]:
    """Returns the inputs of the pools with shards, from what is loaded already."""
    members: dict[str, list[Evidence]] = {rule.name: [] for rule in rules if rule.name in facts.shard_sources}
    matcher = PoolMatcher(rules)
    for each in runners if members else ():
        if (pool := matcher.pool(each)) in members:
            members[pool].append(each)
    return [
        ShardInputs(
            rule,
            rules,
            members[rule.name],
            view.survey,
            view.limits,
            jobs,
            facts.loop_deaths,
            facts.taken,
            org=view.org,
        )
        for rule in rules
        if rule.name in members
    ]


def _gate_failures(
    rules: Sequence[PoolSettings], inputs: Iterable[ShardInputs], facts: FleetFacts, now: float
) -> dict[str, str]:
    """Returns by which check each gate fails now that has not passed since its deploy, by `gate_checks.place_of`."""
    least, found = {rule.name: rule.min_online for rule in rules}, dict[str, str]()
    for known in inputs:
        pool = known.rule.name
        for place, gate in facts.gates.items():
            of, _, shard = place.partition("/")
            if of == pool and not gate.passed:
                question = GateRequest(shard, least[pool])
                found[place] = failing_text(question, known, facts.shard_sources[pool], now)
    return found


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
    known, jobs, groups, facts, shared = await asyncio.gather(
        stores.runners.all(installation.id),
        stores.demand.all(installation.id),
        stores.runner_groups.of(installation.id),
        load_fleet_facts(stores, installation, settings, now),
        load_shared_runners(stores, installation, settings, now),
    )
    runners = [*known.values()]
    queue = view.job_queue(runners, jobs, now, groups=groups, shared=shared)
    return fleet_view(installation, settings, view, runners, queue, facts, now)
