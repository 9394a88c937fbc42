"""Decides which lost runners are replaced now: counts each pool, updates its fuse, and plans. Pure.

`jobs.remediation.plan_remediation` reads the inputs and records the decision, one process at a time: two concurrent
decisions could each allow a first batch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple, Protocol

from ghapp.installations.pool_matching import ALL_POOLS, PoolMatcher, PoolRule
from ghapp.pods.pod_claim import NO_CLAIMS, Claimed, claim_on
from ghapp.remediation.fuse import (
    Fuse,
    FuseCounts,
    FuseLimits,
    FuseReason,
    Position,
    at_the_latest,
    failure,
    has_stepped,
    is_not_needed,
    next_fuse,
    room,
    stop,
)
from ghapp.remediation.fuse_counts import combined, fuse_counts
from ghapp.remediation.fuse_moves import after_moves, with_runners
from ghapp.remediation.job_proof import KnownJobs
from ghapp.remediation.plan import Candidate, Plan, PoolCapacity, RemediationLimits, plan
from ghapp.runners.deletion_progress import is_deferred
from ghapp.runners.evidence import Evidence, Survey, is_absent
from ghapp.runners.transitions import published_state
from ghapp.runners.verdict import Limits, State, is_offline_too_long, judge, runs_a_job, silent_since

_CLOSED = Fuse()

JudgedRunner = tuple[Evidence, State]
Pools = dict[str, list[JudgedRunner]]
"""The runners of each pool, each with its state."""

DELIVERIES_FLOW_SECONDS = 24 * 3600.0
"""If a delivery named a runner within this time, deliveries arrive, and waiting jobs would be known."""


class ReplacingRule(PoolRule, Protocol):
    """A configured pool with its replacement settings."""

    @property
    def replace_offline_after_seconds(self) -> float | None:
        """Runners offline for longer are replaced, too; None: never."""


class DecisionInputs(NamedTuple):
    """What is known of an installation besides its runners and fuses.

    Attributes:
        survey: results of the last sweeps.
        now: epoch seconds.
        jobs: that wait for a runner, and that runners took lately; None: unknown.
        claimed: pod claims by name; claimed runners wait without using a batch's capacity.
        reaped: number of pods deleted by the reaper within the fuse's window, by pool; they count as lost.
        open_requests: number of requests that wait for their pool's URL, by pool.
    """

    survey: Survey
    now: float
    jobs: KnownJobs | None = None
    claimed: Claimed = NO_CLAIMS
    reaped: Mapping[str, int] = MappingProxyType({})
    open_requests: Mapping[str, int] = MappingProxyType({})


class FuseChange(NamedTuple):
    """A change of a fuse with the counts that caused it. `pool` is `*` for the installation's fuse."""

    pool: str
    before: Fuse | None
    after: Fuse
    counted: FuseCounts


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision: fuses to record first, then the plan for pools whose fuse was recorded."""

    fuse_changes: tuple[FuseChange, ...]
    plan: Plan
    pool_of: Mapping[int, str]
    """The pool of each candidate."""
    not_needed: tuple[int, ...] = ()
    """Lost runners to write off: their pool is stable without them, and no job waits for it."""
    needed: tuple[int, ...] = ()
    """Lost runners that were written off, and that a waiting job could use now."""

    def without(self, pools: Iterable[str]) -> Decision:
        """Returns the decision without actions in these pools, because an admin changed their fuse in the meantime."""
        excluded = set(pools)
        if ALL_POOLS in excluded:
            return Decision(self.fuse_changes, Plan((), self.plan.deferred), self.pool_of, needed=self.needed)
        kept = tuple(runner_id for runner_id in self.plan.chosen if self.pool_of[runner_id] not in excluded)
        not_needed = tuple(each for each in self.not_needed if self.pool_of[each] not in excluded)
        return Decision(self.fuse_changes, Plan(kept, self.plan.deferred), self.pool_of, not_needed, self.needed)


def by_pool(
    runners: Iterable[Evidence], survey: Survey, rules: Sequence[PoolRule], now: float, limits: Limits
) -> Pools:
    """Judges each runner and groups the runners by pool."""
    pools: Pools = defaultdict(list)
    matcher = PoolMatcher(rules)
    for evidence in runners:
        pools[matcher.pool(evidence)].append((evidence, judge(evidence, survey, now, limits).state))
    return pools


def decide(
    pools: Pools,
    fuses: Mapping[str, Fuse],
    paused: Iterable[str],
    rules: Sequence[ReplacingRule],
    fuse_limits: FuseLimits,
    limits: RemediationLimits,
    inputs: DecisionInputs,
) -> Decision:
    """Decides for one installation.

    Every pool has a fuse, and the installation has one for all pools: many pools that each lose a few runners are a
    mass loss, too.

    Args:
        pools: from `by_pool`.
        fuses: recorded fuses; a missing fuse is closed.
        paused: names of paused pools.
        rules: the configured pools.
        fuse_limits: the `[fuse]` table.
        limits: the `[remediation]` table.
        inputs: the other inputs.
    """
    paused, survey, now = set(paused), inputs.survey, inputs.now
    acting = limits.mode == "act"
    if not acting:
        pools = {pool: [(_as_if_granted(each), state) for each, state in members] for pool, members in pools.items()}
    configured = {rule.name for rule in rules} if rules else set(pools)
    counts = _Counts(pools, _patience(rules), fuse_limits, inputs, paused, configured, acting)
    recorded = fuses
    fuses = {pool: at_the_latest(each, now) for pool, each in recorded.items()}
    fuses = after_moves(fuses, {pool: {each.id for each, _ in members} for pool, members in pools.items()}, now)
    changes = {
        pool: FuseChange(pool, recorded.get(pool), *counts.next_fuse(pool, fuses))
        for pool in [*pools, *(name for name in fuses if name not in pools and name != ALL_POOLS)]
    }
    changes |= _whole_installation(changes, recorded, counts)
    capacities = {pool: _capacity(pool, each.after, counts, changes) for pool, each in changes.items()}
    candidates = _candidates(pools, counts.patience, survey, now)
    runners = [each for members in pools.values() for each, _ in members]
    claimed = {each.id for each in runners if claim_on(inputs.claimed, each.name, now)}
    planned = plan(
        [each._replace(claimed=each.runner_id in claimed) for each in candidates],
        capacities,
        limits,
        capacities[ALL_POOLS],
        granted_since_sweep=sum(_is_granted_since(each, survey.swept_at) for each in runners),
    )
    written_off = _written_off(changes, candidates, counts)
    return Decision(
        tuple(each for each in changes.values() if each.after != (each.before or Fuse())),
        Plan(tuple(each for each in planned.chosen if each not in written_off), planned.deferred),
        {each.runner_id: each.pool for each in candidates},
        tuple(sorted(written_off)),
        tuple(sorted(chain.from_iterable(counts.needed(pool) for pool in pools))),
    )


def counts_for(
    pools: Pools,
    fuses: Mapping[str, Fuse],
    rules: Sequence[ReplacingRule],
    fuse_limits: FuseLimits,
    inputs: DecisionInputs,
) -> dict[str, FuseCounts]:
    """Returns the current counts of each fuse, including the installation's, for publication."""
    configured = {rule.name for rule in rules} if rules else set(pools)
    counts = _Counts(pools, _patience(rules), fuse_limits, inputs, (), configured, acting=True)
    stopped = {pool for pool, fuse in fuses.items() if fuse.position is Position.STOPPED}
    found = {pool: counts.of(pool, fuse) for pool, fuse in fuses.items() if pool in pools}
    if ALL_POOLS in fuses:
        found[ALL_POOLS] = counts.whole(fuses[ALL_POOLS], stopped)
    return found


@dataclass(frozen=True, slots=True)
class _Counts:
    """Counts pools for fuses."""

    pools: Pools
    patience: Mapping[str, float | None]
    limits: FuseLimits
    inputs: DecisionInputs
    paused: Collection[str]
    configured: Collection[str]
    acting: bool

    def next_fuse(self, pool: str, fuses: Mapping[str, Fuse]) -> tuple[Fuse, FuseCounts]:
        """Returns a pool's fuse after counting the pool, and the counts."""
        fuse, whole, now = fuses.get(pool, _CLOSED), fuses.get(ALL_POOLS, _CLOSED), self.inputs.now
        is_held = not self.acting or pool in self.paused or whole.holds_requests
        if is_held and Position.PROVING in (fuse.position, whole.position):
            fuse = replace(fuse, held_at=now)
        counted = self.of(pool, fuse)
        after = next_fuse(fuse, counted, now, self.limits, acting=self.acting)
        return (after if after == fuse else with_runners(after, self._lost(pool, fuse))), counted

    def of(self, pool: str, fuse: Fuse) -> FuseCounts:
        """Counts one pool. A paused pool never settles by itself: the admin decides."""
        members, inputs = self.pools.get(pool, ()), self.inputs
        counted = fuse_counts(
            members,
            fuse,
            inputs.survey,
            inputs.now,
            self.limits,
            self.patience.get(pool),
            self.jobs_for(pool),
            inputs.reaped.get(pool, 0),
            acting=self.acting,
        )
        return replace(counted, calm_seconds=0.0) if members and pool in self.paused else counted

    def of_whole(self, pool: str, whole: Fuse, own: Fuse) -> FuseCounts:
        """Counts one pool for the installation's fuse; a pause may have held back the requests of this pool alone."""
        return self.of(pool, replace(whole, held_at=max(whole.held_at or 0.0, own.held_at or 0.0) or None))

    def whole(self, fuse: Fuse, stopped: Collection[str]) -> FuseCounts:
        """Counts all pools that do not wait on their own (`waits_alone`): these delay no other pool.

        A registration that returned shows in any pool that GitHub's answers were wrong, so that it counts for all.
        """
        of_pool = {pool: self.of(pool, fuse) for pool in self.pools}
        counted = combined(each for pool, each in of_pool.items() if not self.waits_alone(pool, stopped))
        returned = [each.since_return for each in of_pool.values() if each.since_return is not None]
        counted = replace(
            counted, since_return=min(returned, default=None), found=sum(each.found for each in of_pool.values())
        )
        of_no_pool = sum(count for pool, count in self.inputs.reaped.items() if pool not in self.pools)
        return replace(counted, lost=counted.lost + of_no_pool, expected=counted.expected + of_no_pool)

    def waits_alone(self, pool: str, stopped: Collection[str]) -> bool:
        """True if nothing of this pool is replaced for a reason of its own: stopped, paused, or not configured."""
        return pool in stopped or pool in self.paused or pool not in self.configured

    def jobs_for(self, pool: str) -> KnownJobs | None:
        """Returns the jobs; of those that wait, what a runner of the pool, lost or not, could take. None: unknown."""
        jobs = self.inputs.jobs
        if jobs is None:
            return None
        label_sets = {_labels(each) for each, _ in self.pools.get(pool, ())}
        return jobs._replace(queued=[job for job in jobs.queued if any(job.labels <= labels for labels in label_sets)])

    def needed(self, pool: str) -> list[int]:
        """Returns the ids of runners whose loss was written off, as many as waiting jobs of the pool lack.

        A job may take an idle runner, the successor of a loss that waits, or one whose replacement was accepted lately;
        the oldest loss returns first.
        """
        lately = self.inputs.now - self.limits.prove_seconds
        jobs, members = self.inputs.jobs, self.pools[pool]
        written_off = sorted(
            (each for each, state in members if state is State.RETIRED and each.not_needed_at is not None),
            key=lambda each: (each.confirmed_at or 0.0, each.id),
        )
        if jobs is None or not written_off or pool in self.paused:
            return []
        label_sets = {_labels(each) for each in written_off}
        wanted = [job for job in jobs.queued if any(job.labels <= labels for labels in label_sets)]
        taking = [each for each, state in members if _takes_a_job(each, state, lately)]
        needed = []
        for job in wanted:
            if _take_first(taking, job.labels) is None:
                back = _take_first(written_off, job.labels)
                needed += [] if back is None else [back.id]
        return needed

    def _lost(self, pool: str, fuse: Fuse) -> list[int]:
        """Returns the ids of lost runners of the pool, those with a grant of this fuse included."""
        since = self.inputs.now if fuse.grants_since is None else fuse.grants_since
        lost = {State.INVALIDATED, State.SUSPECT, State.OFFLINE}
        members = self.pools.get(pool, ())
        return [each.id for each, state in members if state in lost or (each.granted_at or 0.0) >= since]


def _take_first(runners: list[Evidence], labels: frozenset[str]) -> Evidence | None:
    """Removes and returns the first runner that has these labels; None if none has."""
    found = next((index for index, each in enumerate(runners) if labels <= _labels(each)), None)
    return None if found is None else runners.pop(found)


def _labels(evidence: Evidence) -> frozenset[str]:
    return frozenset(label.lower() for label in evidence.labels)


def _takes_a_job(evidence: Evidence, state: State, lately: float) -> bool:
    """True if a runner is idle, or is lost and has a successor to come: it was requested no earlier than `lately`."""
    if state is State.HEALTHY:
        return evidence.online and not evidence.is_busy
    return state is State.INVALIDATED and (evidence.replaced_at is None or evidence.replaced_at > lately)


def _whole_installation(
    changes: Mapping[str, FuseChange], recorded: Mapping[str, Fuse], counts: _Counts
) -> dict[str, FuseChange]:
    """Returns the change of the installation's fuse, and of pool fuses that stop instead of it.

    The installation's fuse trips for losses in several pools; for losses in one pool the pool's own fuse has a lower
    threshold. If a batch has successors in some pools but not in others, only the latter pools stop; and a pool of
    which no request is accepted stops alone in any case.
    """
    now, limits = counts.inputs.now, counts.limits
    before = at_the_latest(recorded.get(ALL_POOLS, _CLOSED), now)
    if not counts.acting and before.position is Position.PROVING:
        before = replace(before, held_at=now)
    unchanged = FuseChange(ALL_POOLS, recorded.get(ALL_POOLS), before, FuseCounts())
    is_closed = before.position is Position.CLOSED
    if is_closed and not any(each.counted.waiting for each in changes.values()):
        return {ALL_POOLS: unchanged}
    stopped = {pool for pool, each in changes.items() if each.after.position is Position.STOPPED}
    counted_pools = [pool for pool in counts.pools if not counts.waits_alone(pool, stopped)]
    # A loss that a pool's own fuse has healed since may still be one of the installation's window.
    if is_closed and sum(counts.of(pool, before).lost > 0 for pool in counted_pools) <= 1:
        return {ALL_POOLS: unchanged}
    found: dict[str, FuseChange] = {}
    if before.position is Position.PROVING and counts.acting:
        of_pools = {pool: counts.of_whole(pool, before, changes[pool].after) for pool in counted_pools}
        for pool, reason in _stops_alone(of_pools, limits).items():
            own = changes[pool].after
            begun = before if own.position is Position.CLOSED else own  # what `before` allowed while it was proving
            granted = [each.id for each, _ in counts.pools[pool] if each.granted_at is not None]
            after = with_runners(stop(begun, now, reason), granted)
            found[pool] = FuseChange(pool, recorded.get(pool), after, of_pools[pool])
    stopped |= set(found)
    counted = counts.whole(before, stopped)
    after = next_fuse(before, counted, now, limits, acting=counts.acting)
    if len(counted_pools) < len(counts.pools) and after.reason is FuseReason.HEALED and after != before:
        after = replace(after, reason=FuseReason.POOLS_STOPPED)
    return found | {ALL_POOLS: unchanged._replace(after=after, counted=counted)}


def _stops_alone(of_pools: Mapping[str, FuseCounts], limits: FuseLimits) -> dict[str, FuseReason]:
    """Returns the pools whose own fuses stop in the batch of all pools, so that the others go on, and for which reason.

    Args:
        of_pools: what is counted of each pool in that batch.
        limits: the `[fuse]` table.
    """
    failed = {pool: failed for pool, each in of_pools.items() if (failed := failure(each, limits))}
    if any(each.accepted for pool, each in of_pools.items() if pool not in failed):
        return failed
    if any(each.found for each in of_pools.values()):
        return {}  # the loss is false: the batch is spent, accepted or not
    # No pool proves anything: pools without an accepted request stop, and the fuse of all pools for the others.
    return {pool: reason for pool, reason in failed.items() if reason is FuseReason.REQUEST_NOT_ACCEPTED}


def _is_granted_since(evidence: Evidence, swept_at: float | None) -> bool:
    return evidence.granted_at is not None and evidence.granted_at >= (swept_at or 0.0)


def _capacity(pool: str, fuse: Fuse, counts: _Counts, changes: Mapping[str, FuseChange]) -> PoolCapacity:
    is_whole = pool == ALL_POOLS
    capacity = PoolCapacity(
        paused=pool in counts.paused,
        configured=is_whole or pool in counts.configured,
        open_requests=counts.inputs.open_requests.get(pool, 0),
    )
    if fuse.position is Position.CLOSED:
        return capacity
    stopped = {name for name, each in changes.items() if each.after.position is Position.STOPPED}
    counted = counts.whole(fuse, stopped) if is_whole else counts.of(pool, fuse)
    return capacity._replace(room=room(fuse, counted), stopped=fuse.position is Position.STOPPED)


def _written_off(changes: Mapping[str, FuseChange], candidates: Iterable[Candidate], counts: _Counts) -> set[int]:
    """Returns lost runners that are not needed: the pool's or the installation's fuse has just closed for that.

    The installation's fuse does not count pools that wait alone: it knows nothing of the jobs that wait for them.
    """
    done = {
        pool
        for pool, each in changes.items()
        if has_stepped(each.before or _CLOSED, each.after) and is_not_needed(each.after)
    }
    if ALL_POOLS in done:
        stopped = {pool for pool, each in changes.items() if each.after.position is Position.STOPPED}
        done |= {pool for pool in counts.pools if not counts.waits_alone(pool, stopped)}
    return {each.runner_id for each in candidates if each.pool in done and each.pool not in counts.paused}


def are_at_rest(
    runners: Iterable[Evidence], survey: Survey, rules: Sequence[ReplacingRule], now: float, limits: Limits
) -> bool:
    """True if no runner gives a plan anything to do.

    All are as published, none is lost, and none is offline in a pool that has offline runners replaced. With closed
    fuses a plan then changes nothing: a closed fuse trips only for a runner that waits for its replacement.
    """
    patience, matcher = _patience(rules), PoolMatcher(rules)
    return all(
        is_undisturbed(each)
        or _is_left_alone(each, judge(each, survey, now, limits).state, patience.get(matcher.pool(each)))
        for each in runners
    )


def is_undisturbed(evidence: Evidence) -> bool:
    """True if a runner is present, online, as published, and without a loss.

    No judgement is needed for that: such a runner is healthy, starting, retired or unknown.
    """
    is_present = not is_absent(evidence) and evidence.offline_since is None
    return is_present and not evidence.state and not _has_loss(evidence)


def _is_left_alone(evidence: Evidence, state: State, patience: float | None) -> bool:
    """True if a runner without a loss is as published, and a plan only counts it: healthy, retired, or offline."""
    if _has_loss(evidence) or published_state(evidence, state) != evidence.state:
        return False
    return state in (State.HEALTHY, State.RETIRED) or (state is State.OFFLINE and patience is None)


def _has_loss(evidence: Evidence) -> bool:
    steps = (evidence.confirmed_at, evidence.granted_at, evidence.removed_at, evidence.past_loss)
    return any(each is not None for each in steps)


def _patience(rules: Iterable[ReplacingRule]) -> dict[str, float | None]:
    """Returns after how many seconds each pool has offline runners replaced; None: never."""
    return {rule.name: rule.replace_offline_after_seconds for rule in rules}


def deliveries_flow(runners: Iterable[Evidence], now: float) -> bool:
    """True if deliveries arrive, so that a waiting job would be known."""
    return any(
        each.last_delivery_at is not None and now - each.last_delivery_at < DELIVERIES_FLOW_SECONDS for each in runners
    )


def is_as_planned(planned: Evidence, found: Evidence) -> bool:
    """True if a record is unchanged since it was planned; the published state may differ.

    A runner that returned, took a job or was retired in between must get no grant: the grant would outlive its reason.
    """
    return planned._replace(state=found.state, state_since=found.state_since) == found


def _as_if_granted(evidence: Evidence) -> Evidence:
    """In dry-run, treats a runner that would have been replaced as granted, so that the next runners are planned."""
    return evidence if evidence.granted_at is not None else evidence._replace(granted_at=evidence.would_remediate_at)


def _candidates(pools: Pools, patience: Mapping[str, float | None], survey: Survey, now: float) -> list[Candidate]:
    """Returns lost runners without a grant and, if a pool is so configured, those offline for too long."""
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
