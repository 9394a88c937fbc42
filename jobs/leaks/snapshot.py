"""Reads an org's stamped pods, and everything known of their runners and deliveries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

from ghapp.cluster.api import Cluster
from ghapp.errors import ClusterForbiddenError
from ghapp.installations.installation import Installation
from ghapp.installations.pool_matching import ALL_POOLS, PoolMatcher, namespaces_of, runner_pool
from ghapp.leaks.github_queries import combined_activity
from ghapp.leaks.guards import FuseView, TickInputs, TickMemory
from ghapp.leaks.leak_fuse import reason_in_use
from ghapp.leaks.runner_activity import Patience, RunnerActivity, is_ours
from ghapp.log import redact
from ghapp.pods.degraded_sources import leaks_source
from ghapp.pods.pod import Pod
from ghapp.pods.pod_claim import Claimed, by_name
from ghapp.remediation.fuse_moves import open_pools
from ghapp.runners.delivery_lag import DeliveryGap, has_waited
from ghapp.runners.evidence import Evidence, Survey, is_absent, missing_since
from ghapp.settings import Settings
from ghapp.workflow_jobs.job import Job
from jobs.context import JobContext
from jobs.delivery_gaps import delivery_gaps
from jobs.shared_machines import known_in_other_scopes

LOG_LASTS_SECONDS = 120.0
"""The reaper needs GitHub's delivery log as read within this time, which redelivery usually does."""

ATTEMPT_SECONDS = 15.0
"""GitHub ends an attempt to deliver after ten seconds; then the log has its failure."""


class RecordedRunners(NamedTuple):
    """What sweeps, deliveries and controllers recorded.

    Attributes:
        runners_by_name: runners by name; several may have had the same.
        jobs: jobs in progress by delivery, by the name of their runner.
        claims: stored claims; some may have expired.
        survey: of the last sweep.
        at: the time before the first read (epoch seconds).
    """

    runners_by_name: Mapping[str, Sequence[Evidence]]
    jobs: Mapping[str, Sequence[Job]]
    claims: Claimed
    survey: Survey
    at: float

    def activity(
        self, name: str, now: float, stale_seconds: float, patience: Patience, gaps: Sequence[DeliveryGap] = ()
    ) -> RunnerActivity:
        """Returns the activity of the runners of one name."""
        runners_by_name, jobs = self.runners_by_name.get(name, ()), self.jobs.get(name, ())
        return combined_activity(runners_by_name, jobs, self.survey, now, stale_seconds, patience, gaps)

    def absences(self, names: Iterable[str], now: float, seconds: float) -> list[float]:
        """Returns since when runners of these names are missing: for these seconds, and not for the whole hour."""
        records = (each for name in names for each in self.runners_by_name.get(name, ()))
        absent = [each for each in records if is_absent(each) and not has_waited(each, self.survey, now)]
        return [since for each in absent if now - (since := missing_since(each)) >= seconds]

    def is_registered(self, names: Iterable[str]) -> bool:
        """True if GitHub ever returned a runner of one of these names."""
        return any(each.registered for name in names for each in self.runners_by_name.get(name, ()))

    def is_github_stale(self, now: float, stale_seconds: float) -> bool:
        """True if GitHub's last complete list is too old, or sweeps have failed since."""
        swept_at = self.survey.swept_at
        return swept_at is None or now - swept_at > stale_seconds or self.survey.failing_since is not None

    def latest(self, name: str) -> Evidence | None:
        """Returns the last runner with that name."""
        return max(self.runners_by_name.get(name, ()), key=lambda each: each.id, default=None)


class Snapshot(NamedTuple):
    """Everything that one tick reads.

    Attributes:
        look: the pods that this org may judge, and the activity of all runners.
        known: the records from which `look` was computed.
        listed: all pods with the label.
        without_owner: how many of them belong to another org, or to an unknown one.
        unread: why the pods of some namespaces could not be listed, by namespace.
    """

    look: TickInputs
    known: RecordedRunners
    listed: Sequence[Pod]
    without_owner: int = 0
    unread: Mapping[str, str] = {}


def pool_for(settings: Settings, org: str, namespace: str, runner: Evidence | None) -> str:
    """Returns a pod's pool: its runner's, else the only one with pods in its namespace, else an empty string."""
    rules = settings.pools_of(org)
    if runner is not None and runner.registered:
        return runner_pool(runner, rules)
    pools = [rule.name for rule in rules if rule.namespace == namespace]
    return pools[0] if len(pools) == 1 else ""


def names_of(pod: Pod, claims: Claimed, memory: TickMemory) -> set[str]:
    """Returns the names that a pod and its runner may have."""
    claim = claims.get(pod.name)
    claimed = claim.runner_name if claim is not None and claim.pod == pod.name else pod.name
    return {pod.name, memory.names.get(pod.uid, pod.name), claimed}


async def take_snapshot(
    context: JobContext, installation: Installation, cluster: Cluster, memory: TickMemory
) -> Snapshot:
    """Reads every stamped pod of the org's namespaces, and then the records of their runners.

    A namespace that may not be listed is left out, and recorded as not seen.

    Raises:
        ClusterError: a list failed for another reason, or every list is forbidden: none counts.
    """
    label = context.settings.of(installation.org).leaks.owner_label
    began, pods, unread = context.clock(), list[Pod](), dict[str, str]()
    namespaces = namespaces_of(context.settings.pools_of(installation.org))
    for namespace in namespaces:
        try:
            pods += (await cluster.pods(namespace, label)).items
        except ClusterForbiddenError as error:
            unread[namespace] = str(error)
            await context.degraded_sources.record(leaks_source(namespace), redact(str(error)))
            if len(unread) == len(namespaces):
                raise
    return await snapshot_of_pods(context, installation, pods, began, memory, unread=unread)


async def snapshot_of_pods(
    context: JobContext,
    installation: Installation,
    pods: Sequence[Pod],
    pods_at: float,
    memory: TickMemory,
    *,
    only: Collection[str] | None = None,
    unread: Mapping[str, str] = MappingProxyType({}),
) -> Snapshot:
    """Reads the records of the runners of pods that were read at `pods_at`. `unread` is as in `Snapshot`.

    With `only`, the records of these names alone, without the recent reaps: these count against all leaks together.
    """
    known = await _known(context, installation.id, only)
    ours = await _ours(context, installation, pods, known, memory)
    policy, now = context.settings.of(installation.org), context.clock()
    stale_seconds, patience = policy.evidence.stale_seconds, _patience(context.settings, installation.org)
    names = {*known.runners_by_name, *known.jobs}.union(*(names_of(pod, known.claims, memory) for pod in ours))

    def pools(pod: Pod) -> set[str]:
        return _pools_of(context.settings, installation.org, pod, known, memory)

    bear_name = _bear_name(context.settings, installation.org, ours, pools)
    names_by_pod = {pod.uid: names_of(pod, known.claims, memory) for pod in ours}
    gaps = await _delivery_gaps(context, installation, known, names_by_pod, bear_name)
    activity = {name: known.activity(name, now, stale_seconds, patience, gaps) for name in names}

    paused = (await context.fuses.pauses(installation.id)).keys() - {ALL_POOLS}
    of_all = (activity, _all_pools(context.settings, installation.org, known)) if only is None else (None, None)
    fuse_view = await _fuse_view(context, installation, ours, pools, now, *of_all)
    look = TickInputs(
        ours,
        pods_at,
        known.claims,
        activity,
        known.at,
        github_stale=known.is_github_stale(now, stale_seconds),
        list_empty=known.survey.total == 0,
        fuse=fuse_view._replace(unread=_unread_pools(context.settings, installation.org, unread)),
        paused=frozenset(pod.uid for pod in ours if paused and not paused.isdisjoint(pools(pod))),
        survey=known.survey,
        gaps=gaps,
        bear_name=bear_name,
        unread=bool(unread),
    )
    return Snapshot(look, known, pods, len(pods) - len(ours), unread)


def _unread_pools(settings: Settings, org: str, unread: Collection[str]) -> frozenset[str]:
    """Returns the pools with pods in these namespaces; an empty name stands for an unknown pool."""
    return frozenset(rule.name for rule in settings.pools_of(org) if rule.namespace in unread) | (
        {""} if unread else set()
    )


async def _delivery_gaps(
    context: JobContext,
    installation: Installation,
    known: RecordedRunners,
    names_by_pod: Mapping[str, set[str]],
    bear_name: Collection[str],
) -> Sequence[DeliveryGap]:
    """Returns the gaps of the installation's deliveries; none if no pod depends on them.

    A pod does whose runner has been absent for the grace, and not for the hour for which an absence waits; so does one
    whose runner has its name, and which GitHub never returned.
    """
    now = context.clock()
    absences = known.absences(
        {name for names in names_by_pod.values() for name in names},
        now,
        context.settings.of(installation.org).leaks.grace_seconds,
    )
    never_listed = (uid for uid, names in names_by_pod.items() if uid in bear_name and not known.is_registered(names))
    if not absences and not any(never_listed):
        return ()
    failures_logged_at = [min(since + ATTEMPT_SECONDS, now) for since in absences]
    return await delivery_gaps(context, installation, max([now - LOG_LASTS_SECONDS, *failures_logged_at]))


def _all_pools(settings: Settings, org: str, known: RecordedRunners) -> set[str]:
    """Returns the names of all pools that are configured, or have a runner on record."""
    rules = settings.pools_of(org)
    matcher = PoolMatcher(rules)
    everyone = chain.from_iterable(known.runners_by_name.values())
    return {rule.name for rule in rules} | {matcher.pool(each) for each in everyone}


async def _fuse_view(
    context: JobContext,
    installation: Installation,
    pods: Sequence[Pod],
    pools: Callable[[Pod], set[str]],
    now: float,
    activity: Mapping[str, RunnerActivity] | None,
    known_pools: Collection[str] | None,
) -> FuseView:
    """Returns the fuses as they limit the reaper.

    Without the activity and the pools of all runners, recent reaps are left out, and it is not known whether a pool was
    renamed.
    """
    limits = context.settings.of(installation.org).fuse
    fuses = await context.fuses.all(installation.id)
    turned = open_pools(fuses, fuses.keys() if known_pools is None else known_pools)
    of_pods = {pod.uid: pools(pod) for pod in pods}
    own_fuses = await context.fuses.of_reaper(installation.id)
    since = min([now - limits.window_seconds, *(fuse.since for fuse in own_fuses.values() if fuse.since is not None)])
    reaped = [] if activity is None else await context.leaks.reaped_after(installation.id, since)
    in_use = {
        each.uid: reason_in_use(each, (activity or {}).get(each.runner_name, RunnerActivity()), pods) for each in reaped
    }
    return FuseView(
        limits,
        pools={uid: next(iter(names)) for uid, names in of_pods.items() if len(names) == 1},
        reaped=reaped,
        not_closed=frozenset(uid for uid, names in of_pods.items() if not turned.isdisjoint({*names, ALL_POOLS})),
        fuses=own_fuses,
        in_use={uid: reason for uid, reason in in_use.items() if reason},
    )


def _bear_name(settings: Settings, org: str, pods: Sequence[Pod], pools: Callable[[Pod], set[str]]) -> frozenset[str]:
    """Returns the uids of pods whose runner has the pod's name: `[leaks]` or each pool that may have them says so."""
    if settings.of(org).leaks.runner_name == "pod":
        return frozenset(pod.uid for pod in pods)
    named_by_pod = {rule.name for rule in settings.pools_of(org) if rule.runner_name == "pod"}
    return frozenset(pod.uid for pod in pods if (names := pools(pod)) and names <= named_by_pod)


def _patience(settings: Settings, org: str) -> Patience:
    """Returns a function that gives how long a runner may be offline before its pool replaces it."""
    rules = settings.pools_of(org)
    seconds = {rule.name: rule.replace_offline_after_seconds for rule in rules}
    return lambda evidence: seconds.get(runner_pool(evidence, rules))


async def _known(context: JobContext, installation: int, only: Collection[str] | None) -> RecordedRunners:
    at = context.clock()
    claims = by_name(await context.pod_claims.stored(installation))
    if only is None:
        found = await context.runners.all(installation)
    else:
        found = await context.runners.some(installation, (await context.runners.ids_of(installation, only)).values())
    runners_by_name, jobs = defaultdict[str, list[Evidence]](list), defaultdict[str, list[Job]](list)
    for evidence in found.values():
        runners_by_name[evidence.name].append(evidence)
    for job in await context.demand.all(installation):
        if job.status == "running" and job.runner_name and (only is None or job.runner_name in only):
            jobs[job.runner_name].append(job)
    return RecordedRunners(dict(runners_by_name), dict(jobs), claims, await context.runners.survey(installation), at)


async def _ours(
    context: JobContext, installation: Installation, pods: Sequence[Pod], known: RecordedRunners, memory: TickMemory
) -> list[Pod]:
    """Returns the pods of namespaces that no other org uses, and those whose runner only this org knows.

    A pod whose runner is registered at a repository of the org, at the org of the repository, or at an enterprise, is
    not its own, whether or not that scope has a pool in the namespace.
    """
    names = {pod.uid: names_of(pod, known.claims, memory) for pod in pods}
    others: dict[str, list[set[str]]] = {}
    for namespace in {pod.namespace for pod in pods}:
        asked = set[str]().union(*(names[pod.uid] for pod in pods if pod.namespace == namespace))
        others[namespace] = await _known_elsewhere(context, installation, namespace, asked)
    here = {*known.runners_by_name, *known.claims}
    unknown = {name for each in names.values() if here.isdisjoint(each) for name in each}
    in_scopes = await known_in_other_scopes(context, installation, unknown)
    return [
        pod
        for pod in pods
        if is_ours(names[pod.uid], here, others[pod.namespace]) and in_scopes.isdisjoint(names[pod.uid])
    ]


async def _known_elsewhere(
    context: JobContext, installation: Installation, namespace: str, names: Collection[str]
) -> list[set[str]]:
    """Returns, for each other org with pods in a namespace, which of these names it knows.

    An org without an installation knows no names.
    """
    pools = context.settings.pools
    orgs = {pool.org.lower() for pool in pools if pool.namespace == namespace} - {installation.org.lower()}
    found = []
    for org in sorted(orgs):
        other = await context.installations.of(org)
        if other is None:
            found.append(set[str]())
            continue
        claims = by_name(await context.pod_claims.stored(other.id))
        ids = await context.runners.ids_of(other.id, names)
        found.append({name for name in names if name in ids or name in claims})
    return found


def _pools_of(settings: Settings, org: str, pod: Pod, known: RecordedRunners, memory: TickMemory) -> set[str]:
    """Returns the pod's pool or, if unknown, all pools that it may belong to."""
    name = memory.names.get(pod.uid, pod.name)
    pool = pool_for(settings, org, pod.namespace, known.latest(name))
    return {pool} if pool else {each.name for each in settings.pools_of(org) if each.namespace == pod.namespace}
