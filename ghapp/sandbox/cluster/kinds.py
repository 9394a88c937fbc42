"""The resources, and how their rules differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

OBJECT_FIELDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"metadata.name": ("metadata", "name"), "metadata.namespace": ("metadata", "namespace")}
)
"""The field selectors of each resource: the label, and the path of its value."""

POD_FIELDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        **OBJECT_FIELDS,
        "spec.nodeName": ("spec", "nodeName"),
        "spec.restartPolicy": ("spec", "restartPolicy"),
        "spec.schedulerName": ("spec", "schedulerName"),
        "spec.serviceAccountName": ("spec", "serviceAccountName"),
        "status.phase": ("status", "phase"),
        "status.podIP": ("status", "podIP"),
    }
)


@dataclass(frozen=True, slots=True, eq=False)
class ObjectKind:
    """A resource and its properties.

    Attributes:
        custom: defined by a CRD, which must be installed; its items in a list name their kind.
        has_status: a `status` subresource, so that the main resource ignores that field.
        subresources: others that are served.
        fields: the fields of field selectors.
        returns_deleted: a DELETE answers the object itself, and no `Status`.
        graceful: after a DELETE the object stays until its node has ended it.
        counts_generations: `metadata.generation` is kept.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    custom: bool = False
    has_status: bool = False
    subresources: tuple[str, ...] = ()
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: OBJECT_FIELDS)
    returns_deleted: bool = False
    graceful: bool = False
    counts_generations: bool = False

    @property
    def api_version(self) -> str:
        """Returns the API version of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """Returns its name in messages: `ephemeralrunners.actions.github.com`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def list_kind(self) -> str:
        """Returns the kind of its lists."""
        return f"{self.kind}List"


PODS = ObjectKind(
    "",
    "v1",
    "pods",
    "Pod",
    has_status=True,
    subresources=("log",),
    fields=POD_FIELDS,
    returns_deleted=True,
    graceful=True,
    counts_generations=True,
)
SERVICE_ACCOUNTS = ObjectKind("", "v1", "serviceaccounts", "ServiceAccount", returns_deleted=True)
NAMESPACES = ObjectKind(
    "",
    "v1",
    "namespaces",
    "Namespace",
    namespaced=False,
    has_status=True,
    fields=MappingProxyType({"metadata.name": ("metadata", "name"), "status.phase": ("status", "phase")}),
)
EPHEMERAL_RUNNERS = ObjectKind(
    "actions.github.com",
    "v1alpha1",
    "ephemeralrunners",
    "EphemeralRunner",
    custom=True,
    has_status=True,
    counts_generations=True,
)
EPHEMERAL_RUNNER_SETS = ObjectKind(
    "actions.github.com",
    "v1alpha1",
    "ephemeralrunnersets",
    "EphemeralRunnerSet",
    custom=True,
    has_status=True,
    counts_generations=True,
)
AUTOSCALING_RUNNER_SETS = ObjectKind(
    "actions.github.com",
    "v1alpha1",
    "autoscalingrunnersets",
    "AutoscalingRunnerSet",
    custom=True,
    has_status=True,
    counts_generations=True,
)

KINDS = (PODS, SERVICE_ACCOUNTS, NAMESPACES, EPHEMERAL_RUNNERS, EPHEMERAL_RUNNER_SETS, AUTOSCALING_RUNNER_SETS)
"""All kinds that are stored."""


def find(group: str, version: str, plural: str) -> ObjectKind | None:
    """Returns the resource at that path, installed or not."""
    for kind in KINDS:
        if (kind.group, kind.version, kind.plural) == (group, version, plural):
            return kind
    return None


def called(name: str) -> ObjectKind:
    """Returns a resource by its plural; LookupError for an unknown one."""
    for kind in KINDS:
        if name in (kind.plural, kind.qualified):
            return kind
    raise LookupError(f"no resource is called {name!r}; there are {', '.join(kind.plural for kind in KINDS)}")
