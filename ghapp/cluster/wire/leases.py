"""The JSON of a Lease, and the values made of it. No I/O.

The object is written back whole, so what we do not read of it is kept as it is.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from ghapp.cluster.wire.envelope import Meta, read


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _Lease(msgspec.Struct):
    metadata: Meta
    spec: _Spec | None = None


class Lease(NamedTuple):
    """Who leads. Times are as they were written: they are other machines' clocks, and only compared for equality."""

    holder: str
    seconds: int | None
    acquired: str
    renewed: str
    transitions: int


_lease = msgspec.json.Decoder(_Lease)


def lease(body: bytes) -> Lease:
    """`GET /apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}`."""
    spec = read(_lease, body).spec or _Spec()
    return Lease(
        holder=spec.holder_identity or "",
        seconds=spec.lease_duration_seconds,
        acquired=spec.acquire_time or "",
        renewed=spec.renew_time or "",
        transitions=spec.lease_transitions or 0,
    )


def new_lease(namespace: str, name: str, spec: Lease) -> dict[str, Any]:
    """The body that makes one."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": namespace},
        "spec": _written(spec),
    }


def changed_lease(body: bytes, spec: Lease) -> dict[str, Any]:
    """The body that changes one that was read; its resourceVersion sees to it that nobody else did meanwhile."""
    found: dict[str, Any] = msgspec.json.decode(body)
    return {**found, "spec": {**(found.get("spec") or {}), **_written(spec)}}


def micro_time(at: float) -> str:
    """Epoch seconds as Kubernetes' `MicroTime`."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _written(spec: Lease) -> dict[str, Any]:
    return {
        "holderIdentity": spec.holder,
        "leaseDurationSeconds": spec.seconds,
        "acquireTime": spec.acquired or None,
        "renewTime": spec.renewed or None,
        "leaseTransitions": spec.transitions,
    }
