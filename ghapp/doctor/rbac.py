"""Whether RBAC lets each role do its work, by asking the API server for each verb."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from ghapp.cluster.access import AT_HOME, Access, needed_near
from ghapp.cluster.api import Cluster
from ghapp.doctor.finding import Finding, ok, warning, wrong
from ghapp.errors import ClusterForbiddenError
from ghapp.settings import PoolSettings

GROUP = "cluster"
AT_ONCE = 20
WAITS_SECONDS = (1.0, 1.0)
"""Until rights that are missing are asked for again. In sum they leave room within `looking.PATIENCE_SECONDS`."""

SERVICE_ACCOUNT = "system:serviceaccount:"
SERVICE_ACCOUNT_PARTS = 4
"""`system:serviceaccount:NAMESPACE:NAME`."""

ROLES = ("watch", "worker", "clock", "web")


class RbacPlace(NamedTuple):
    """A role, and a namespace where it has work to do."""

    role: str
    namespace: str


Needed = Mapping[RbacPlace, Sequence[Access]]


async def look(cluster: Cluster, pools: Iterable[PoolSettings]) -> list[Finding]:
    """Ask for everything that is needed near the runners of these pools, and at home.

    An API server that has just started refuses what RBAC allows until its caches are filled. What would be reported as
    missing is therefore asked for again after each of `WAITS_SECONDS`.

    Raises:
        ClusterError: no answer, or the reviews themselves are refused each time.
    """
    needed = needs(pools, cluster.namespace)
    for wait in WAITS_SECONDS:
        with suppress(ClusterForbiddenError):
            account, lacking = await cluster.username(), await _lacking(cluster, needed)
            if not any(access for place, access in lacking.items() if role_of(account) in ("", place.role)):
                break
        await asyncio.sleep(wait)
    else:
        account, lacking = await cluster.username(), await _lacking(cluster, needed)
    return [of_account(account), *of_rights(needed, lacking, role_of(account))]


async def _lacking(cluster: Cluster, needed: Needed) -> dict[RbacPlace, list[Access]]:
    """What RBAC does not allow of this."""
    order = sorted({(place.namespace, each._replace(role="")) for place, access in needed.items() for each in access})
    room = asyncio.Semaphore(AT_ONCE)

    async def allowed(namespace: str, each: Access) -> bool:
        async with room:
            return await cluster.may(each.verb, each.resource, namespace, each.group, each.subresource, each.name)

    answers = dict(zip(order, await asyncio.gather(*(allowed(*each) for each in order)), strict=True))
    return {
        place: [each for each in access if not answers[place.namespace, each._replace(role="")]]
        for place, access in needed.items()
    }


def needs(pools: Iterable[PoolSettings], home: str) -> dict[RbacPlace, list[Access]]:
    """What each role needs in each namespace; `home` is that of the roles themselves."""
    replacers: dict[str, set[str]] = {}
    for pool in pools:
        if pool.namespace:
            replacers.setdefault(pool.namespace, set()).add(pool.replacer)
    needed: dict[RbacPlace, list[Access]] = {}
    for namespace, used in sorted(replacers.items()):
        for each in needed_near(used):
            needed.setdefault(RbacPlace(each.role, namespace), []).append(each)
    for each in AT_HOME:
        needed.setdefault(RbacPlace(each.role, home), []).append(each)
    return needed


def role_of(account: str) -> str:
    """Whose account it is, by the name of its ServiceAccount, as the manifests give them; empty for another's."""
    parts = account.split(":")
    name = parts[-1] if len(parts) == SERVICE_ACCOUNT_PARTS and account.startswith(SERVICE_ACCOUNT) else ""
    words = name.split("-")
    return next((role for role in ROLES if role in words), "")


def of_account(account: str) -> Finding:
    """As whom the API server was asked: every other finding of rights is about this account."""
    if not account:
        return ok(GROUP, "account", "the API server does not tell whose account this is")
    role = role_of(account)
    return ok(GROUP, "account", f"{account}, " + (f"that of `ghapp {role}`" if role else "not one of a role's alone"))


def of_rights(needed: Needed, lacking: Needed, role_here: str = "") -> list[Finding]:
    """What each role lacks in each namespace.

    In a cluster each role has an account of its own, and only one of them runs this. What another role needs is not
    missing from this account. Where it is not known whose account it is (`role_here` empty), and it may do all the
    work of one role, what others lack may be well.
    """
    whole = {place.role for place in needed} - {place.role for place, access in lacking.items() if access}
    found = []
    for place, access in needed.items():
        role, namespace = place
        name = f"rights of {role} in {namespace}"
        if not lacking[place]:
            found.append(ok(GROUP, name, f"all {len(access)}"))
            continue
        if role_here and role != role_here:
            said = f"not known: this is the account of {role_here}, which does not need them"
            found.append(warning(GROUP, name, said, f"ask again as the account of {role}: `ghapp doctor` in its pod"))
            continue
        said = "RBAC lacks " + ", ".join(f"{each.verb} on {_written(each)}" for each in lacking[place])
        fix = f"have a Role in namespace {namespace} allow it to the account of `ghapp {role}`; manifests/ has them all"
        if whole:
            fix = f"if this is the account of {' and '.join(sorted(whole))}, ask again as that of {role}; else {fix}"
        found.append((warning if whole else wrong)(GROUP, name, said, fix))
    return found


def _written(access: Access) -> str:
    group = f".{access.group}" if access.group else ""
    name = f" {access.name}" if access.name else ""
    return f"{access.resource}{group}{'/' if access.subresource else ''}{access.subresource}{name}"
