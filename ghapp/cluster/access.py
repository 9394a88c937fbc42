"""The RBAC permissions that each role needs. The Roles of `manifests/` grant exactly these; `ghapp doctor` checks them.

SelfSubjectAccessReviews and /version need no rule: they are open to every authenticated user.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ghapp.cluster.request import (
    AUTOSCALING_RUNNER_SETS,
    EPHEMERAL_RUNNER_SETS,
    EPHEMERAL_RUNNERS,
    PODS,
    SERVICE_ACCOUNTS,
    Resource,
    Verb,
)


class Access(NamedTuple):
    """One permission that a role needs, in the terms of RBAC.

    Attributes:
        role: the role of ghapp that needs it.
        verb: the verb.
        group: the API group; empty for the core group.
        resource: the plural.
        subresource: empty for the object itself.
        replacers: needed only for pools with one of these replacers; empty: for all pools with pods.
    """

    role: str
    verb: Verb
    group: str
    resource: str
    subresource: str = ""
    replacers: tuple[str, ...] = ()

    @property
    def rbac_resource(self) -> str:
        """The resource as a Role lists it: `pods/log`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def _all(
    role: str, verbs: Iterable[Verb], resource: Resource, subresource: str = "", *, replacers: tuple[str, ...] = ()
) -> tuple[Access, ...]:
    return tuple(Access(role, verb, resource.group, resource.plural, subresource, replacers) for verb in verbs)


NEAR_RUNNERS: tuple[Access, ...] = (
    *_all("watch", ("get", "list", "watch"), PODS),
    *_all("watch", ("get",), PODS, "log"),
    *_all("watch", ("list", "watch"), EPHEMERAL_RUNNERS, replacers=("arc",)),
    *_all("watch", ("list",), AUTOSCALING_RUNNER_SETS, replacers=("arc",)),
    *_all("watch", ("list",), EPHEMERAL_RUNNER_SETS, replacers=("arc",)),
    *_all("worker", ("get", "list", "delete"), PODS),
    *_all("worker", ("get", "delete"), SERVICE_ACCOUNTS),
    *_all("worker", ("get", "list", "delete", "patch"), EPHEMERAL_RUNNERS, replacers=("arc",)),
)
"""In each namespace of runners. The reaper deletes pods and their ServiceAccounts, whatever the replacer.

In their own namespace the roles need no permission."""


def needed_near(replacers: Iterable[str]) -> list[Access]:
    """Returns the permissions needed in a namespace whose pools have these replacers."""
    used = set(replacers)
    return [each for each in NEAR_RUNNERS if not each.replacers or used.intersection(each.replacers)]
