"""Summarizes an org's clusters: phantoms, the deaths of the last week, and reaped pods."""

from __future__ import annotations

from collections.abc import Sequence

from ghapp.deaths.cluster_summary import (
    MOST_DEATHS,
    ClusterSummary,
    continued,
    summary_after,
    unread_since,
)
from ghapp.deaths.death import with_phantom
from ghapp.installations.installation import Installation
from ghapp.installations.pool_matching import namespaces_of
from ghapp.leaks.reaper_status import DAY_SECONDS, ReaperStatus, reaper_status
from ghapp.pods.phantom_kinds import Phantom
from ghapp.pods.pod import is_fresh
from ghapp.pods.reconcile import ArcDemand, find_phantoms, pod_locations
from jobs.context import JobContext

EVERY_SECONDS = 15.0
"""A younger summary is used again: nothing is reported before it has lasted for more than a minute."""

MOST_READ = 2_000
"""Deaths that one summary reads. Clean exits are among them: a death may turn out to be one."""


async def summarize_cluster(context: JobContext, installation: Installation, now: float) -> ClusterSummary | None:
    """Returns the summary of an org's clusters as of `now`; None if no pool of the org has a namespace.

    Reads only what the watch and the sweeps stored: sends no request to the cluster or to GitHub.
    """
    rules = context.settings.pools_of(installation.org)
    namespaces = namespaces_of(rules)
    if not namespaces:
        return None
    summaries, pods = context.cluster_summaries, context.pods
    before = continued(await summaries.of(installation.id), now)
    if before is not None and now - before.at < EVERY_SECONDS:
        return before
    # Read GitHub's side first: what was created in the cluster after that is too young to be missed.
    survey = await context.runners.survey(installation.id)
    runners = (await context.runners.all(installation.id)).values()
    seen = {name: view for name in namespaces if (view := await pods.all(name)) is not None}
    limits = context.settings.of(installation.org).evidence
    await context.pod_locations.seen(installation.id, pod_locations(runners, seen, rules), now)
    arc = await _arc_demand(context, installation, namespaces)
    found = find_phantoms(installation.org, runners, survey, seen, rules, now, limits, arc)
    deaths = context.deaths
    unread = unread_since(before, now)
    if before is None or before.deaths_since is None:
        recent = await deaths.unclean(installation.id, unread, MOST_DEATHS)
    else:
        recent = await deaths.recent(installation.id, unread, MOST_READ)
    is_blind = len(seen) < len(namespaces) or not all(is_fresh(view.seen_at, now) for view in seen.values())
    is_blind = is_blind or survey.swept_at is None or now - survey.swept_at > limits.stale_seconds
    cluster_summary = summary_after(before, found, recent, now, is_blind=is_blind)
    await summaries.keep(installation.id, cluster_summary)
    await _advise(context, installation, cluster_summary.phantoms)
    return cluster_summary


async def _advise(context: JobContext, installation: Installation, phantoms: Sequence[Phantom]) -> None:
    """Gives the deaths of pods that left a phantom its advice; the next summary reads these deaths again."""
    deaths = await context.deaths.latest(installation.id, [each.subject for each in phantoms])
    for phantom in phantoms:
        death = deaths.get(phantom.subject)
        if death is not None and (advised := with_phantom(death, phantom)) != death:
            await context.deaths.enrich(installation.id, advised)


async def _arc_demand(context: JobContext, installation: Installation, namespaces: list[str]) -> ArcDemand | None:
    """Returns what ARC's scale sets want; None if nothing is known of them, or while deliveries are late."""
    scale_sets = {name: found for name in namespaces if (found := await context.scale_sets.get(name))}
    if not scale_sets:
        return None
    arrivals = (await context.delivery_status.arrivals([installation.caller])).get(installation.caller)
    if arrivals is None or arrivals.last_at is None or arrivals.late:
        return None
    return ArcDemand(scale_sets, await context.demand.all(installation.id))


async def leaks_of(context: JobContext, installation: Installation, now: float) -> ReaperStatus:
    """Returns what the reaper of stamped pods did, and what it deferred, by its own record."""
    store = context.leaks
    last, reaped = await store.last(installation.id), await store.reaped_since(installation.id, now - DAY_SECONDS)
    return reaper_status(
        last.at,
        last.trouble_since,
        now,
        reaped=reaped,
        deferred=last.deferred,
        would_reap=last.would_reap,
        never_runners=last.never_runners,
        held=last.held,
        kept=last.kept,
        examples=last.examples,
        stops=last.stops,
    )
