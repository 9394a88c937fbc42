"""The shards of a pool beside its totals: of a pool whose active shard is busy, an inactive one may be idle. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ghapp.gate.active_shard import Role
from ghapp.gate.shard_status import shard_of
from ghapp.installations.pool_matching import rule_named
from ghapp.report.fleet import FleetView, PoolView, RunnerView
from ghapp.runners.verdict import State


class ShardView(NamedTuple):
    """A shard: its role, its runners with the lost ones, and how many of them are online, and idle."""

    name: str
    role: Role
    online: int
    idle: int
    runners: int

    @property
    def text(self) -> str:
        """The same in a few words: `pink (inactive): 1 of 4 online, 0 idle`."""
        online = f"{self.online:,}" if self.online == self.runners else f"{self.online:,} of {self.runners:,}"
        return f"{self.name} ({self.role}): {online} online, {self.idle:,} idle"


_RANKS = (Role.ACTIVE, Role.INACTIVE, Role.UNKNOWN)


def shards_of(fleet: FleetView, pool: PoolView) -> list[ShardView]:
    """Returns the shards of a pool that have runners, the active one first; empty for a pool without shards."""
    roles, rule = fleet.shard_roles.get(pool.name), rule_named(pool.name, fleet.view.rules)
    if roles is None:
        return []
    members: dict[str, list[RunnerView]] = {}
    for each in pool.members:
        if (shard := shard_of(each.evidence, rule)) is not None:
            members.setdefault(shard.lower(), []).append(each)
    found = []
    for shard, runners in members.items():
        online = [each.evidence for each in runners if each.state is State.HEALTHY and each.evidence.online]
        idle = sum(not each.is_at_work for each in online)
        found.append(ShardView(shard, roles.get(shard, Role.UNKNOWN), len(online), idle, len(runners)))
    return sorted(found, key=lambda each: (_RANKS.index(each.role), each.name))


def shards_text(shards: Iterable[ShardView]) -> str:
    """Returns the shards in a line; empty without any."""
    return " · ".join(each.text for each in shards)
