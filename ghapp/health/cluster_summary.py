"""What people are told of an org's cluster side: phantoms that last, deaths of the last day, and what nobody sees.

Looks come one after the other, and each is folded into what the ones before it left: what is fleeting is never told,
and no death is read twice. Pure; times are epoch seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ghapp.health.deaths.cause import Cause
from ghapp.health.deaths.death import Death
from ghapp.health.pods.phantom_kinds import FoundSince, Phantom, key, lasting
from ghapp.health.pods.pod import is_fresh
from ghapp.health.pods.reconcile import NamespaceRule

DAY_SECONDS = 86_400.0
LASTING_SECONDS = 120.0
"""A phantom is told when every look has found it for so long. ARC's objects alone are listed as seldom as 20 s."""

BRIDGED_SECONDS = 600.0
"""After a longer time without a look nothing is known of what lay between."""

LATE_SECONDS = 900.0
"""Deaths are recorded, and their causes mended, up to so long after they came."""

MOST_DEATHS = 1_000
"""Kept of the last day, the latest."""


class DeathSummary(NamedTuple):
    """A death in short. Fields are only ever appended: stored records are read by position."""

    runner_name: str
    at: float
    cause: Cause
    reason: str


class ClusterSummary(NamedTuple):
    """What the looks so far have left. Fields are only ever appended: stored records are read by position.

    Attributes:
        at: when the last look was.
        since: since when each finding has stood, fleeting ones too, by `phantom.key`.
        phantoms: those that last.
        deaths: of the last day, clean exits left out; latest first.
        hidden: what was told before it could not be looked for any more, by key: since when it has stood, and when it
            was found last.
    """

    at: float
    since: Mapping[str, float] = {}
    phantoms: tuple[Phantom, ...] = ()
    deaths: tuple[DeathSummary, ...] = ()
    hidden: Mapping[str, tuple[float, float]] = {}


class StaleNamespace(NamedTuple):
    """A namespace of a pool that nobody sees just now, and when it was last seen; None for never."""

    namespace: str
    seen_at: float | None


def stale_namespaces(seen_at: Mapping[str, float | None], now: float) -> list[StaleNamespace]:
    """Those namespaces whose view is old or missing, in the order of their names."""
    return [StaleNamespace(name, at) for name, at in sorted(seen_at.items()) if at is None or not is_fresh(at, now)]


def namespaces_of(rules: Iterable[NamespaceRule]) -> list[str]:
    """Where the pools' pods are, each once."""
    return sorted({rule.namespace for rule in rules if rule.namespace})


def unread_since(before: ClusterSummary | None, now: float) -> float:
    """From when on deaths are to be read for the next look."""
    return now - DAY_SECONDS if before is None else max(before.at - LATE_SECONDS, now - DAY_SECONDS)


def continued(before: ClusterSummary | None, now: float) -> ClusterSummary | None:
    """What was left, if the next look may go on from it: not after a long time, and not when the clock went back."""
    return before if before is not None and 0 <= now - before.at <= BRIDGED_SECONDS else None


def summary_after(
    before: ClusterSummary | None,
    found: Iterable[Phantom],
    recent: Iterable[Death],
    now: float,
    *,
    is_blind: bool = False,
) -> ClusterSummary:
    """What is known after one more look.

    A phantom that was told, and then could not be looked for during some minutes, has stood since it was first found.

    Args:
        before: what was left by the one before it, as `bridged` lets through.
        found: what did not fit together.
        recent: deaths from `unread_since` on.
        now: when it was.
        is_blind: whether a part could not be seen in this look: what is not found may be there all the same.
    """
    known: FoundSince = (
        {} if before is None else {**{key: since for key, (since, _) in before.hidden.items()}, **before.since}
    )
    told, since = lasting(found, known, now, LASTING_SECONDS)
    hidden = _hidden(before, since, now) if is_blind else {}
    deaths = {} if before is None else {(each.runner_name, each.at): each for each in before.deaths}
    for death in recent:
        deaths[death.runner_name, death.at] = DeathSummary(death.runner_name, death.at, death.cause, death.reason)
    latest = sorted(deaths.values(), key=lambda each: (-each.at, each.runner_name))
    kept = [each for each in latest if each.at >= now - DAY_SECONDS and each.cause is not Cause.CLEAN_EXIT]
    return ClusterSummary(now, since, tuple(told), tuple(kept[:MOST_DEATHS]), hidden)


def _hidden(before: ClusterSummary | None, since: FoundSince, now: float) -> dict[str, tuple[float, float]]:
    """What was told before and is not found now, for as long as looks are bridged."""
    if before is None:
        return {}
    told = {key(each): (phantom_since(before, each), before.at) for each in before.phantoms}
    known = {**before.hidden, **told}
    return {name: row for name, row in known.items() if name not in since and now - row[1] <= BRIDGED_SECONDS}


def phantom_since(side: ClusterSummary, phantom: Phantom) -> float:
    """Since when looks have found a phantom."""
    return side.since.get(key(phantom), side.at)
