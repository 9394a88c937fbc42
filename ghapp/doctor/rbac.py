"""Checks that RBAC permits each role its work, by an access review for each verb."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from ghapp.cluster.access import Access, needed_near
from ghapp.cluster.api import Cluster
from ghapp.doctor.finding import Finding, ok, warning, wrong
from ghapp.errors import ClusterForbiddenError
from ghapp.settings import PoolSettings

GROUP = "cluster"
MAX_CONCURRENT = 20
RETRY_SECONDS = (1.0, 1.0)
"""Waits before missing permissions are reviewed again; together well below `probe.TIMEOUT_SECONDS`."""

SERVICE_ACCOUNT = "system:serviceaccount:"
SERVICE_ACCOUNT_PARTS = 4
"""Of `system:serviceaccount:NAMESPACE:NAME`."""

ROLES = ("watch", "worker", "clock", "web")


class RbacPlace(NamedTuple):
    """A role, and a namespace in which it needs permissions."""

    role: str
    namespace: str


Needed = Mapping[RbacPlace, Sequence[Access]]


async def check(cluster: Cluster, pools: Iterable[PoolSettings]) -> list[Finding]:
    """Reviews all permissions that are needed in the runners' namespaces.

    An API server that has just started denies what RBAC permits until its caches are filled. Permissions that look
    missing are therefore reviewed again after each of `RETRY_SECONDS`.

    Raises:
        ClusterError: no answer, or the reviews themselves were forbidden each time.
    """
    needed = needs(pools)
    for wait in RETRY_SECONDS:
        with suppress(ClusterForbiddenError):
            account, lacking = await cluster.username(), await _lacking(cluster, needed)
            if not any(access for place, access in lacking.items() if role_of(account) in ("", place.role)):
                break
        await asyncio.sleep(wait)
    else:
        account, lacking = await cluster.username(), await _lacking(cluster, needed)
    return [of_account(account), *of_rights(needed, lacking, role_of(account))]


async def _lacking(cluster: Cluster, needed: Needed) -> dict[RbacPlace, list[Access]]:
    """Returns the needed permissions that RBAC denies, by place."""
    order = sorted({(place.namespace, each._replace(role="")) for place, access in needed.items() for each in access})
    slots = asyncio.Semaphore(MAX_CONCURRENT)

    async def allowed(namespace: str, each: Access) -> bool:
        async with slots:
            return await cluster.may(each.verb, each.resource, namespace, each.group, each.subresource)

    answers = dict(zip(order, await asyncio.gather(*(allowed(*each) for each in order)), strict=True))
    return {
        place: [each for each in access if not answers[place.namespace, each._replace(role="")]]
        for place, access in needed.items()
    }


def needs(pools: Iterable[PoolSettings]) -> dict[RbacPlace, list[Access]]:
    """Returns the permissions that each role needs in each namespace."""
    replacers: dict[str, set[str]] = {}
    for pool in pools:
        if pool.namespace:
            replacers.setdefault(pool.namespace, set()).add(pool.replacer)
    needed: dict[RbacPlace, list[Access]] = {}
    for namespace, used in sorted(replacers.items()):
        for each in needed_near(used):
            needed.setdefault(RbacPlace(each.role, namespace), []).append(each)
    return needed


def role_of(account: str) -> str:
    """Returns the role of a ServiceAccount with a name as in our manifests; empty for any other account."""
    parts = account.split(":")
    name = parts[-1] if len(parts) == SERVICE_ACCOUNT_PARTS and account.startswith(SERVICE_ACCOUNT) else ""
    words = name.split("-")
    return next((role for role in ROLES if role in words), "")


def of_account(account: str) -> Finding:
    """Names the account that was reviewed: all other findings about permissions concern this account."""
    if not account:
        return ok(GROUP, "account", "the API server does not name this account")
    role = role_of(account)
    return ok(GROUP, "account", f"{account}, " + (f"the account of `ghapp {role}`" if role else "not a role's account"))


def of_rights(needed: Needed, lacking: Needed, role_here: str = "") -> list[Finding]:
    """Reports the permissions that each role lacks in each namespace.

    In a cluster each role has its own account, and `doctor` runs with one of them, so permissions of other roles are
    not reported as missing. If the account is unknown (`role_here` empty) but has all permissions of one role, what
    other roles lack is only a warning.
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
            text = f"not reviewed: this is the account of {role_here}, which needs none of them"
            found.append(ok(GROUP, name, f"{text}; `ghapp doctor` in a pod of {role} reviews them"))
            continue
        text = "RBAC lacks " + ", ".join(f"{each.verb} on {_named(each)}" for each in lacking[place])
        fix = f"grant it to the account of `ghapp {role}` by a Role in namespace {namespace}; see manifests/"
        if whole:
            fix = f"if this is the account of {' and '.join(sorted(whole))}, run doctor as that of {role}; else {fix}"
        found.append((warning if whole else wrong)(GROUP, name, text, fix))
    return found


def _named(access: Access) -> str:
    group = f".{access.group}" if access.group else ""
    return f"{access.resource}{group}{'/' if access.subresource else ''}{access.subresource}"
