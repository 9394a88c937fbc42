"""The kinds that no Kubernetes knows by itself: as much of them as we use, strictly."""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class Strict(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """Anything that is not named is refused."""


class Meta(Strict):
    name: str
    namespace: str
    labels: dict[str, str] = {}


class Target(Strict):
    api_version: str
    kind: str
    name: str


class NameOnly(Strict):
    name: str


class RedisList(Strict):
    list_name: str
    list_length: str
    database_index: str
    enable_tls: Literal["true", "false"] = msgspec.field(name="enableTLS")


class Trigger(Strict):
    type: Literal["redis"]
    metadata: RedisList
    authentication_ref: NameOnly


class Fallback(Strict):
    failure_threshold: int
    replicas: int


class Scaling(Strict):
    scale_target_ref: Target
    min_replica_count: int
    max_replica_count: int
    polling_interval: int
    cooldown_period: int
    fallback: Fallback
    triggers: list[Trigger]


class FromSecret(Strict):
    parameter: Literal["address", "username", "password"]
    name: str
    key: str


class Authentication(Strict):
    secret_target_ref: list[FromSecret]


class Selector(Strict):
    match_labels: dict[str, str]


class Endpoint(Strict):
    port: str
    path: str
    interval: str
    honor_labels: bool


class Monitoring(Strict):
    selector: Selector
    endpoints: list[Endpoint]


class Alert(Strict):
    alert: str
    expr: str
    labels: dict[str, str]
    annotations: dict[str, str]
    for_: str = msgspec.field(name="for")


class Group(Strict):
    name: str
    rules: list[Alert]


class Rules(Strict):
    groups: list[Group]


SPECS: dict[tuple[str, str], type[Strict]] = {
    ("keda.sh/v1alpha1", "ScaledObject"): Scaling,
    ("keda.sh/v1alpha1", "TriggerAuthentication"): Authentication,
    ("monitoring.coreos.com/v1", "ServiceMonitor"): Monitoring,
    ("monitoring.coreos.com/v1", "PrometheusRule"): Rules,
}


def check(thing: dict[str, Any]) -> None:
    """Refuse what is not as its controller has it.

    Raises:
        msgspec.ValidationError: with the path of what is wrong.
    """
    assert thing.keys() == {"apiVersion", "kind", "metadata", "spec"}
    msgspec.convert(thing["metadata"], Meta)
    msgspec.convert(thing["spec"], SPECS[thing["apiVersion"], thing["kind"]])
