"""What the watch's views show of runners whose registration is gone, as folds of their evidence."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from ghapp.health.installation import Installation
from ghapp.health.pods.observed_remains import ObservedRemains, by_namespace, observed_remains
from ghapp.health.pods.reconcile import pod_locations
from ghapp.health.runner import observations
from ghapp.health.runner.evidence import Evidence, Fold
from jobs.context import JobContext


async def observe_remains(
    context: JobContext, installation: Installation, absent: Iterable[Evidence], now: float
) -> dict[int, Fold]:
    """What fresh views show of these runners: a fold (`seen.remains_seen`) for each of which they show something.

    Of each namespace only what concerns these runners is read, in one round trip. Nothing is asked of the cluster or
    of GitHub.

    Args:
        context: what a job needs.
        installation: whose runners.
        absent: runners that the last list lacked; others are left out.
        now: epoch seconds.
    """
    rules = context.settings.pools_of(installation.org)
    groups, store = by_namespace(absent, rules), context.pods
    if not groups:
        return {}
    views = {
        namespace: view
        for namespace, runners in groups.items()
        if (view := await store.some(namespace, [each.name for each in runners])) is not None
    }
    runners = [each for group in groups.values() for each in group]
    places = context.pod_locations
    await places.seen(installation.id, pod_locations(runners, views, rules), now)
    observed = observed_remains(runners, views, rules, await places.all(installation.id), now)
    return {runner_id: partial(_fold, observed=each) for runner_id, each in observed.items()}


def _fold(evidence: Evidence | None, observed: ObservedRemains) -> Evidence | None:
    return None if evidence is None else observations.remains_seen(evidence, observed.kind, observed.at)
