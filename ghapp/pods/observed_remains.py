"""What views of the cluster show of runners whose registration is missing. Pure; times are epoch seconds, our clock.

Only fresh views count, only namespaces in which pods of the runner's pool were seen, and only pools whose pods or
objects ghapp can replace.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from ghapp.installations.pool_matching import ScaledRule, runner_pool
from ghapp.pods.pod import EphemeralRunner, Pod, is_fresh
from ghapp.pods.reconcile import NamespaceSnapshot, pod_locations
from ghapp.runners.evidence import Evidence, is_absent, missing_since
from ghapp.runners.remains import RemainsKind

IN_CLUSTER = frozenset({"arc", "pods"})
"""Replacers whose runners are pods of the same name, or ARC's objects."""

SETTLED_SECONDS = 300.0
"""Once views have shown nothing of a runner for this long, no further view is read for it."""

SUCCESSOR_SECONDS = 120.0
"""An object created this much later than a loss belongs to another runner of the same name; clocks may differ."""


class ObservedRemains(NamedTuple):
    """The kind of the remains, and when it was observed."""

    kind: RemainsKind
    at: float


class WatchedNamespace(NamespaceSnapshot, Protocol):
    """A snapshot that also records whether ARC's objects could be listed."""

    @property
    def lists_objects(self) -> bool:
        """If False, an object missing from the snapshot may exist."""


def by_namespace(runners: Iterable[Evidence], rules: Sequence[ScaledRule]) -> dict[str, list[Evidence]]:
    """Groups the runners that a view may still affect by the namespace of their pool's pods."""
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
    """Returns what the views show of each runner, by id; runners with no certain result are left out.

    Args:
        runners: absent runners; others are ignored.
        views: by namespace; complete, or the part that concerns these runners.
        rules: the org's pools.
        places: where pods of pools were ever seen: (pool, namespace).
        now: time of the check.
    """
    records = list(runners)
    known_places = set(places) | pod_locations(records, views, rules)
    found: dict[int, ObservedRemains] = {}
    for namespace, group in by_namespace(records, rules).items():
        view = views.get(namespace)
        if view is None or not is_fresh(view.seen_at, now):
            continue
        objects = _by_runner(view.objects.values())
        for each in group:
            rule = _rule_of(each, rules)
            if rule is None or (rule.name, namespace) not in known_places:
                continue
            kind = _of_arc(each, view, objects) if rule.replacer == "arc" else _of_pod(each, view)
            if kind is not None:
                found[each.id] = ObservedRemains(kind, min(_holds_at(each, kind, view.seen_at), now))
    return found


def _holds_at(evidence: Evidence, kind: RemainsKind, seen_at: float) -> float:
    """Returns the time for which a view is valid: its own time, or the loss if nothing can have changed until then.

    A deleted or Terminating object does not return under its name. The watch confirms its view once a minute; without
    this rule a scale-down would look like a mass loss to the first sweep. A runner younger than the view may just be
    missing from it.
    """
    is_final = kind in (RemainsKind.NOTHING, RemainsKind.TERMINATING)
    return max(seen_at, missing_since(evidence)) if is_final and evidence.first_seen <= seen_at else seen_at


def _rule_of(evidence: Evidence, rules: Sequence[ScaledRule]) -> ScaledRule | None:
    pool = runner_pool(evidence, rules)
    return next((each for each in rules if each.name == pool and each.replacer in IN_CLUSTER), None)


def _is_open(evidence: Evidence) -> bool:
    """True if further views may change the verdict."""
    ended = (evidence.retired_at, evidence.reregistered_as, evidence.replaced_at, evidence.not_needed_at)
    if not is_absent(evidence) or any(each is not None for each in ended):
        return False
    remains = evidence.remains
    is_settled = remains is not None and remains.seen_at - remains.since >= SETTLED_SECONDS
    return not (is_settled and remains is not None and remains.kind is RemainsKind.NOTHING)


def _by_runner(objects: Iterable[EphemeralRunner]) -> dict[str, list[EphemeralRunner]]:
    """Returns ARC's objects by the name of their runner."""
    found: dict[str, list[EphemeralRunner]] = defaultdict(list)
    for each in objects:
        found[each.runner_name or each.name].append(each)
    return found


def _of_arc(
    evidence: Evidence, view: WatchedNamespace, objects: Mapping[str, Sequence[EphemeralRunner]]
) -> RemainsKind | None:
    """Judges by the object and its pod. None: several objects have the runner, or ghapp may not list the objects."""
    candidates = objects.get(evidence.name, ())
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
    return found.created_at - ahead > missing_since(evidence) + SUCCESSOR_SECONDS
