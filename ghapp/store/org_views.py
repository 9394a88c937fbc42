"""Loads what holds for all runners of an org."""

from __future__ import annotations

import asyncio

from ghapp.health.installation import Installation
from ghapp.health.pods.pod_claim import by_name
from ghapp.report.org_view import OrgView
from ghapp.settings import Settings
from ghapp.store.stores import Stores


async def load_org_view(stores: Stores, installation: Installation, settings: Settings) -> OrgView:
    """Returns the view of an org; its reads run concurrently.

    Raises:
        StoreUnavailableError: Redis does not answer.
    """
    survey, by_pool, pauses, claims = await asyncio.gather(
        stores.runners.survey(installation.id),
        stores.fuses.all(installation.id),
        stores.fuses.pauses(installation.id),
        stores.pod_claims.stored(installation.id),
    )
    rules, limits = settings.pools_of(installation.org), settings.of(installation.org).evidence
    return OrgView(installation.org, rules, limits, survey, by_pool, pauses, by_name(claims))
