"""Reads the fleet from Redis for `ghapp runners` and `ghapp explain`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from ghapp.cli.context import chosen, opened
from ghapp.errors import GhappError
from ghapp.settings import Settings

if TYPE_CHECKING:
    from ghapp.health.cluster_summary import StaleNamespace
    from ghapp.health.deaths.death import Death
    from ghapp.health.installation import Installation
    from ghapp.health.queue.job_queue import JobQueue
    from ghapp.health.runner.evidence import Evidence
    from ghapp.report.documents import HealthDocument
    from ghapp.report.org_view import OrgView
    from ghapp.store.stores import Stores

CLOCK_SKEW_SECONDS = 60.0
"""Tolerance between the cluster's clock and GitHub's."""


class FleetDocuments(NamedTuple):
    """Documents of runners and phantoms, namespaces without a current snapshot, pauses and fuses that block, and jobs.

    `pools` has the jobs and idle runners of each pool.
    """

    runners: list[HealthDocument]
    phantoms: list[dict[str, Any]]
    unseen: list[StaleNamespace]
    held: list[dict[str, Any]]
    pools: list[dict[str, Any]]


def held_back(view: OrgView) -> list[dict[str, Any]]:
    """Returns the pauses and the fuses that are not closed, those of the whole organization first."""
    from ghapp.health.remediation.fuse import Position
    from ghapp.report import fuse_history
    from ghapp.report.documents import timestamp
    from ghapp.store.fuses import WHOLE_ORG

    found = [
        {"pool": pool, "kind": "pause", "said": f"by {each.who} since {timestamp(each.at)}: {each.why}"}
        for pool, each in view.pauses.items()
    ]
    found += [
        {"pool": pool, "kind": f"fuse {each.position}", "said": fuse_history(each, str)}
        for pool, each in view.fuses.items()
        if each.position is not Position.CLOSED
    ]
    found.sort(key=lambda each: (each["pool"] != WHOLE_ORG, each["pool"]))
    return [{"org": view.org, **each, "pool": None if each["pool"] == WHOLE_ORG else each["pool"]} for each in found]


async def fleet_documents(settings: Settings, org: str | None) -> FleetDocuments:
    """Returns the documents of all known runners of an org, or of all orgs.

    Raises:
        UnknownOrgError: the App is not installed there.
    """
    from ghapp.health.cluster_summary import stale_namespaces
    from ghapp.store.org_views import load_org_view

    runners: list[HealthDocument] = []
    phantoms: list[dict[str, Any]] = []
    now = time.time()
    held: list[dict[str, Any]] = []
    pools: list[dict[str, Any]] = []
    async with opened(settings) as stores:
        installations = await chosen(stores.installations, org)
        for installation in installations:
            view = await load_org_view(stores, installation, settings)
            held += held_back(view)
            known = (await stores.runners.all(installation.id)).values()
            runners += [view.document(each, now) for each in known]
            jobs = await stores.demand.all(installation.id)
            groups = await stores.runner_groups.of(installation.id)
            pools += _pools(view.job_queue(known, jobs, now, groups=groups))
            phantoms += await _phantoms(stores, installation)
        names = sorted(
            {rule.namespace for each in installations for rule in settings.pools_of(each.org) if rule.namespace}
        )
        stale = stale_namespaces({name: await stores.pods.seen_at(name) for name in names}, now)
    runners.sort(key=lambda each: (each["org"], each["pool"] or "", each["name"] or ""))
    return FleetDocuments(runners, phantoms, stale, held, pools)


def _pools(queue: JobQueue) -> list[dict[str, Any]]:
    """Returns the jobs and idle runners of each pool."""
    from ghapp.health.demand import demand
    from ghapp.report.documents import timestamp

    return [
        {
            "org": queue.inputs.org,
            "pool": each.pool,
            "queued": each.queued,
            "running": each.running,
            "oldest_queued_at": None if each.oldest_queued_at is None else timestamp(each.oldest_queued_at),
            "idle": each.idle,
            "unserved": each.unserved,
        }
        for each in demand(queue)[0]
    ]


async def runner_document(settings: Settings, org: str, name_or_id: str) -> dict[str, Any]:
    """Returns the document of one runner, by name or id, with its death; of an unknown name only its death.

    Raises:
        UnknownOrgError: the App is not installed there.
        GhappError: neither a runner nor a death of that name is known.
    """
    from ghapp.report.documents import death_document, never_seen
    from ghapp.store.org_views import load_org_view

    async with opened(settings) as stores:
        (installation,) = await chosen(stores.installations, org)
        known = (await stores.runners.all(installation.id)).values()
        found = [each for each in known if each.name == name_or_id or str(each.id) == name_or_id]
        evidence = max(found, key=lambda each: each.id, default=None)
        died = await stores.deaths.of(installation.id, evidence.name if evidence else name_or_id)
        view = await load_org_view(stores, installation, settings)
        if evidence is not None:
            document = view.document(evidence, time.time())
            died = died if died is not None and is_of(died, evidence) else None
        elif died is not None:
            document = never_seen(installation.org, died.runner_id, name_or_id)
        else:
            raise GhappError(f"{org} {name_or_id}: unknown runner; see `ghapp runners --org {org}`")
    held = [each for each in held_back(view) if each["pool"] in (None, document["pool"])]
    return {**document, "held": held, "death": None if died is None else death_document(died)}


def is_of(death: Death, evidence: Evidence) -> bool:
    """True if this runner died, and not an earlier runner of the same name."""
    if death.runner_id is not None:
        return death.runner_id == evidence.id
    return death.at >= evidence.first_seen - CLOCK_SKEW_SECONDS


async def _phantoms(stores: Stores, installation: Installation) -> list[dict[str, Any]]:
    """Returns the phantoms of the last snapshot, as documents."""
    from ghapp.health.cluster_summary import phantom_since
    from ghapp.report.documents import timestamp

    summary = await stores.cluster_summaries.of(installation.id)
    if summary is None:
        return []
    return [
        {
            "org": installation.org,
            "name": each.subject,
            "pool": each.pool or None,
            "namespace": each.namespace or None,
            "scale_set": each.scale_set or None,
            "kind": each.kind.value,
            "reason": each.reason.value,
            "since": timestamp(phantom_since(summary, each)),
            "advice": each.advice,
        }
        for each in summary.phantoms
    ]
