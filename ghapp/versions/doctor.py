"""Checks the versions of each organization's runners: those that get no jobs any more, or soon."""

from __future__ import annotations

from collections.abc import Sequence

from ghapp.doctor.finding import Finding, warning, wrong
from ghapp.installations.installation import Installation
from ghapp.loading.views import load_org_view
from ghapp.settings import Settings
from ghapp.store.stores import Stores
from ghapp.untrusted_text import shell_command
from ghapp.versions.advice import version_text
from ghapp.versions.lifetime import Urgency, VersionStatus

GROUP = "installations"


async def check_versions(settings: Settings, stores: Stores, installation: Installation, now: float) -> list[Finding]:
    """Returns a finding for each version that has ended, or ends within a week; none is nothing to report.

    Raises:
        StoreUnavailableError: Redis does not answer.
    """
    view = await load_org_view(stores, installation, settings)
    if not view.may_versions_end(now):
        return []
    runners = (await stores.runners.all(installation.id)).values()
    return of_versions(installation.org, [each for each in view.versions(runners, now) if each.is_news])


def of_versions(org: str, statuses: Sequence[VersionStatus]) -> list[Finding]:
    """Returns the findings for these versions of an organization."""
    fix = f"see `{shell_command('ghapp', 'versions', '--org', org)}` for what to do"
    makers = {Urgency.WARNING: warning, Urgency.ACTION: wrong}
    return [
        makers[each.urgency](GROUP, f"version {each.version}", version_text(each), fix, org)
        for each in statuses
        if each.urgency in makers
    ]
