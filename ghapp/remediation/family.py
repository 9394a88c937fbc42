"""Decides for an installation and the scopes of its repositories together: the fuse `*` is one for all of them.

A false mass loss may be spread over many small repositories, none of which loses enough to trip a fuse of its own. So
all scopes of an installation, its family, are joined into one decision of `decision.decide`, in which pools, runners,
labels and names of different scopes never meet, and that decision is split by scope again. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.pods.pod_claim import PodClaim
from ghapp.remediation.decision import Decision, DecisionInputs, FuseChange, Pools, ReplacingRule, decide
from ghapp.remediation.fuse import Fuse, FuseLimits, FuseReason, Position, failure
from ghapp.remediation.fuse_counts import fuse_counts
from ghapp.remediation.job_proof import KnownJob, KnownJobs
from ghapp.remediation.plan import Plan, RemediationLimits
from ghapp.runners.evidence import LIST_LASTS_SECONDS, Evidence, Survey
from ghapp.runners.verdict import State

NOTHING_DECIDED = Decision((), Plan(), {})

_ID_BITS = 64
"""Ids of runners are shorter."""

_BETWEEN = "\n"
"""Between a scope's place and a name; no name of a pool, a runner or a label has it."""

_AT_STAKE = {State.SUSPECT, State.INVALIDATED, State.OFFLINE}


class FamilyMember(NamedTuple):
    """One scope of a family.

    Attributes:
        id: of the scope.
        pools: its judged runners, from `by_pool`.
        fuses: those of its own pools; `*` is left out of account.
        paused: names of its paused pools.
        rules: its configured pools.
        inputs: its other inputs.
    """

    id: int
    pools: Pools
    inputs: DecisionInputs
    fuses: Mapping[str, Fuse] = {}
    paused: Collection[str] = ()
    rules: Sequence[ReplacingRule] = ()


class FamilyDecision(NamedTuple):
    """What is decided for a family.

    Attributes:
        whole: the change of the fuse `*`; None if it does not change. Save it before anything else.
        parts: the decision for each scope, by its id, without `*`.
        is_open: True if the fuse `*` is not closed. While it is closed each scope decides alone.
    """

    whole: FuseChange | None
    parts: Mapping[int, Decision]
    is_open: bool


@dataclass(frozen=True, slots=True)
class _JoinedRule:
    """A configured pool of one scope; its runners are assigned to it already."""

    name: str
    replace_offline_after_seconds: float | None = None
    labels: tuple[str, ...] = ()
    shard_label: str | None = None


def needs_family(alone: Decision, whole: Fuse) -> bool:
    """True if the other scopes must be considered: the fuse `*` is open, or this scope would act, or would trip it.

    Args:
        alone: what the scope would decide if it were the only one.
        whole: the fuse `*` as recorded.
    """
    is_changed = any(each.pool == ALL_POOLS for each in alone.fuse_changes)
    return whole.position is not Position.CLOSED or is_changed or bool(alone.plan.chosen)


def decide_for_family(
    members: Sequence[FamilyMember],
    whole: Fuse | None,
    tripped: FuseChange | None,
    fuse_limits: FuseLimits,
    limits: RemediationLimits,
    now: float,
) -> FamilyDecision:
    """Decides for all scopes of a family.

    Args:
        members: the scopes.
        whole: the fuse `*` as recorded; None if it never changed.
        tripped: the change of the fuse `*` that the losses of one scope alone make; None if they make none. A fraction
            of a large family is more than the same fraction of that scope.
        fuse_limits: the `[fuse]` table.
        limits: the `[remediation]` table.
        now: epoch seconds.
    """
    scopes = [member.id for member in members]
    members = without_unseen(members, now - fuse_limits.window_seconds)
    places = {member.id: place for place, member in enumerate(members)}
    fuses = {} if whole is None else {ALL_POOLS: whole}
    if tripped is not None:
        fuses[ALL_POOLS] = tripped.after
    pools: Pools = {}
    paused, rules = list[str](), list[ReplacingRule]()
    for member in members:
        place = places[member.id]
        pools |= {_joined(place, pool): _joined_runners(place, runners) for pool, runners in member.pools.items()}
        own = {pool: fuse for pool, fuse in member.fuses.items() if pool != ALL_POOLS}
        fuses |= {_joined(place, pool): _joined_fuse(place, fuse) for pool, fuse in own.items()}
        paused += [_joined(place, pool) for pool in member.paused]
        rules += _joined_rules(place, member)
    inputs = _joined_inputs(members, now)
    waits_alone = {*paused, *(pool for pool, fuse in fuses.items() if fuse.position is Position.STOPPED)}
    proving = [pools[pool] for pool in pools.keys() - waits_alone]
    if whole is not None and is_batch_undecided(proving, whole, fuse_limits, inputs):
        return FamilyDecision(None, dict.fromkeys(scopes, NOTHING_DECIDED), is_open=True)
    decision = decide(pools, fuses, paused, rules, fuse_limits, limits, inputs)
    whole_change = next((each for each in decision.fuse_changes if each.pool == ALL_POOLS), tripped)
    last = whole_change.after if whole_change is not None else whole or Fuse()
    return FamilyDecision(
        whole=None if whole_change is None else whole_change._replace(before=whole),
        parts={each: _part(decision, places[each]) if each in places else NOTHING_DECIDED for each in scopes},
        is_open=last.position is not Position.CLOSED,
    )


def without_unseen(members: Sequence[FamilyMember], window_start: float) -> list[FamilyMember]:
    """Returns the members without scopes that were last listed before the first loss of the window.

    Whether their runners are lost as well is not known yet. Counted as present they would raise the threshold of the
    fuse, and a false loss that each sweep shows a little more of would cost that many runners before it trips.

    Args:
        members: the scopes.
        window_start: earlier losses are not counted (epoch seconds).
    """
    missing = (
        at
        for member in members
        for runners in member.pools.values()
        for each, state in runners
        for at in (each.absent_since, each.first_404_at)
        if state in _AT_STAKE and at is not None and at > window_start
    )
    first = min(missing, default=0.0)
    return [each for each in members if _is_at_stake(each) or (each.inputs.survey.swept_at or 0.0) >= first]


def is_batch_undecided(
    pools: Iterable[Sequence[tuple[Evidence, State]]], whole: Fuse, fuse_limits: FuseLimits, inputs: DecisionInputs
) -> bool:
    """True if a batch of the fuse `*` failed in some pools, and in another one no successor is online yet.

    Scopes are swept one after the other, so that a batch is granted over a minute or more. A pool that fails stops
    alone, which makes room for as many more requests, if others prove the batch. One without a successor proves none.

    Args:
        pools: the runners of each pool that does not wait on its own.
        whole: the fuse `*`.
        fuse_limits: the `[fuse]` table.
        inputs: of the family.
    """
    if whole.position is not Position.PROVING:
        return False
    counts = [fuse_counts(each, whole, inputs.survey, inputs.now, fuse_limits, jobs=inputs.jobs) for each in pools]
    has_failed = [failure(each, fuse_limits) is FuseReason.BATCH_NEVER_ONLINE for each in counts]
    may_fail = [each.accepted > 0 and not each.successors for each in counts]
    return any(has_failed) and has_failed != may_fail


def joined_survey(surveys: Iterable[Survey]) -> Survey:
    """Returns a survey that covers the time which the lists of all of these cover: no proof runs out unseen."""
    known = [each for each in surveys if each.swept_at is not None]
    if not known:
        return Survey()
    spans: list[tuple[float, float]] = []
    for begin, end in sorted(span for each in known for span in each.blind):
        if spans and begin <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((begin, end))
    covered_to = min(_covered_to(each) for each in known)
    while spans and spans[-1][1] > covered_to:  # the time after it is not covered, and must not count twice
        begin, _ = spans.pop()
        covered_to = min(begin, covered_to)
    return Survey(swept_at=covered_to - LIST_LASTS_SECONDS, blind=tuple(spans))


def _covered_to(survey: Survey) -> float:
    return (survey.swept_at or 0.0) + (0.0 if survey.failing_since is not None else LIST_LASTS_SECONDS)


def _joined_inputs(members: Sequence[FamilyMember], now: float) -> DecisionInputs:
    """Returns the inputs of all scopes; those whose runners are all present neither prove nor delay anything."""
    claimed: dict[str, PodClaim] = {}
    reaped, open_requests = dict[str, int](), dict[str, int]()
    jobs: KnownJobs | None = KnownJobs()
    for place, member in enumerate(members):
        inputs = member.inputs
        claimed |= {_joined(place, name): claim for name, claim in inputs.claimed.items()}
        reaped |= {_joined(place, pool): count for pool, count in inputs.reaped.items()}
        open_requests |= {_joined(place, pool): count for pool, count in inputs.open_requests.items()}
        if inputs.jobs is None and _is_at_stake(member):
            jobs = None
        elif jobs is not None and inputs.jobs is not None:
            queued = [*jobs.queued, *_joined_jobs(place, inputs.jobs.queued)]
            taken = [*jobs.taken, *_joined_jobs(place, inputs.jobs.taken)]
            jobs = KnownJobs(queued, taken, is_behind=jobs.is_behind or inputs.jobs.is_behind)
    survey = joined_survey(each.inputs.survey for each in members if _is_at_stake(each))
    return DecisionInputs(survey, now, jobs, claimed, reaped, open_requests)


def _is_at_stake(member: FamilyMember) -> bool:
    """True if a fuse may have to count a loss or a grant of this scope."""
    return any(
        state in _AT_STAKE or each.granted_at is not None or each.last_replaced_at is not None
        for runners in member.pools.values()
        for each, state in runners
    )


def _joined(place: int, name: str) -> str:
    return f"{place}{_BETWEEN}{name}"


def _place_of(joined: str) -> int:
    return int(joined.partition(_BETWEEN)[0])


def _joined_id(place: int, runner_id: int) -> int:
    """Returns an id that no other scope's runner has; GitHub's order of ids stays."""
    return (place << _ID_BITS) + runner_id


def _joined_labels(place: int, labels: Iterable[str]) -> frozenset[str]:
    return frozenset(_joined(place, label) for label in labels)


def _joined_jobs(place: int, jobs: Iterable[KnownJob]) -> list[KnownJob]:
    return [
        job._replace(
            labels=_joined_labels(place, job.labels),
            runner_id=None if job.runner_id is None else _joined_id(place, job.runner_id),
        )
        for job in jobs
    ]


def _joined_runners(place: int, runners: Iterable[tuple[Evidence, State]]) -> list[tuple[Evidence, State]]:
    return [
        (
            each._replace(
                id=_joined_id(place, each.id),
                name=_joined(place, each.name),
                labels=tuple(_joined_labels(place, each.labels)),
            ),
            state,
        )
        for each, state in runners
    ]


def _joined_fuse(place: int, fuse: Fuse) -> Fuse:
    return replace(fuse, runners=tuple(_joined_id(place, each) for each in fuse.runners))


def _joined_rules(place: int, member: FamilyMember) -> list[_JoinedRule]:
    """Returns the scope's pools that may act; without a configured pool, all of them."""
    if not member.rules:
        return [_JoinedRule(_joined(place, pool)) for pool in member.pools]
    return [_JoinedRule(_joined(place, rule.name), rule.replace_offline_after_seconds) for rule in member.rules]


def _part(decision: Decision, place: int) -> Decision:
    """Returns what a decision for the family decides for one scope, without the fuse `*`."""

    def own(runner_ids: Iterable[int]) -> tuple[int, ...]:
        return tuple(_own_id(each) for each in runner_ids if each >> _ID_BITS == place)

    fuse_changes = tuple(
        FuseChange(_own_name(pool), _own_fuse(before), _own_fuse(after) or Fuse(), counted)
        for pool, before, after, counted in decision.fuse_changes
        if pool != ALL_POOLS and _place_of(pool) == place
    )
    deferred = {_own_id(each): why for each, why in decision.plan.deferred.items() if each >> _ID_BITS == place}
    pool_of = {_own_id(each): _own_name(pool) for each, pool in decision.pool_of.items() if _place_of(pool) == place}
    return Decision(
        fuse_changes, Plan(own(decision.plan.chosen), deferred), pool_of, own(decision.not_needed), own(decision.needed)
    )


def _own_name(joined: str) -> str:
    return joined.partition(_BETWEEN)[2]


def _own_id(joined: int) -> int:
    return joined & ((1 << _ID_BITS) - 1)


def _own_fuse(fuse: Fuse | None) -> Fuse | None:
    return None if fuse is None else replace(fuse, runners=tuple(_own_id(each) for each in fuse.runners))
