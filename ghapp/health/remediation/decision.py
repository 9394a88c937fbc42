"""Which of the lost are acted on now: count each pool, turn its fuse, and plan. One pure function.

`jobs.remediation.plan_remediation` reads what it needs and records what comes of it; one process at a time, for two of
them could each let a first batch through.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple, Protocol

from ghapp.health.pods.pod_claim import NOBODY, Claimed, claim_on
from ghapp.health.pool_matching import PoolRule, pool_of
from ghapp.health.remediation.fuse import (
    WHOLE_INSTALLATION,
    Fuse,
    FuseCounts,
    FuseLimits,
    FuseReason,
    Position,
    is_not_needed,
    next_fuse,
    room,
    stop,
)
from ghapp.health.remediation.fuse_counts import combined, fuse_counts
from ghapp.health.remediation.plan import Candidate, Plan, PoolCapacity, RemediationLimits, plan
from ghapp.health.runner.deletion_progress import is_deferred
from ghapp.health.runner.evidence import Evidence, Survey
from ghapp.health.runner.verdict import Limits, State, is_offline_too_long, judge, runs_a_job, silent_since

Pools = dict[str, list[tuple[Evidence, State]]]
"""The runners of each pool, each with its state."""

DELIVERIES_FLOW_SECONDS = 24 * 3600.0
"""A delivery named a runner within this: then a job that waits would be known."""


class ReplacingRule(PoolRule, Protocol):
    """A configured pool, with what it says about replacing."""

    @property
    def replace_offline_after_seconds(self) -> float | None:
        """Offline longer than this is replaced, too; None: never."""


class DecisionInputs(NamedTuple):
    """What is known of an installation, but its runners and its fuses.

    Attributes:
        survey: how the last sweeps went.
        now: epoch seconds.
        queued: the labels of each job that waits for a runner, in lower case; None: nothing tells of jobs.
        claimed: controllers' claims, by name: runners that they hold wait, and take no other's place.
        reaped: pods that the reaper deleted within the fuse's window, by pool; they count as lost.
    """

    survey: Survey
    now: float
    queued: Sequence[frozenset[str]] | None = None
    claimed: Claimed = NOBODY
    reaped: Mapping[str, int] = MappingProxyType({})


class FuseChange(NamedTuple):
    """A fuse that changed, and the count that changed it. `pool` is `*` for the installation's."""

    pool: str
    before: Fuse | None
    after: Fuse
    counted: FuseCounts


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done: fuses to be recorded first, and then the plan, of pools whose record succeeded."""

    turns: tuple[FuseChange, ...]
    plan: Plan
    pool_of: Mapping[int, str]
    """The pool of each candidate."""
    not_needed: tuple[int, ...] = ()
    """Lost runners to write off: their pool did without them, and no job waits for it."""

    def without(self, pools: Iterable[str]) -> Decision:
        """The same, with nothing done in these pools: a person changed their fuse since it was read."""
        overtaken = set(pools)
        if WHOLE_INSTALLATION in overtaken:
            return Decision(self.turns, Plan((), self.plan.deferred), self.pool_of)
        kept = tuple(runner_id for runner_id in self.plan.now if self.pool_of[runner_id] not in overtaken)
        not_needed = tuple(each for each in self.not_needed if self.pool_of[each] not in overtaken)
        return Decision(self.turns, Plan(kept, self.plan.deferred), self.pool_of, not_needed)


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
    situation: DecisionInputs,
) -> Decision:
    """Decide for one installation.

    Every pool has a fuse, and the installation one over all of them: many pools that lose a few each are a mass loss
    as well.

    Args:
        pools: from `by_pool`.
        fuses: as recorded; one that is not there is closed.
        paused: the names of paused pools.
        rules: the configured pools.
        fuse_limits: the `[fuse]` table.
        limits: the `[remediation]` table.
        situation: what else is known.
    """
    paused, survey, now = set(paused), situation.survey, situation.now
    acting = limits.mode == "act"
    if not acting:
        pools = {pool: [(_as_if_granted(each), state) for each, state in members] for pool, members in pools.items()}
    counts = _Counts(
        pools, {rule.name: rule.replace_offline_after_seconds for rule in rules}, fuse_limits, situation, paused, acting
    )
    turned: dict[str, FuseChange] = {}
    for pool in pools:
        before = fuses.get(pool, Fuse())
        counted = counts.of(pool, before)
        after = next_fuse(before, counted, now, fuse_limits, acting=acting)
        turned[pool] = FuseChange(pool, fuses.get(pool), after, counted)
    turned |= _whole_installation(turned, fuses, counts, now, fuse_limits, acting=acting)
    leaves = {pool: _leave(pool, each.after, counts, turned, paused) for pool, each in turned.items()}
    candidates = _candidates(pools, counts.patience, survey, now)
    held = {each.id for members in pools.values() for each, _ in members if claim_on(situation.claimed, each.name, now)}
    swept_at = survey.swept_at or 0.0
    recently = sum(
        (each.granted_at or 0.0) >= swept_at for members in pools.values() for each, _ in members if each.granted_at
    )
    chosen = plan(
        [each._replace(claimed=each.runner_id in held) for each in candidates],
        leaves,
        limits,
        leaves[WHOLE_INSTALLATION],
        granted_since_sweep=recently,
    )
    written_off = _written_off(turned, candidates, paused)
    return Decision(
        tuple(each for each in turned.values() if each.after != (each.before or Fuse())),
        Plan(tuple(each for each in chosen.now if each not in written_off), chosen.deferred),
        {each.runner_id: each.pool for each in candidates},
        tuple(sorted(written_off)),
    )


def counts_for(
    pools: Pools,
    fuses: Mapping[str, Fuse],
    rules: Sequence[ReplacingRule],
    fuse_limits: FuseLimits,
    situation: DecisionInputs,
) -> dict[str, FuseCounts]:
    """What each fuse counts just now, the installation's among them: for what is published of it."""
    patience = {rule.name: rule.replace_offline_after_seconds for rule in rules}
    counts = _Counts(pools, patience, fuse_limits, situation, (), acting=True)
    stopped = {pool for pool, fuse in fuses.items() if fuse.position is Position.STOPPED} - {WHOLE_INSTALLATION}
    found = {pool: counts.of(pool, fuse) for pool, fuse in fuses.items() if pool in pools}
    if WHOLE_INSTALLATION in fuses:
        found[WHOLE_INSTALLATION] = counts.whole(fuses[WHOLE_INSTALLATION], stopped)
    return found


@dataclass(frozen=True, slots=True)
class _Counts:
    """Counts pools for fuses."""

    pools: Pools
    patience: Mapping[str, float | None]
    limits: FuseLimits
    situation: DecisionInputs
    paused: Collection[str]
    acting: bool

    def of(self, pool: str, fuse: Fuse) -> FuseCounts:
        """One pool. While a person has paused it nothing settles: it is he who decides."""
        members, situation = self.pools[pool], self.situation
        counted = fuse_counts(
            members,
            fuse,
            situation.survey,
            situation.now,
            self.limits,
            self.patience.get(pool),
            self._queued_for(members),
            situation.reaped.get(pool, 0),
            acting=self.acting,
        )
        return replace(counted, calm_seconds=0.0) if pool in self.paused else counted

    def whole(self, fuse: Fuse, stopped: Collection[str]) -> FuseCounts:
        """All pools but those whose own fuse is stopped: they wait by themselves, and hold up no other."""
        counted = combined(self.of(pool, fuse) for pool in self.pools if pool not in stopped)
        of_no_pool = sum(count for pool, count in self.situation.reaped.items() if pool not in self.pools)
        return replace(counted, lost=counted.lost + of_no_pool, expected=counted.expected + of_no_pool)

    def _queued_for(self, members: Sequence[tuple[Evidence, State]]) -> int | None:
        """Jobs that wait and that one of these runners, lost or not, could take."""
        if self.situation.queued is None:
            return None
        borne = {frozenset(label.lower() for label in each.labels) for each, _ in members}
        return sum(any(wanted <= labels for labels in borne) for wanted in self.situation.queued)


def _whole_installation(
    turned: Mapping[str, FuseChange],
    fuses: Mapping[str, Fuse],
    counts: _Counts,
    now: float,
    limits: FuseLimits,
    *,
    acting: bool,
) -> dict[str, FuseChange]:
    """The installation's fuse, and those of pools that it stops in its place.

    It trips for losses in several pools: those of one pool are its own fuse's, whose threshold is lower. When a batch
    has no successors in some pools and has them in others, it is those pools that stop.
    """
    before = fuses.get(WHOLE_INSTALLATION, Fuse())
    losing = sum(each.counted.lost > 0 for each in turned.values())
    if before.position is Position.CLOSED and losing <= 1:
        return {WHOLE_INSTALLATION: FuseChange(WHOLE_INSTALLATION, fuses.get(WHOLE_INSTALLATION), before, FuseCounts())}
    stopped = {pool for pool, each in turned.items() if each.after.position is Position.STOPPED}
    counted = counts.whole(before, stopped)
    after = next_fuse(before, counted, now, limits, acting=acting)
    if stopped and after.reason is FuseReason.HEALED and after != before:
        after = replace(after, reason=FuseReason.POOLS_STOPPED)
    found = {WHOLE_INSTALLATION: FuseChange(WHOLE_INSTALLATION, fuses.get(WHOLE_INSTALLATION), after, counted)}
    if before.position is Position.PROVING and after.position is Position.STOPPED:
        acted_on = {pool: each for pool in counts.pools if (each := counts.of(pool, before)).accepted}
        failed = {pool: each for pool, each in acted_on.items() if not each.is_proven and pool not in stopped}
        if len(failed) < len(acted_on):
            found[WHOLE_INSTALLATION] = found[WHOLE_INSTALLATION]._replace(after=before)
            found |= {
                pool: FuseChange(pool, fuses.get(pool), stop(_begun(turned[pool].after, before), now), each)
                for pool, each in failed.items()
            }
    return found


def _begun(own: Fuse, whole: Fuse) -> Fuse:
    """A pool's fuse as the installation's proved for it: closed ones take over what that one let through."""
    return own if own.position is not Position.CLOSED else whole


def _leave(
    pool: str, fuse: Fuse, counts: _Counts, turned: Mapping[str, FuseChange], paused: Collection[str]
) -> PoolCapacity:
    if fuse.position is Position.CLOSED:
        return PoolCapacity(None, paused=pool in paused)
    if pool == WHOLE_INSTALLATION:
        stopped = {name for name, each in turned.items() if each.after.position is Position.STOPPED}
        counted = counts.whole(fuse, stopped - {pool})
    else:
        counted = counts.of(pool, fuse)
    return PoolCapacity(room(fuse, counted), paused=pool in paused, stopped=fuse.position is Position.STOPPED)


def _written_off(
    turned: Mapping[str, FuseChange], candidates: Iterable[Candidate], paused: Collection[str]
) -> set[int]:
    """Those that their pool does without: its fuse, or the installation's, has just closed for that."""
    done = {
        pool for pool, each in turned.items() if each.after != (each.before or Fuse()) and is_not_needed(each.after)
    }
    return {
        each.runner_id
        for each in candidates
        if each.pool not in paused and (each.pool in done or WHOLE_INSTALLATION in done)
    }


def deliveries_flow(runners: Iterable[Evidence], now: float) -> bool:
    """Whether deliveries reach us, so that a job that waits would be known."""
    return any(
        each.last_delivery_at is not None and now - each.last_delivery_at < DELIVERIES_FLOW_SECONDS for each in runners
    )


def is_as_planned(planned: Evidence, found: Evidence) -> bool:
    """Whether a record is still the one that was planned for; what was told of it by then is no change.

    Whoever came back, went to work or was retired in between must be granted nothing: a grant outlives its reason.
    """
    return planned._replace(state=found.state, state_since=found.state_since) == found


def _as_if_granted(evidence: Evidence) -> Evidence:
    """In dry-run one that would have been acted on has had its turn: the next ones are told, too."""
    return evidence if evidence.granted_at is not None else evidence._replace(granted_at=evidence.would_remediate_at)


def _candidates(pools: Pools, patience: Mapping[str, float | None], survey: Survey, now: float) -> list[Candidate]:
    """The lost that nobody acts on yet; and, where a pool asks for it, those offline for too long."""
    found: list[Candidate] = []
    for pool, members in pools.items():
        for evidence, state in members:
            if evidence.granted_at is not None or runs_a_job(evidence, now):
                continue
            waits = is_deferred(evidence.deletion, now)
            if state is State.INVALIDATED and evidence.confirmed_at is not None:
                found.append(Candidate(evidence.id, pool, evidence.confirmed_at, waits=waits))
            elif state is State.OFFLINE and is_offline_too_long(evidence, patience.get(pool), survey, now):
                found.append(Candidate(evidence.id, pool, silent_since(evidence) or now, waits=waits))
    return found
