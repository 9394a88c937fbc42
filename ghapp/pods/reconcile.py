"""Compares an org's runners at GitHub with the watch's last snapshot of each namespace. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from ghapp.installations.pool_matching import NamespaceRule, runner_pool
from ghapp.pods.phantom_kinds import Phantom
from ghapp.pods.phantoms import ListedRunner, PhantomInputs, PhantomLimits, phantoms
from ghapp.pods.pod import ARC_KIND, EphemeralRunner, Pod, is_fresh
from ghapp.pods.scale_sets import ScaleSet, inflated_demand
from ghapp.runners.evidence import Evidence, Survey, is_absent, missing_since
from ghapp.runners.verdict import Limits, State, is_spent, judge, silent_since
from ghapp.workflow_jobs.job import Job


class NamespaceSnapshot(Protocol):
    """The watch's last snapshot of a namespace."""

    @property
    def pods(self) -> Mapping[str, Pod]:
        """By name."""

    @property
    def objects(self) -> Mapping[str, EphemeralRunner]:
        """ARC's objects, by name."""

    @property
    def seen_at(self) -> float:
        """When all of it was last known to be current."""

    @property
    def ahead(self) -> float:
        """Seconds by which the cluster's clock was ahead of ours then."""


class ArcDemand(NamedTuple):
    """ARC's scale sets by namespace, and all unfinished jobs of the org."""

    scale_sets: Mapping[str, Sequence[ScaleSet]]
    jobs: Collection[Job]


def find_phantoms(
    org: str,
    runners: Iterable[Evidence],
    survey: Survey,
    seen: Mapping[str, NamespaceSnapshot],
    rules: Sequence[NamespaceRule],
    now: float,
    limits: Limits,
    arc: ArcDemand | None = None,
) -> list[Phantom]:
    """Returns the phantoms of each namespace. Namespaces are checked separately, so that a stale one hides no other.

    Args:
        org: login of the org.
        runners: all known runners.
        survey: results of the last sweeps.
        seen: snapshots by namespace; stale ones are ignored.
        rules: the org's pools.
        now: time of the check.
        limits: of the judgement.
        arc: what ARC's scale sets want, and the org's jobs; None if either is not known.
    """
    records = list(runners)
    ended = _ended(records, survey, now, limits)
    ages = PhantomLimits(startup_seconds=limits.startup_seconds, stale_seconds=limits.stale_seconds)
    found: list[Phantom] = []
    for namespace, snapshot in sorted(seen.items()):
        if not is_fresh(snapshot.seen_at, now):
            continue
        seen_at = min(snapshot.seen_at, now)
        pods, objects = list(snapshot.pods.values()), list(snapshot.objects.values())
        found += phantoms(
            PhantomInputs(
                org=org,
                known=_known(records, namespace, rules),
                known_at=survey.swept_at,
                ended=ended,
                pods=pods,
                pods_at=seen_at,
                objects=objects,
                objects_at=None if _hides_objects(pods, objects) else seen_at,
                ahead=snapshot.ahead,
            ),
            now,
            ages,
        )
        if arc is not None:
            wanted = arc.scale_sets.get(namespace, ())
            found += inflated_demand(org, wanted, objects, arc.jobs, survey, now, snapshot.ahead)
    return found


def pod_locations(
    runners: Iterable[Evidence], seen: Mapping[str, NamespaceSnapshot], rules: Sequence[NamespaceRule]
) -> set[tuple[str, str]]:
    """Returns the (pool, namespace) pairs confirmed by pods named as the pool's runners; stale snapshots count, too."""
    namespaces = {rule.name: rule.namespace for rule in rules}
    found: set[tuple[str, str]] = set()
    for each in runners:
        pool = runner_pool(each, rules)
        namespace = namespaces.get(pool)
        snapshot = seen.get(namespace or "")
        if namespace and snapshot is not None and (each.name in snapshot.pods or each.name in snapshot.objects):
            found.add((pool, namespace))
    return found


def _known(runners: Iterable[Evidence], namespace: str, rules: Sequence[NamespaceRule]) -> list[ListedRunner]:
    """Returns the listed runners. Only runners whose pool has its pods in this namespace have `offline_since`."""
    here = {rule.name for rule in rules if rule.namespace == namespace}
    found = []
    for each in runners:
        if not each.registered or is_absent(each):
            continue
        pool = runner_pool(each, rules)
        silent = silent_since(each) if pool in here else None
        found.append(ListedRunner(each.name, pool, each.first_seen, each.is_at_work, silent, each.ephemeral))
    return found


def _ended(runners: Iterable[Evidence], survey: Survey, now: float, limits: Limits) -> dict[str, float]:
    """Returns, by name, when a registration ended because the job was over or the controller removed the runner.

    A zombie is no longer judged as retired once it hangs, but its job is over all the same.
    """
    found: dict[str, float] = {}
    for each in runners:
        since: float | None = None
        if is_absent(each) and is_spent(each):
            since = each.job_ended_at or missing_since(each)
        elif (verdict := judge(each, survey, now, limits)).state is State.RETIRED:
            since = verdict.since
        if since is not None:
            found[each.name] = max(since, found.get(each.name, 0.0))
    return found


def _hides_objects(pods: Iterable[Pod], objects: Sequence[EphemeralRunner]) -> bool:
    """True if ARC objects must exist that ghapp may not list: there are pods of ARC's, but no object."""
    return not objects and any(owner.kind == ARC_KIND for pod in pods for owner in pod.owners)
