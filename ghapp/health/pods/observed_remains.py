"""What views of the cluster show of runners whose registration is gone. Pure; times are epoch seconds, by our clock.

Only a view that is fresh counts, only in a namespace in which the runner's pool was seen to have its pods, and only
for pools whose pods or objects ghapp knows how to replace. Of anything else nothing is said.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from ghapp.health.pods.pod import EphemeralRunner, Pod, is_fresh
from ghapp.health.pods.reconcile import NamespaceSnapshot, pod_locations
from ghapp.health.pool_matching import ScaledRule, pool_of
from ghapp.health.runner.evidence import Evidence
from ghapp.health.runner.remains import RemainsKind
from ghapp.health.runner.verdict import gone_since, is_absent

IN_CLUSTER = frozenset({"arc", "pods"})
"""The replacers whose runners are pods under their own names, or ARC's objects."""

SETTLED_SECONDS = 300.0
"""Of a runner of which views have shown nothing for so long, no further view is read."""

SUCCESSOR_SECONDS = 120.0
"""What was created this much later than a registration went is another runner of its name; clocks may be off."""


class ObservedRemains(NamedTuple):
    """What stands there, and when that was true."""

    kind: RemainsKind
    at: float


class WatchedNamespace(NamespaceSnapshot, Protocol):
    """A view that also says whether ARC's objects could be listed."""

    @property
    def lists_objects(self) -> bool:
        """If not, an object that is not in the view may be there all the same."""


def by_namespace(runners: Iterable[Evidence], rules: Sequence[ScaledRule]) -> dict[str, list[Evidence]]:
    """The runners of which a view may still tell something, by the namespace in which their pool has its pods."""
    found: dict[str, list[Evidence]] = defaultdict(list)
    for each in runners:
        rule = _rule_of(each, rules)
        if rule is not None and rule.namespace and _is_open(each):
            found[rule.namespace].append(each)
    return dict(found)


def observed_remains(
    runners: Iterable[Evidence],
    views: Mapping[str, WatchedNamespace],
    rules: Sequence[ScaledRule],
    places: Collection[tuple[str, str]],
    now: float,
) -> dict[int, ObservedRemains]:
    """What the views show of each runner, by its id; runners of which they show nothing for certain are left out.

    Args:
        runners: absent ones; others are left out.
        views: by namespace; all of it, or the part that concerns these runners.
        rules: the org's pools.
        places: where pools were ever seen to have pods: (pool, namespace).
        now: the time of the look.
    """
    everyone = list(runners)
    known_places = set(places) | pod_locations(everyone, views, rules)
    found: dict[int, ObservedRemains] = {}
    for namespace, group in by_namespace(everyone, rules).items():
        view = views.get(namespace)
        if view is None or not is_fresh(view.seen_at, now):
            continue
        bearers = _by_runner(view.objects.values())
        for each in group:
            rule = _rule_of(each, rules)
            if rule is None or (rule.name, namespace) not in known_places:
                continue
            kind = _of_arc(each, view, bearers) if rule.replacer == "arc" else _of_pod(each, view)
            if kind is not None:
                found[each.id] = ObservedRemains(kind, min(_holds_at(each, kind, view.seen_at), now))
    return found


def _holds_at(evidence: Evidence, kind: RemainsKind, seen_at: float) -> float:
    """As of when a view holds: as of its own time, or as of the loss where nothing can have changed until then.

    What is gone, or on its way, does not come back under its name. The watch confirms its view once a minute, so that
    without this a scale-down would look like a mass loss to the first sweep. A runner that is younger than the view may
    only not be in it yet.
    """
    is_final = kind in (RemainsKind.NOTHING, RemainsKind.TERMINATING)
    return max(seen_at, gone_since(evidence)) if is_final and evidence.first_seen <= seen_at else seen_at


def _rule_of(evidence: Evidence, rules: Sequence[ScaledRule]) -> ScaledRule | None:
    pool = pool_of(evidence.labels, evidence.custom_labels, rules)
    return next((each for each in rules if each.name == pool and each.replacer in IN_CLUSTER), None)


def _is_open(evidence: Evidence) -> bool:
    """Whether what stands there may still change what is judged of it."""
    ended = (evidence.retired_at, evidence.reregistered_as, evidence.replaced_at, evidence.not_needed_at)
    if not is_absent(evidence) or any(each is not None for each in ended):
        return False
    remains = evidence.remains
    is_settled = remains is not None and remains.seen_at - remains.since >= SETTLED_SECONDS
    return not (is_settled and remains is not None and remains.kind is RemainsKind.NOTHING)


def _by_runner(objects: Iterable[EphemeralRunner]) -> dict[str, list[EphemeralRunner]]:
    """ARC's objects by the name of the runner that each bears."""
    found: dict[str, list[EphemeralRunner]] = defaultdict(list)
    for each in objects:
        found[each.runner_name or each.name].append(each)
    return found


def _of_arc(
    evidence: Evidence, view: WatchedNamespace, bearers: Mapping[str, Sequence[EphemeralRunner]]
) -> RemainsKind | None:
    """By the object, and its pod. None: several objects bear the runner, or its object may only be hidden from us."""
    candidates = bearers.get(evidence.name, ())
    if len(candidates) > 1 or not view.lists_objects:
        return None
    if not candidates:
        return _of_pod(evidence, view)
    (found,) = candidates
    if _succeeds(evidence, found, view.ahead):
        return None
    if found.deleting_since is not None:
        return RemainsKind.TERMINATING
    pod = view.pods.get(found.name)
    return RemainsKind.NO_POD if pod is None else _of_container(pod)


def _of_pod(evidence: Evidence, view: WatchedNamespace) -> RemainsKind | None:
    pod = view.pods.get(evidence.name)
    if pod is None:
        return RemainsKind.NOTHING
    if _succeeds(evidence, pod, view.ahead):
        return None
    return RemainsKind.TERMINATING if pod.deleting_since is not None else _of_container(pod)


def _of_container(pod: Pod) -> RemainsKind:
    return RemainsKind.RUNNING if pod.is_running else RemainsKind.ENDED


def _succeeds(evidence: Evidence, found: EphemeralRunner | Pod, ahead: float) -> bool:
    return found.created_at - ahead > gone_since(evidence) + SUCCESSOR_SECONDS
