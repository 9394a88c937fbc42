"""Which of the lost are acted on now: count each pool, turn its fuse, and plan. One pure function.

`jobs.decide` reads what it needs and records what comes of it; one process at a time, for two of them could each
let a first batch through.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ghapp.health.cluster.deletion import is_deferred
from ghapp.health.cluster.podclaim import NOBODY, Claimed, claim_on
from ghapp.health.evidence import Evidence, Survey
from ghapp.health.fuse import Fuse, FuseLimits, Position, Tally, room, tally, turn
from ghapp.health.plan import Candidate, Plan, PoolLeave, RemediationLimits, plan
from ghapp.health.pools import PoolRule, pool_of
from ghapp.health.verdict import Limits, State, is_offline_too_long, judge, silent_since

Pools = dict[str, list[tuple[Evidence, State]]]
"""The runners of each pool, each with its state."""


class ReplacingRule(PoolRule, Protocol):
    """A configured pool, with what it says about replacing."""

    @property
    def replace_offline_after_seconds(self) -> float | None:
        """Offline longer than this is replaced, too; None: never."""


class Turn(NamedTuple):
    """A fuse that turned, and the count that turned it."""

    pool: str
    before: Fuse | None
    after: Fuse
    counted: Tally


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done: fuses to be recorded first, and then the plan, of pools whose record succeeded."""

    turns: tuple[Turn, ...]
    plan: Plan
    pool_of: Mapping[int, str]
    """The pool of each candidate."""

    def without(self, pools: Iterable[str]) -> Decision:
        """The same, with nothing done in these pools: somebody turned their fuse under our hands."""
        kept = tuple(runner_id for runner_id in self.plan.now if self.pool_of[runner_id] not in set(pools))
        return Decision(self.turns, Plan(kept, self.plan.deferred), self.pool_of)


def by_pool(
    runners: Iterable[Evidence], survey: Survey, rules: Sequence[PoolRule], now: float, limits: Limits
) -> Pools:
    """Judge each runner, and put it to its pool."""
    pools: Pools = defaultdict(list)
    for evidence in runners:
        pool = pool_of(evidence.labels, evidence.custom_labels, rules)
        pools[pool].append((evidence, judge(evidence, survey, now, limits).state))
    return pools


def decide(
    pools: Pools,
    fuses: Mapping[str, Fuse],
    paused: Iterable[str],
    rules: Sequence[ReplacingRule],
    fuse_limits: FuseLimits,
    limits: RemediationLimits,
    now: float,
    claimed: Claimed = NOBODY,
) -> Decision:
    """Decide for one installation.

    Args:
        pools: from `by_pool`.
        fuses: as recorded; a pool that is not there has a closed one.
        paused: the names of paused pools.
        rules: the configured pools.
        fuse_limits: the `[fuse]` table.
        limits: the `[remediation]` table.
        now: epoch seconds.
        claimed: controllers' claims, by name: those whom they hold wait, and take nobody's place.
    """
    stopped_by_people, acting = set(paused), limits.mode == "act"
    if not acting:
        pools = {pool: [(_as_if_granted(each), state) for each, state in members] for pool, members in pools.items()}
    patience = {rule.name: rule.replace_offline_after_seconds for rule in rules}
    turns: list[Turn] = []
    leaves: dict[str, PoolLeave] = {}
    for pool, members in pools.items():
        before = fuses.get(pool)
        counted = tally(members, before or Fuse(), now, fuse_limits, patience.get(pool))
        after = turn(before or Fuse(), counted, now, fuse_limits, acting=acting)
        if after != (before or Fuse()):
            turns.append(Turn(pool, before, after, counted))
            if after.position is not Position.CLOSED:  # `room` must still see what came back and put it out
                counted = tally(members, after, now, fuse_limits, patience.get(pool))
        leaves[pool] = PoolLeave(
            room(after, counted), paused=pool in stopped_by_people, stopped=after.position is Position.STOPPED
        )
    candidates = _candidates(pools, patience, now)
    held = {each.id for members in pools.values() for each, _ in members if claim_on(claimed, each.name, now)}
    chosen = plan([each._replace(claimed=each.runner_id in held) for each in candidates], leaves, limits)
    return Decision(tuple(turns), chosen, {each.runner_id: each.pool for each in candidates})


def is_as_planned(planned: Evidence, found: Evidence) -> bool:
    """Whether a record is still the one that was planned for; what was told of it by then is no change.

    Whoever came back, went to work or was retired in between must be granted nothing: a grant outlives its reason.
    """
    return planned._replace(state=found.state, state_since=found.state_since) == found


def _as_if_granted(evidence: Evidence) -> Evidence:
    """In dry-run one that would have been acted on has had its turn: the next ones are told, too."""
    return evidence if evidence.granted_at is not None else evidence._replace(granted_at=evidence.would_act_at)


def _candidates(pools: Pools, patience: Mapping[str, float | None], now: float) -> list[Candidate]:
    """The lost that nobody acts on yet; and, where a pool asks for it, those offline for too long."""
    found: list[Candidate] = []
    for pool, members in pools.items():
        for evidence, state in members:
            if evidence.granted_at is not None:
                continue
            waits = is_deferred(evidence.deletion, now)
            if state is State.INVALIDATED and evidence.confirmed_at is not None:
                found.append(Candidate(evidence.id, pool, evidence.confirmed_at, waits=waits))
            elif state is State.OFFLINE and is_offline_too_long(evidence, patience.get(pool), Survey(), now):
                found.append(Candidate(evidence.id, pool, silent_since(evidence) or now, waits=waits))
    return found
