"""What people are told of an org's cluster side: phantoms that last, deaths of the last day, and what nobody sees.

Looks come one after the other, and each is folded into what the ones before it left: what is fleeting is never told,
and no death is read twice. Pure; times are epoch seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from ghapp.health.cluster.misfit import FoundSince, Phantom, key, lasting
from ghapp.health.cluster.phantom import Known, PhantomLimits, View, phantoms
from ghapp.health.cluster.pod import ARC_KIND, EphemeralRunner, Pod
from ghapp.health.deaths.cause import Cause
from ghapp.health.deaths.death import Death
from ghapp.health.demand import is_fresh
from ghapp.health.evidence import Evidence, Survey
from ghapp.health.pools import PoolRule, pool_of
from ghapp.health.verdict import Limits, State, is_absent, judge, silent_since

DAY_SECONDS = 86_400.0
LASTING_SECONDS = 120.0
"""A phantom is told when every look has found it for so long. ARC's objects alone are listed as seldom as 20 s."""

BRIDGED_SECONDS = 600.0
"""After a longer time without a look nothing is known of what lay between."""

LATE_SECONDS = 900.0
"""Deaths are recorded, and their causes mended, up to so long after they came."""

MOST_DEATHS = 1_000
"""Kept of the last day, the latest."""


class Rule(PoolRule, Protocol):
    """What a configured pool says of where its pods are, beside who belongs to it."""

    @property
    def namespace(self) -> str | None:
        """Where they are; None for nowhere that we know."""


class Sight(Protocol):
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


class Passing(NamedTuple):
    """A death in short. Fields are only ever appended: stored records are read by position."""

    runner_name: str
    at: float
    cause: Cause
    reason: str


class ClusterSide(NamedTuple):
    """What the looks so far have left. Fields are only ever appended: stored records are read by position.

    Attributes:
        at: when the last look was.
        since: since when each finding has stood, fleeting ones too, by `phantom.key`.
        phantoms: those that last.
        deaths: of the last day, clean exits left out; latest first.
    """

    at: float
    since: Mapping[str, float] = {}
    phantoms: tuple[Phantom, ...] = ()
    deaths: tuple[Passing, ...] = ()


class Unseen(NamedTuple):
    """A namespace of a pool that nobody sees just now, and when it was last seen; None for never."""

    namespace: str
    seen_at: float | None


def unseen(seen_at: Mapping[str, float | None], now: float) -> list[Unseen]:
    """Those namespaces whose view is old or missing, in the order of their names."""
    return [Unseen(name, at) for name, at in sorted(seen_at.items()) if at is None or not is_fresh(at, now)]


def namespaces_of(rules: Iterable[Rule]) -> list[str]:
    """Where the pools' pods are, each once."""
    return sorted({rule.namespace for rule in rules if rule.namespace})


def mismatches(
    org: str,
    runners: Iterable[Evidence],
    survey: Survey,
    seen: Mapping[str, Sight],
    rules: Sequence[Rule],
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
            View(
                org=org,
                known=_known(everyone, namespace, rules),
                known_at=survey.swept_at,
                gone=gone,
                pods=pods,
                pods_at=seen_at,
                objects=objects,
                objects_at=None if _hides_objects(pods, objects) else seen_at,
            ),
            now,
            ages,
        )
    return found


def placed(runners: Iterable[Evidence], seen: Mapping[str, Sight], rules: Sequence[Rule]) -> set[tuple[str, str]]:
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


def unread_since(before: ClusterSide | None, now: float) -> float:
    """From when on deaths are to be read for the next look."""
    return now - DAY_SECONDS if before is None else max(before.at - LATE_SECONDS, now - DAY_SECONDS)


def bridged(before: ClusterSide | None, now: float) -> ClusterSide | None:
    """What was left, if the next look may go on from it: not after a long time, and not when the clock went back."""
    return before if before is not None and 0 <= now - before.at <= BRIDGED_SECONDS else None


def folded(before: ClusterSide | None, found: Iterable[Phantom], recent: Iterable[Death], now: float) -> ClusterSide:
    """What is known after one more look.

    Args:
        before: what was left by the one before it, as `bridged` lets through.
        found: what did not fit together.
        recent: deaths from `unread_since` on.
        now: when it was.
    """
    known: FoundSince = {} if before is None else before.since
    told, since = lasting(found, known, now, LASTING_SECONDS)
    deaths = {} if before is None else {(each.runner_name, each.at): each for each in before.deaths}
    for death in recent:
        deaths[death.runner_name, death.at] = Passing(death.runner_name, death.at, death.cause, death.reason)
    latest = sorted(deaths.values(), key=lambda each: (-each.at, each.runner_name))
    kept = [each for each in latest if each.at >= now - DAY_SECONDS and each.cause is not Cause.CLEAN_EXIT]
    return ClusterSide(now, since, tuple(told), tuple(kept[:MOST_DEATHS]))


def told_since(side: ClusterSide, phantom: Phantom) -> float:
    """Since when looks have found a phantom."""
    return side.since.get(key(phantom), side.at)


def _known(runners: Iterable[Evidence], namespace: str, rules: Sequence[Rule]) -> list[Known]:
    """Whom GitHub lists. Only of those whose pool has its pods here, it is told since when they are offline."""
    here = {rule.name for rule in rules if rule.namespace == namespace}
    found = []
    for each in runners:
        if not each.registered or is_absent(each):
            continue
        pool = pool_of(each.labels, each.custom_labels, rules)
        silent = silent_since(each) if pool in here else None
        busy = each.busy or each.running_job is not None
        found.append(Known(each.name, pool, each.first_seen, busy, silent, each.ephemeral))
    return found


def _gone(runners: Iterable[Evidence], survey: Survey, now: float, limits: Limits) -> dict[str, float]:
    """When the registration of each went whose job was over, or whom its controller removed, by name."""
    found: dict[str, float] = {}
    for each in runners:
        verdict = judge(each, survey, now, limits)
        if verdict.state is State.RETIRED and verdict.since is not None:
            found[each.name] = max(verdict.since, found.get(each.name, 0.0))
    return found


def _hides_objects(pods: Iterable[Pod], objects: Sequence[EphemeralRunner]) -> bool:
    """Whether there must be objects of ARC's that we may not list: its pods are there, and not one object."""
    return not objects and any(owner.kind == ARC_KIND for pod in pods for owner in pod.owners)
