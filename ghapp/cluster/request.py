"""What is asked of the API server: which verb, of which resource, of which object. Values; no I/O."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

Verb = Literal["get", "list", "watch", "create", "update", "patch", "delete"]

METHODS: dict[Verb, str] = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
}
OF_ONE_OBJECT = ("get", "update", "patch", "delete")

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)


class Resource(NamedTuple):
    """A kind of objects. Written as RBAC does: `pods`, `ephemeralrunners.actions.github.com`.

    Or, beginning with a slash, a path that has no objects: RBAC's `nonResourceURLs`.
    """

    plural: str
    group: str = ""
    version: str = "v1"

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


PODS = Resource("pods")
SERVICE_ACCOUNTS = Resource("serviceaccounts")
EPHEMERAL_RUNNERS = Resource("ephemeralrunners", "actions.github.com", "v1alpha1")
LEASES = Resource("leases", "coordination.k8s.io")
ACCESS_REVIEWS = Resource("selfsubjectaccessreviews", "authorization.k8s.io")
SELF_REVIEWS = Resource("selfsubjectreviews", "authentication.k8s.io")
VERSION = Resource("/version")


class ClusterRequest(NamedTuple):
    """One request. `namespace` is empty for what belongs to the whole cluster."""

    verb: Verb
    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def method(self) -> str:
        """Of HTTP."""
        return METHODS[self.verb]

    @property
    def path(self) -> str:
        """Below the API server's address. `can_exist` says whether there is one."""
        if self._has_no_objects:
            return self.resource.plural
        group, version = self.resource.group, self.resource.version
        parts = ["/apis", group, version] if group else ["/api", version]
        if self.namespace:
            parts += ["namespaces", self.namespace]
        parts += [self.resource.plural, *filter(None, (self.name, self.subresource))]
        return "/".join(parts)

    @property
    def rbac_resource(self) -> str:
        """As a Role names it, with its subresource: `pods/log`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else str(self.resource)

    @property
    def can_exist(self) -> bool:
        """Whether an object can be called so.

        Runners' names come from outside. A call for one that has none, or is called `..`, would be a call for the
        whole collection, or for the namespace: a DELETE that nobody wants.
        """
        return self.verb not in OF_ONE_OBJECT or self._has_no_objects or _is_name(self.name)

    @property
    def _has_no_objects(self) -> bool:
        return self.resource.plural.startswith("/")

    def __str__(self) -> str:
        what = f"{self.verb} {self.rbac_resource}"
        where = "/".join(filter(None, (self.namespace, self.name)))
        return f"{what} {where}" if where else what


def _is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None and ".." not in text
