"""Requests to the API server as values: verb, resource, object. No I/O."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

Verb = Literal["get", "list", "watch", "create", "patch", "delete"]

METHODS: dict[Verb, str] = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "patch": "PATCH",
    "delete": "DELETE",
}
OF_ONE_OBJECT = ("get", "patch", "delete")

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)


class Resource(NamedTuple):
    """A resource. As text in RBAC's notation: `pods`, `ephemeralrunners.actions.github.com`.

    A plural that begins with a slash is a path without objects, one of RBAC's `nonResourceURLs`.
    """

    plural: str
    group: str = ""
    version: str = "v1"

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


PODS = Resource("pods")
SERVICE_ACCOUNTS = Resource("serviceaccounts")
EPHEMERAL_RUNNERS = Resource("ephemeralrunners", "actions.github.com", "v1alpha1")
EPHEMERAL_RUNNER_SETS = Resource("ephemeralrunnersets", "actions.github.com", "v1alpha1")
AUTOSCALING_RUNNER_SETS = Resource("autoscalingrunnersets", "actions.github.com", "v1alpha1")
ACCESS_REVIEWS = Resource("selfsubjectaccessreviews", "authorization.k8s.io")
SELF_REVIEWS = Resource("selfsubjectreviews", "authentication.k8s.io")
VERSION = Resource("/version")


class ClusterRequest(NamedTuple):
    """One request. `namespace` is empty for cluster-scoped resources."""

    verb: Verb
    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def method(self) -> str:
        """The HTTP method."""
        return METHODS[self.verb]

    @property
    def path(self) -> str:
        """The path below the API server's address; valid only if `can_exist`."""
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
        """The resource as a Role names it, with its subresource: `pods/log`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else str(self.resource)

    @property
    def can_exist(self) -> bool:
        """True if the object's name is valid.

        Names of runners are untrusted. A request for an empty name, or for `..`, would address the whole collection or
        the namespace, which is fatal for a DELETE.
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
