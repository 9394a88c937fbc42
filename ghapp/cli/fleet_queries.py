"""Reads the fleet from Redis for `ghapp runners` and `ghapp explain`."""

from __future__ import annotations

import time
from typing import Any

from ghapp.cli.backend import FleetDocuments
from ghapp.cli.context import chosen
from ghapp.errors import GhappError
from ghapp.health.deaths.correlation import is_of
from ghapp.report.documents import HealthDocument, death_document, never_seen
from ghapp.report.overview import (
    HeldDocument,
    PhantomDocument,
    PoolQueueDocument,
    degraded_documents,
    held_documents,
    phantom_documents,
    pool_queue_documents,
    unseen_documents,
)
from ghapp.settings import Settings
from ghapp.store.org_views import load_org_view
from ghapp.store.stores import Stores
from ghapp.store.unseen import load_unseen
from ghapp.untrusted_text import shell_command


async def fleet_documents(settings: Settings, stores: Stores, org: str | None) -> FleetDocuments:
    """Returns the documents of all known runners of an org, or of all orgs.

    Raises:
        UnknownOrgError: the App is not installed there.
    """
    runners: list[HealthDocument] = []
    phantoms: list[PhantomDocument] = []
    now = time.time()
    held: list[HeldDocument] = []
    pools: list[PoolQueueDocument] = []
    installations = await chosen(stores.installations, org)
    for installation in installations:
        view = await load_org_view(stores, installation, settings)
        held += held_documents(view)
        known = (await stores.runners.all(installation.id)).values()
        runners += [view.document(each, now) for each in known]
        jobs = await stores.demand.all(installation.id)
        groups = await stores.runner_groups.of(installation.id)
        pools += pool_queue_documents(view.job_queue(known, jobs, now, groups=groups))
        phantoms += phantom_documents(installation.org, await stores.cluster_summaries.of(installation.id))
    rules = [rule for each in installations for rule in settings.pools_of(each.org)]
    unseen = await load_unseen(stores, rules, now, has_log_store=settings.loki_url is not None)
    runners.sort(key=lambda each: (each["org"], each["pool"] or "", each["name"] or ""))
    degraded = degraded_documents(unseen.sources)
    return FleetDocuments(runners, phantoms, unseen_documents(unseen.namespaces), held, pools, degraded)


async def runner_document(settings: Settings, stores: Stores, org: str, name_or_id: str) -> dict[str, Any]:
    """Returns the document of one runner, by name or id, with its death; of an unknown name only its death.

    Raises:
        UnknownOrgError: the App is not installed there.
        GhappError: neither a runner nor a death of that name is known.
    """
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
        raise GhappError(unknown_runner(org, name_or_id))
    held = [each for each in held_documents(view) if each["pool"] in (None, document["pool"])]
    return {**document, "held": held, "death": None if died is None else death_document(died)}


def unknown_runner(org: str, name_or_id: str) -> str:
    """Returns the message for a runner without a record and without a death."""
    return f"{org} {name_or_id}: unknown runner; see `{shell_command('ghapp', 'runners', '--org', org)}`"
