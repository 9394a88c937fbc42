"""A family is decided for as one installation with the pools of all of its scopes, and split by scope again."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.pods.pod_claim import PodClaim, by_name
from ghapp.remediation.decision import Decision, DecisionInputs, FuseChange, by_pool, decide
from ghapp.remediation.family import (
    FamilyMember,
    decide_for_family,
    is_batch_undecided,
    joined_survey,
    needs_family,
    without_unseen,
)
from ghapp.remediation.fuse import Fuse, FuseCounts, FuseLimits, FuseReason, Position
from ghapp.remediation.job_proof import KnownJob, KnownJobs
from ghapp.remediation.plan import Deferral, Plan, RemediationLimits
from ghapp.runners.evidence import Survey, covered_seconds
from ghapp.runners.verdict import Limits
from tests.rules.builders import MICROSECOND, NOW, lost, online, proving, survey, suspect

POOL = "linux-4vcpu"
ACT = RemediationLimits(mode="act")


@dataclass(frozen=True)
class Rule:
    name: str = POOL
    labels: tuple[str, ...] = (POOL,)
    shard_label: str | None = None
    replace_offline_after_seconds: float | None = None


def member(scope, *runners, rules=(Rule(),), fuses=None, paused=(), **inputs):
    decision_inputs = DecisionInputs(survey(), NOW)._replace(**inputs)
    pools = by_pool(runners, decision_inputs.survey, rules, NOW, Limits())
    return FamilyMember(scope, pools, decision_inputs, fuses or {}, paused, rules)


def decided(*members, whole=None, tripped=None, limits=FuseLimits()):  # noqa: B008 - a value
    return decide_for_family(members, whole, tripped, limits, ACT, NOW)


def granted(decision):
    return {scope: part.plan.chosen for scope, part in decision.parts.items() if part.plan.chosen}


def test_a_loss_spread_over_many_scopes_trips_the_fuse_and_one_first_batch_is_granted_in_all():
    decision = decided(*(member(-each, lost(1), lost(2)) for each in range(1, 13)))
    assert decision.is_open
    assert (decision.whole.before, decision.whole.after.reason) == (None, FuseReason.MASS_LOSS)
    assert (decision.whole.counted.lost, decision.whole.counted.expected) == (24, 24)
    assert granted(decision) == {-1: (1, 2), -2: (1,)}
    assert decision.parts[-12].plan.deferred == {1: Deferral.FUSE_PROVING, 2: Deferral.FUSE_PROVING}


def test_losses_below_the_threshold_of_the_family_leave_the_fuse_closed():
    members = [member(-each, lost(1), *map(online, range(2, 12))) for each in range(1, 3)]
    decision = decided(*members)
    assert (decision.whole, decision.is_open) == (None, False)


def test_pools_runners_and_pod_names_of_different_scopes_do_not_meet():
    claim = PodClaim("pod", "linux-1", None, NOW + 60, NOW)
    first = member(-1, lost(1), claimed=by_name([claim]))
    second = member(-2, lost(1), online(2), fuses={POOL: Fuse(Position.STOPPED, since=NOW, runners=(1, 2))})
    third = member(-3, lost(1), lost(2), lost(3))
    decision = decided(first, second, third, whole=proving())
    assert granted(decision) == {-3: (1, 2, 3)}
    assert decision.parts[-1].plan.deferred == {1: Deferral.CLAIMED}
    assert decision.parts[-2].plan.deferred == {1: Deferral.FUSE_STOPPED}
    assert decision.parts[-1].pool_of == {1: POOL}
    assert decision.parts[-3].pool_of == dict.fromkeys((1, 2, 3), POOL)


def test_a_stopped_pool_of_a_scope_stays_stopped_whatever_its_name():
    rule, stopped = Rule("#1", ("#1",)), Fuse(Position.STOPPED, since=NOW, runners=(1,))
    first = member(-1, lost(1, labels=("#1",)), rules=(rule,), fuses={"#1": stopped})
    decision = decided(first, member(-2, lost(1)), whole=proving())
    assert granted(decision) == {-2: (1,)}
    assert decision.parts[-1].plan.deferred == {1: Deferral.FUSE_STOPPED}


def test_a_scope_without_a_configured_pool_acts_and_one_with_another_pool_does_not():
    unconfigured = member(-1, lost(1), rules=())
    of_another = member(-2, lost(1), rules=(Rule("gpu", ("gpu",)),))
    decision = decided(unconfigured, of_another, whole=proving())
    assert granted(decision) == {-1: (1,)}
    assert decision.parts[-2].plan.deferred == {1: Deferral.NO_POOL}


def test_a_job_of_one_scope_keeps_no_loss_of_another_from_being_written_off():
    wanted = KnownJobs([KnownJob(frozenset({POOL}))])
    waits = [lost(each, confirmed_at=NOW - 4000, first_404_at=NOW - 4030, absent_since=NOW - 4060) for each in (1, 2)]
    stopped = Fuse(Position.STOPPED, since=NOW - 4000, stopped_at=NOW - 3000, batch_at=NOW - 4000)
    needed = member(-1, *waits, jobs=wanted, fuses={POOL: stopped})
    moot = member(-2, *waits, jobs=KnownJobs(), fuses={POOL: stopped})
    decision = decided(needed, moot, whole=proving())
    assert (decision.parts[-1].not_needed, decision.parts[-2].not_needed) == ((), (1, 2))


def test_what_one_scope_alone_trips_holds_though_the_family_is_too_large_for_it():
    small = member(-1, lost(1), lost(2), lost(3, labels=("gpu",), custom_labels=("gpu",)), rules=())
    large = member(7, *map(online, range(1, 101)))
    assert not decided(small, large).is_open
    trip = FuseChange(ALL_POOLS, None, proving(), FuseCounts(lost=3, expected=3, waiting=3))
    decision = decided(small, large, tripped=trip)
    assert (decision.is_open, decision.whole) == (True, trip)


@pytest.mark.parametrize(
    ("alone", "whole", "needs"),
    [
        (Decision((), Plan(), {}), Fuse(), False),
        (Decision((), Plan((), {1: Deferral.PAUSED}), {}), Fuse(), False),
        (Decision((), Plan((1,)), {1: POOL}), Fuse(), True),
        (Decision((FuseChange(POOL, None, proving(), FuseCounts()),), Plan(), {}), Fuse(), False),
        (Decision((FuseChange("#1", None, proving(), FuseCounts()),), Plan(), {}), Fuse(), False),
        (Decision((FuseChange(ALL_POOLS, None, proving(), FuseCounts()),), Plan(), {}), Fuse(), True),
        (Decision((), Plan(), {}), proving(), True),
        (Decision((), Plan(), {}), Fuse(Position.STOPPED, since=NOW), True),
    ],
)
def test_other_scopes_count_if_the_fuse_is_open_or_something_is_to_be_granted(alone, whole, needs):
    assert needs_family(alone, whole) is needs


@pytest.mark.parametrize(
    ("swept_at", "runner", "is_counted"),
    [
        (NOW - 60, online(1), True),
        (NOW - 60 - MICROSECOND, online(1), False),
        (NOW - 60 - MICROSECOND, suspect(1), True),
        (None, online(1), False),
    ],
    ids=["listed since the loss", "listed before it", "with a loss of its own", "never listed"],
)
def test_runners_last_listed_before_the_first_loss_are_not_counted_as_present(swept_at, runner, is_counted):
    of_loss, other = member(-1, lost(1)), member(-2, runner, survey=survey(swept_at=swept_at))
    assert (other in without_unseen([of_loss, other], NOW - 600)) is is_counted


@pytest.mark.parametrize(
    ("after", "is_counted"),
    [(MICROSECOND, True), (0.0, True), (-MICROSECOND, False)],
    ids=["before the window", "as the window began", "within the window"],
)
def test_without_a_loss_in_the_window_all_scopes_are_counted(after, is_counted):
    missing = lost(1, absent_since=NOW - 60, first_404_at=NOW - 60)
    other = member(-2, online(1), survey=survey(swept_at=NOW - 3600))
    assert (other in without_unseen([member(-1, missing), other], NOW - 60 + after)) is is_counted
    assert without_unseen([], NOW) == []


def replaced(runner_id, at):
    return lost(runner_id, granted_at=at, removed_at=at, replaced_at=at, event_id="id")


@pytest.mark.parametrize(
    ("others", "is_undecided"),
    [
        ([], False),
        ([replaced(1, NOW - 301)], False),
        ([replaced(1, NOW - 240)], True),
        ([replaced(1, NOW - 240), online(2, first_seen=NOW - 30)], False),
        ([lost(1)], False),
        ([lost(1, granted_at=NOW - 301, removed_at=NOW - 301, event_id="id")], False),
    ],
    ids=["alone", "failed as well", "not yet", "proven", "without a grant", "not accepted"],
)
def test_a_batch_that_failed_in_one_pool_waits_for_the_others(others, is_undecided):
    whole = proving(since=NOW - 400, batch_at=NOW - 400)
    runners = [[replaced(1, NOW - 301)], others]
    pools = [by_pool(each, survey(), [Rule()], NOW, Limits()).get(POOL, []) for each in runners]
    inputs = DecisionInputs(survey(), NOW)
    assert is_batch_undecided(pools, whole, FuseLimits(), inputs) is is_undecided
    for closed in (Fuse(), replace(whole, position=Position.STOPPED)):
        assert not is_batch_undecided(pools, closed, FuseLimits(), inputs)


@pytest.mark.parametrize(
    ("changes", "is_undecided"),
    [
        ({}, True),
        ({"fuses": {POOL: proving()}}, True),
        ({"fuses": {POOL: Fuse(Position.STOPPED, since=NOW - 400)}}, False),
        ({"paused": (POOL,)}, False),
    ],
    ids=["waits for its successor", "proves a batch of its own", "stopped", "paused"],
)
def test_nothing_is_decided_while_a_pool_that_does_not_wait_alone_may_prove_the_batch(changes, is_undecided):
    whole = proving(since=NOW - 400, batch_at=NOW - 400)
    failed = member(-1, replaced(1, NOW - 301), lost(2))
    not_yet = member(-2, replaced(1, NOW - 240), lost(2), **changes)
    decision = decided(failed, not_yet, whole=whole)
    assert decision.is_open
    nothing = decision.whole is None and all(part == Decision((), Plan(), {}) for part in decision.parts.values())
    assert nothing is is_undecided


times = st.integers(0, 40).map(lambda minutes: NOW - 60.0 * minutes)
spans = st.sets(times, max_size=8).map(lambda found: tuple(zip(*[iter(sorted(found))] * 2, strict=False)))
surveys = st.builds(Survey, swept_at=st.none() | times, failing_since=st.none() | times, blind=spans).map(
    lambda each: replace(each, blind=tuple(span for span in each.blind if span[1] <= (each.swept_at or 0.0)))
)


@given(st.lists(surveys, min_size=1, max_size=4), times)
def test_time_counts_for_a_family_only_while_all_lists_cover_it(several, since):
    joined = covered_seconds(joined_survey(several), since, NOW)
    swept = [each for each in several if each.swept_at is not None]
    assert all(joined <= covered_seconds(each, since, NOW) for each in swept)
    minutes = range(int((NOW - since) // 60))
    if swept:
        is_blind = [
            any(
                covered_seconds(each, since + 60 * at, NOW) - covered_seconds(each, since + 60 * (at + 1), NOW) < 1
                for each in swept
            )
            for at in minutes
        ]
        assert joined == 60 * is_blind.count(False)


runners = st.builds(
    lambda kind, gpu, at, labels: (kind, gpu, at, labels), st.integers(0, 4), st.booleans(), times, st.booleans()
)


def runner(number, kind, gpu, at):
    labels = {"labels": ("gpu",), "custom_labels": ("gpu",)} if gpu else {}
    return (lost, suspect, online, lambda each, **also: replaced(each, at)._replace(**also), online)[kind](
        number, **labels
    )


fuses = st.sampled_from(
    [
        {},
        {POOL: proving(runners=(1, 2))},
        {POOL: Fuse(Position.STOPPED, since=NOW - 900, runners=(1,))},
        {"old": proving(runners=(1,))},
    ]
)
wholes = st.sampled_from([proving(since=NOW - 900, batch_at=NOW - 900), Fuse(Position.STOPPED, since=NOW - 900)])


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.booleans(), times), max_size=8),
    fuses,
    wholes,
    st.booleans(),
    st.integers(0, 3),
)
def test_a_scope_without_a_family_is_decided_for_as_before(kinds, fuses, whole, is_paused, place):
    rules = (Rule(), Rule("gpu", ("gpu",)))
    paused = ["gpu"] if is_paused else []
    found = [runner(number, *kind) for number, kind in enumerate(kinds, 1)]
    inputs = DecisionInputs(survey(), NOW, jobs=KnownJobs([KnownJob(frozenset({"gpu"}))]))
    one = member(-1, *found, rules=rules, fuses=fuses, paused=paused, jobs=inputs.jobs)
    alone = decide(one.pools, fuses | {ALL_POOLS: whole}, paused, rules, FuseLimits(), ACT, inputs)
    others = [member(-2 - each, rules=rules) for each in range(place)]
    waits = {*paused, *(pool for pool, fuse in fuses.items() if fuse.position is Position.STOPPED)}
    proving_pools = [each for pool, each in one.pools.items() if pool not in waits]
    decision = decided(*others, one, whole=whole)
    if is_batch_undecided(proving_pools, whole, FuseLimits(), inputs):
        assert decision.parts[-1] == Decision((), Plan(), {})
        return
    turns = {each.pool: each for each in alone.fuse_changes}
    turned = turns.pop(ALL_POOLS, None)
    part = decision.parts[-1]
    assert (decision.whole and decision.whole[:3]) == (turned and turned[:3])
    assert {each.pool: each for each in part.fuse_changes} == turns
    assert (part.plan, part.pool_of, part.not_needed, part.needed) == (
        alone.plan,
        alone.pool_of,
        alone.not_needed,
        alone.needed,
    )
