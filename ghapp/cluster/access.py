"""What each role asks of a cluster. The Roles of `manifests/` grant this, no less and no more; `ghapp doctor` tries it.

SelfSubjectAccessReviews and /version need no rule: every authenticated user may ask.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ghapp.cluster.request import EPHEMERAL_RUNNERS, LEASES, PODS, SERVICE_ACCOUNTS, Resource, Verb

WATCH_LEASE = "ghapp-watch"
"""By which one of the watches leads; it is in the namespace of the roles themselves."""


class Access(NamedTuple):
    """One right that a role needs, as RBAC names it.

    Attributes:
        role: of ours.
        verb: what it does.
        group: of the API; empty for the core.
        resource: the plural.
        subresource: empty for the object itself.
        replacers: only beside pools that are replaced so; empty: wherever there are pods of a pool.
        name: the only object that it is about; empty for any.
    """

    role: str
    verb: Verb
    group: str
    resource: str
    subresource: str = ""
    replacers: tuple[str, ...] = ()
    name: str = ""

    @property
    def rbac_resource(self) -> str:
        """As a Role lists it: `pods/log`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def _all(
    role: str, verbs: Iterable[Verb], resource: Resource, subresource: str = "", *, replacers: tuple[str, ...] = ()
) -> tuple[Access, ...]:
    return tuple(Access(role, verb, resource.group, resource.plural, subresource, replacers) for verb in verbs)


NEAR_RUNNERS: tuple[Access, ...] = (
    *_all("watch", ("get", "list", "watch"), PODS),
    *_all("watch", ("get",), PODS, "log"),
    *_all("watch", ("list", "watch"), EPHEMERAL_RUNNERS, replacers=("arc",)),
    *_all("worker", ("get", "list", "delete"), PODS),
    *_all("worker", ("get", "delete"), SERVICE_ACCOUNTS),
    *_all("worker", ("get", "list", "delete", "patch"), EPHEMERAL_RUNNERS, replacers=("arc",)),
)
"""In each namespace of runners. Deleting pods and their ServiceAccounts is the reaper's work, whatever the replacer."""

AT_HOME: tuple[Access, ...] = (
    Access("watch", "create", LEASES.group, LEASES.plural),
    Access("watch", "get", LEASES.group, LEASES.plural, name=WATCH_LEASE),
    Access("watch", "update", LEASES.group, LEASES.plural, name=WATCH_LEASE),
)
"""In the namespace in which the roles themselves are."""


def needed_near(replacers: Iterable[str]) -> list[Access]:
    """What is needed in a namespace whose pools are replaced so."""
    used = set(replacers)
    return [each for each in NEAR_RUNNERS if not each.replacers or used.intersection(each.replacers)]
