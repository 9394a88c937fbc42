"""Which runners of other scopes may run on the machines of a scope, whose pods are found by name.

Apart from the reaper and from remediation, which both must not delete another scope's pod.
"""

from __future__ import annotations

from collections.abc import Collection

from ghapp.installations.installation import Installation
from ghapp.installations.scope import ScopeKind
from jobs.context import JobContext


async def known_in_other_scopes(context: JobContext, installation: Installation, names: Collection[str]) -> set[str]:
    """Returns those of the names that runners of an org's repositories, of their org, or of an enterprise have.

    Without `[[scopes]]`, and without names, nothing is read.
    """
    if not context.settings.scopes or not names:
        return set()
    found = set[str]()
    for other in await context.installations.all():
        is_enterprise_s = ScopeKind.ENTERPRISE in (other.kind, installation.kind)
        if other.id != installation.id and (other.caller == installation.caller or is_enterprise_s):
            found |= (await context.runners.ids_of(other.id, names)).keys()
    return found
