"""What `ghapp runners` shows of an org beside its runners: pauses and fuses, queues, phantoms. Pure.

The typed dictionaries are the only definition of their documents: the API's description is generated from them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

from ghapp.health.cluster_summary import ClusterSummary, StaleNamespace, phantom_since
from ghapp.health.demand import demand
from ghapp.health.pods.degraded_sources import DegradedSource
from ghapp.health.queue.job_queue import JobQueue
from ghapp.health.remediation.fuse import WHOLE_INSTALLATION, Position
from ghapp.report import fuse_history
from ghapp.report.documents import Timestamp, pause_in_words, timestamp
from ghapp.report.org_view import OrgView


class HeldDocument(TypedDict):
    """A pause, or a fuse that is not closed. `pool` is null for those of the whole organization."""

    org: str
    pool: str | None
    kind: str
    said: str


class PoolQueueDocument(TypedDict):
    """A pool's jobs and idle runners."""

    org: str
    pool: str
    queued: int
    running: int
    oldest_queued_at: Timestamp | None
    idle: int
    unserved: int


class PhantomDocument(TypedDict):
    """A pod or object that counts as a runner and is none."""

    org: str
    name: str
    pool: str | None
    namespace: str | None
    scale_set: str | None
    kind: str
    reason: str
    since: Timestamp
    detail: str | None
    advice: str


class UnseenDocument(TypedDict):
    """A namespace that is not being watched, and when it was last seen; null for never."""

    namespace: str
    seen_at: Timestamp | None


class DegradedDocument(TypedDict):
    """A source that cannot be read, or of which a part cannot, as `pods in runners`, and why."""

    source: str
    why: str


class ShardPoolDocument(TypedDict):
    """A pool with shards, and the defaults of its gate."""

    pool: str
    min_online: int
    settle_seconds: float | None


class OverviewDocument(TypedDict):
    """An org without its runners. `sweep_seconds` is the time between two sweeps."""

    org: str
    held: list[HeldDocument]
    pools: list[PoolQueueDocument]
    phantoms: list[PhantomDocument]
    unseen: list[UnseenDocument]
    degraded: list[DegradedDocument]
    shard_pools: list[ShardPoolDocument]
    sweep_seconds: float


def held_documents(view: OrgView) -> list[HeldDocument]:
    """Returns the pauses and the fuses that are not closed, those of the whole organization first."""
    found = [(pool, "pause", pause_in_words(each)) for pool, each in view.pauses.items()]
    found += [
        (pool, f"fuse {each.position}", fuse_history(each, str))
        for pool, each in view.fuses.items()
        if each.position is not Position.CLOSED
    ]
    found.sort(key=lambda each: (each[0] != WHOLE_INSTALLATION, each[0]))
    return [
        {"org": view.org, "pool": None if pool == WHOLE_INSTALLATION else pool, "kind": kind, "said": text}
        for pool, kind, text in found
    ]


def pool_queue_documents(queue: JobQueue) -> list[PoolQueueDocument]:
    """Returns the jobs and idle runners of each pool."""
    return [
        {
            "org": queue.inputs.org,
            "pool": each.pool,
            "queued": each.queued,
            "running": each.running,
            "oldest_queued_at": None if each.oldest_queued_at is None else timestamp(each.oldest_queued_at),
            "idle": each.idle,
            "unserved": each.unserved,
        }
        for each in demand(queue)[0]
    ]


def phantom_documents(org: str, summary: ClusterSummary | None) -> list[PhantomDocument]:
    """Returns the phantoms of the last check; empty without a cluster."""
    if summary is None:
        return []
    return [
        {
            "org": org,
            "name": each.subject,
            "pool": each.pool or None,
            "namespace": each.namespace or None,
            "scale_set": each.scale_set or None,
            "kind": each.kind.value,
            "reason": each.reason.value,
            "since": timestamp(phantom_since(summary, each)),
            "detail": each.detail or None,
            "advice": each.advice,
        }
        for each in summary.phantoms
    ]


def unseen_documents(stale: Iterable[StaleNamespace]) -> list[UnseenDocument]:
    """Returns the namespaces that are not being watched."""
    return [
        {"namespace": each.namespace, "seen_at": None if each.seen_at is None else timestamp(each.seen_at)}
        for each in stale
    ]


def degraded_documents(sources: Iterable[DegradedSource]) -> list[DegradedDocument]:
    """Returns the sources that cannot be read."""
    return [{"source": each.place, "why": each.why} for each in sources]
