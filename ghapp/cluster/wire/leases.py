"""Parses and writes a Lease. No I/O.

The whole object is written back, so that fields that are not parsed here are preserved.
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
    """A lease. Its times are as they were written: they come from other clocks, and are compared only for equality."""

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
    """Returns the body that creates a lease."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": namespace},
        "spec": _written(spec),
    }


def changed_lease(body: bytes, spec: Lease) -> dict[str, Any]:
    """Returns the body that changes a lease; its resourceVersion makes the API server reject concurrent changes."""
    found: dict[str, Any] = msgspec.json.decode(body)
    return {**found, "spec": {**(found.get("spec") or {}), **_written(spec)}}


def micro_time(at: float) -> str:
    """Returns epoch seconds as Kubernetes' `MicroTime`."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _written(spec: Lease) -> dict[str, Any]:
    return {
        "holderIdentity": spec.holder,
        "leaseDurationSeconds": spec.seconds,
        "acquireTime": spec.acquired or None,
        "renewTime": spec.renewed or None,
        "leaseTransitions": spec.transitions,
    }
