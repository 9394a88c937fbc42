"""What `ghapp runners` shows of an org beside its runners: what is wrong, pauses and fuses, queues, phantoms. Pure.

The typed dictionaries are the only definition of their documents: the API's description is generated from them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

from ghapp.deaths.cluster_summary import ClusterSummary, phantom_since
from ghapp.gate.active_shard import Role
from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.leaks.documents import LeakDocument
from ghapp.pods.phantom_kinds import command_of, is_of_runner
from ghapp.remediation.fuse import Position
from ghapp.report.documents import Timestamp, pause_in_words, timestamp
from ghapp.report.fleet import FleetView, PoolView
from ghapp.report.headline import Headline, HeadlineKind, Severity
from ghapp.report.links import PageLinks
from ghapp.report.org_view import OrgView
from ghapp.report.shards import shards_of
from ghapp.runners.texts import fuse_history


class HeldDocument(TypedDict):
    """A pause, or a fuse that is not closed. `pool` is null for those of the whole organization."""

    org: str
    pool: str | None
    kind: str
    text: str


class ShardDocument(TypedDict):
    """A shard of a pool: its runners with the lost ones, and how many of them are online, and idle."""

    shard: str
    role: Role
    online: int
    idle: int
    runners: int
    text: str


class PoolQueueDocument(TypedDict):
    """A pool's jobs and idle runners, and its shards, the active one first.

    `pool` is empty for the sum of jobs whose labels no pool has.
    """

    org: str
    pool: str
    queued: int
    running: int
    oldest_queued_at: Timestamp | None
    idle: int
    unserved: int
    shards: list[ShardDocument]


class PhantomDocument(TypedDict):
    """A pod or object that counts as a runner and cannot run a job. `command`: the first step, to copy; null: wait."""

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
    command: str | None


class HeadlineDocument(TypedDict):
    """What is wrong now, or that all is well; `page` is the address of the page that shows more, if that is known.

    The step has a command, a `link` to the page of GitHub where it is taken, or neither.
    """

    org: str
    kind: HeadlineKind
    severity: Severity
    text: str
    step: str
    command: str
    link: str | None
    since: Timestamp | None
    pool: str | None
    page: str | None


class ShardPoolDocument(TypedDict):
    """A pool with shards, and the defaults of its gate."""

    pool: str
    min_online: int
    settle_seconds: float | None


class OverviewDocument(TypedDict):
    """An org without its runners: what is wrong now, the worst first, and what to know beside it (`notes`).

    `pool_names` are all its pools, `sweep_seconds` is the time between two sweeps, `possible_phantoms` are names of
    what the last check found to be a phantom, and not for long enough to be sure.
    """

    org: str
    headlines: list[HeadlineDocument]
    notes: list[str]
    held: list[HeldDocument]
    pools: list[PoolQueueDocument]
    pool_names: list[str]
    phantoms: list[PhantomDocument]
    possible_phantoms: list[str]
    leaks: list[LeakDocument]
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
    found.sort(key=lambda each: (each[0] != ALL_POOLS, each[0]))
    return [
        {"org": view.org, "pool": None if pool == ALL_POOLS else pool, "kind": kind, "text": text}
        for pool, kind, text in found
    ]


def pool_queue_documents(fleet: FleetView, pools: Iterable[PoolView]) -> list[PoolQueueDocument]:
    """Returns the jobs and idle runners of each pool."""
    by_name = {pool.name: pool for pool in pools}
    return [
        {
            "org": fleet.org,
            "pool": each.pool,
            "queued": each.queued,
            "running": each.running,
            "oldest_queued_at": None if each.oldest_queued_at is None else timestamp(each.oldest_queued_at),
            "idle": each.idle,
            "unserved": each.unserved,
            "shards": [
                {
                    "shard": shard.name,
                    "role": shard.role,
                    "online": shard.online,
                    "idle": shard.idle,
                    "runners": shard.runners,
                    "text": shard.text,
                }
                for shard in (shards_of(fleet, by_name[each.pool]) if each.pool in by_name else ())
            ],
        }
        for each in fleet.demand
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
            "command": command_of(each) or None,
        }
        for each in summary.phantoms
    ]


def phantoms_of_runner(phantoms: Iterable[PhantomDocument], name: str) -> list[PhantomDocument]:
    """Returns those of a runner's name."""
    return [each for each in phantoms if is_of_runner(each["kind"], each["name"], name)]


def headline_documents(org: str, found: Iterable[Headline], links: PageLinks) -> list[HeadlineDocument]:
    """Returns the headlines as documents."""
    return [
        {
            "org": org,
            "kind": each.kind,
            "severity": each.severity,
            "text": each.sentence,
            "step": each.step,
            "command": each.command,
            "link": each.link or None,
            "since": None if each.since is None else timestamp(each.since),
            "pool": each.pool or None,
            "page": links.below(each.page),
        }
        for each in found
    ]
