"""Reads the fleet from Redis for `ghapp runners` and `ghapp explain`."""

from __future__ import annotations

import time
from typing import Any

from ghapp.cli.backend import FleetDocuments
from ghapp.cli.context import chosen
from ghapp.deaths.death import is_of
from ghapp.errors import GhappError
from ghapp.report.documents import death_document, never_seen
from ghapp.report.links import PageLinks
from ghapp.report.overview import (
    headline_documents,
    held_documents,
    phantom_documents,
    phantoms_of_runner,
    pool_queue_documents,
)
from ghapp.settings import Settings
from ghapp.store.stores import Stores
from ghapp.store.views import load_fleet, load_org_view
from ghapp.untrusted_text import shell_command


async def fleet_documents(settings: Settings, stores: Stores, org: str | None) -> FleetDocuments:
    """Returns the documents of all known runners of an org, or of all orgs.

    Raises:
        UnknownOrgError: the App is not installed there.
    """
    found, now = FleetDocuments([], [], [], [], []), time.time()
    for installation in await chosen(stores.installations, org):
        fleet = await load_fleet(stores, installation, settings, now)
        view = fleet.view
        found.headlines.extend(headline_documents(fleet, PageLinks(settings.public_url, installation.org), now))
        found.held.extend(held_documents(view))
        found.runners.extend(view.document(each, now) for each in fleet.runners if each.registered)
        found.pools.extend(pool_queue_documents(installation.org, fleet.demand))
        found.phantoms.extend(phantom_documents(installation.org, await stores.cluster_summaries.of(installation.id)))
    found.runners.sort(key=lambda each: (each["org"], each["pool"] or "", each["name"] or ""))
    return found


async def runner_document(settings: Settings, stores: Stores, org: str, name_or_id: str) -> dict[str, Any]:
    """Returns the document of one runner, by name or id, with its death and phantoms; of an unknown name only these.

    Raises:
        UnknownOrgError: the App is not installed there.
        GhappError: neither a runner, a death nor a phantom of that name is known.
    """
    (installation,) = await chosen(stores.installations, org)
    known = (await stores.runners.all(installation.id)).values()
    found = [each for each in known if each.name == name_or_id or str(each.id) == name_or_id]
    evidence = max(found, key=lambda each: each.id, default=None)
    name = evidence.name if evidence else name_or_id
    died = await stores.deaths.of(installation.id, name)
    summary = await stores.cluster_summaries.of(installation.id)
    phantoms = phantoms_of_runner(phantom_documents(installation.org, summary), name)
    view = await load_org_view(stores, installation, settings)
    if evidence is not None:
        document = view.document(evidence, time.time())
        died = died if died is not None and is_of(died, evidence) else None
    elif died is not None or phantoms:
        document = never_seen(installation.org, None if died is None else died.runner_id, name_or_id)
    else:
        raise GhappError(unknown_runner(org, name_or_id))
    return {**document, "death": None if died is None else death_document(died), "phantoms": phantoms}


def unknown_runner(org: str, name_or_id: str) -> str:
    """Returns the message for a runner without a record, a death or a phantom."""
    return f"{org} {name_or_id}: unknown runner; see `{shell_command('ghapp', 'runners', '--org', org)}`"
