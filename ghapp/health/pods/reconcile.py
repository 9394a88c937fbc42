"""One look at an org's cluster side: GitHub's runners held against what the watch last saw of each namespace. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from ghapp.health.pods.phantom_kinds import Phantom
from ghapp.health.pods.phantoms import ListedRunner, PhantomInputs, PhantomLimits, phantoms
from ghapp.health.pods.pod import ARC_KIND, EphemeralRunner, Pod, is_fresh
from ghapp.health.pool_matching import PoolRule, pool_of
from ghapp.health.runner.evidence import Evidence, Survey
from ghapp.health.runner.verdict import Limits, State, gone_since, is_absent, is_spent, judge, silent_since


class NamespaceRule(PoolRule, Protocol):
    """What a configured pool says of where its pods are, beside who belongs to it."""

    @property
    def namespace(self) -> str | None:
        """Where they are; None for nowhere that we know."""


class NamespaceSnapshot(Protocol):
    """What the watch last saw of a namespace."""

    @property
    def pods(self) -> Mapping[str, Pod]:
        """By name."""

    @property
    def objects(self) -> Mapping[str, EphemeralRunner]:
        """ARC's, by name."""

    @property
    def seen_at(self) -> float:
        """When all of it was last known to be true."""

    @property
    def ahead(self) -> float:
        """By how many seconds the cluster's clock was ahead of ours then."""


def find_phantoms(
    org: str,
    runners: Iterable[Evidence],
    survey: Survey,
    seen: Mapping[str, NamespaceSnapshot],
    rules: Sequence[NamespaceRule],
    now: float,
    limits: Limits,
) -> list[Phantom]:
    """What does not fit together by this look. Each namespace is looked at alone: one that is not seen hides no other.

    Args:
        org: whose.
        runners: all that are known.
        survey: how the last looks at GitHub went.
        seen: the views, by namespace; old ones say nothing.
        rules: the org's pools.
        now: the time of the look.
        limits: of the judgement.
    """
    everyone = list(runners)
    gone = _gone(everyone, survey, now, limits)
    ages = PhantomLimits(startup_seconds=limits.startup_seconds, stale_seconds=limits.stale_seconds)
    found: list[Phantom] = []
    for namespace, sight in sorted(seen.items()):
        if not is_fresh(sight.seen_at, now):
            continue
        seen_at = min(sight.seen_at, now)
        pods, objects = list(sight.pods.values()), list(sight.objects.values())
        found += phantoms(
            PhantomInputs(
                org=org,
                known=_known(everyone, namespace, rules),
                known_at=survey.swept_at,
                gone=gone,
                pods=pods,
                pods_at=seen_at,
                objects=objects,
                objects_at=None if _hides_objects(pods, objects) else seen_at,
                ahead=sight.ahead,
            ),
            now,
            ages,
        )
    return found


def pod_locations(
    runners: Iterable[Evidence], seen: Mapping[str, NamespaceSnapshot], rules: Sequence[NamespaceRule]
) -> set[tuple[str, str]]:
    """Which pools have pods where they say, by their runners' names and however old a view: (pool, namespace)."""
    where = {rule.name: rule.namespace for rule in rules}
    found: set[tuple[str, str]] = set()
    for each in runners:
        pool = pool_of(each.labels, each.custom_labels, rules)
        namespace = where.get(pool)
        sight = seen.get(namespace or "")
        if namespace and sight is not None and (each.name in sight.pods or each.name in sight.objects):
            found.add((pool, namespace))
    return found


def _known(runners: Iterable[Evidence], namespace: str, rules: Sequence[NamespaceRule]) -> list[ListedRunner]:
    """Whom GitHub lists. Only of those whose pool has its pods here, it is told since when they are offline."""
    here = {rule.name for rule in rules if rule.namespace == namespace}
    found = []
    for each in runners:
        if not each.registered or is_absent(each):
            continue
        pool = pool_of(each.labels, each.custom_labels, rules)
        silent = silent_since(each) if pool in here else None
        busy = each.busy or each.running_job is not None
        found.append(ListedRunner(each.name, pool, each.first_seen, busy, silent, each.ephemeral))
    return found


def _gone(runners: Iterable[Evidence], survey: Survey, now: float, limits: Limits) -> dict[str, float]:
    """When the registration of each went whose job was over, or whom its controller removed, by name.

    A zombie is not called retired any more once it hangs; its job was over all the same.
    """
    found: dict[str, float] = {}
    for each in runners:
        since: float | None = None
        if is_absent(each) and is_spent(each):
            since = each.job_ended_at or gone_since(each)
        elif (verdict := judge(each, survey, now, limits)).state is State.RETIRED:
            since = verdict.since
        if since is not None:
            found[each.name] = max(since, found.get(each.name, 0.0))
    return found


def _hides_objects(pods: Iterable[Pod], objects: Sequence[EphemeralRunner]) -> bool:
    """Whether there must be objects of ARC's that we may not list: its pods are there, and not one object."""
    return not objects and any(owner.kind == ARC_KIND for pod in pods for owner in pod.owners)
