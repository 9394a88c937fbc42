"""Reads what the watch's views show of runners whose registration is missing, as folds of their evidence."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from ghapp.installations.installation import Installation
from ghapp.pods.observed_remains import ObservedRemains, by_namespace, observed_remains
from ghapp.pods.reconcile import pod_locations
from ghapp.runners import observations
from ghapp.runners.evidence import Evidence, Fold
from jobs.context import JobContext


async def observe_remains(
    context: JobContext, installation: Installation, absent: Iterable[Evidence], now: float
) -> dict[int, Fold]:
    """Returns a fold (`observations.remains_seen`) for each of these runners of which fresh views show something.

    Only what concerns these runners is read, in one round trip for each namespace. No request is sent to the cluster or
    to GitHub.

    Args:
        context: the context of the job.
        installation: the installation of the runners.
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
    locations = context.pod_locations
    await locations.seen(installation.id, pod_locations(runners, views, rules), now)
    observed = observed_remains(runners, views, rules, await locations.all(installation.id), now)
    return {runner_id: partial(_fold, observed=each) for runner_id, each in observed.items()}


def _fold(evidence: Evidence | None, observed: ObservedRemains) -> Evidence | None:
    return None if evidence is None else observations.remains_seen(evidence, observed.kind, observed.at)
