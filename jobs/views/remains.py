"""What the watch's views show of runners whose registration is gone, as folds of their evidence."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from ghapp.health import seen
from ghapp.health.cluster.mismatch import placed
from ghapp.health.cluster.observed_remains import ObservedRemains, by_namespace, observed_remains
from ghapp.health.evidence import Evidence, Fold
from ghapp.health.installation import Installation
from ghapp.store.places import Places
from ghapp.store.pods import Pods
from jobs.house import House


async def observe_remains(house: House, installation: Installation, absent: Iterable[Evidence]) -> dict[int, Fold]:
    """What fresh views show of these runners: a fold (`seen.remains_seen`) for each of which they show something.

    Of each namespace only what concerns these runners is read, in one round trip. Nothing is asked of the cluster or
    of GitHub.

    Args:
        house: what a job needs.
        installation: whose runners.
        absent: runners that the last list lacked; others are left out.
    """
    rules, now = house.settings.pools_of(installation.org), house.clock()
    groups, store = by_namespace(absent, rules), Pods(house.redis)
    if not groups:
        return {}
    views = {
        namespace: view
        for namespace, runners in groups.items()
        if (view := await store.some(namespace, [each.name for each in runners])) is not None
    }
    runners = [each for group in groups.values() for each in group]
    places = Places(house.redis)
    await places.seen(installation.id, placed(runners, views, rules), now)
    observed = observed_remains(runners, views, rules, await places.all(installation.id), now)
    return {runner_id: partial(_fold, observed=each) for runner_id, each in observed.items()}


def _fold(evidence: Evidence | None, observed: ObservedRemains) -> Evidence | None:
    return None if evidence is None else seen.remains_seen(evidence, observed.kind, observed.at)
