"""Loads what holds for all runners of an org."""

from __future__ import annotations

import asyncio

from redis.asyncio import Redis

from ghapp.health.installation import Installation
from ghapp.health.pods.pod_claim import by_name
from ghapp.report.org_view import OrgView
from ghapp.settings import Settings
from ghapp.store.fuses import Fuses
from ghapp.store.pod_claims import PodClaims
from ghapp.store.runners import Runners


async def load_org_view(redis: Redis, installation: Installation, settings: Settings) -> OrgView:
    """Returns the view of an org; its reads run concurrently.

    Raises:
        StoreUnavailableError: Redis does not answer.
    """
    fuses = Fuses(redis)
    survey, by_pool, pauses, claims = await asyncio.gather(
        Runners(redis).survey(installation.id),
        fuses.all(installation.id),
        fuses.pauses(installation.id),
        PodClaims(redis).stored(installation.id),
    )
    rules, policy = settings.pools_of(installation.org), settings.of(installation.org)
    mode = policy.remediation.mode
    return OrgView(installation.org, rules, policy.evidence, survey, by_pool, pauses, by_name(claims), mode)
