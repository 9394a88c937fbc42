"""Which runners are remediated now, which are deferred, and why."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.remediation.plan import MOST_OPEN, Candidate, Deferral, Plan, PoolCapacity, RemediationLimits, plan
from tests.rules.builders import NOW

LIMITS = RemediationLimits(mode="act")


def losses(count, pool="linux"):
    return [Candidate(each, pool, NOW + each) for each in range(1, count + 1)]


def test_without_losses_the_plan_is_empty():
    assert plan([], {}, LIMITS) == Plan()


def test_the_longest_lost_come_first_and_the_lower_id_breaks_a_tie():
    candidates = [Candidate(3, "a", NOW), Candidate(1, "b", NOW + 1), Candidate(2, "a", NOW)]
    assert plan(candidates, {}, LIMITS).chosen == (2, 3, 1)


@pytest.mark.parametrize(
    ("count", "deferred"), [(24, 0), (25, 0), (26, 1)], ids=["below per_sweep", "at per_sweep", "one above"]
)
def test_pools_with_closed_fuses_share_the_limit_per_sweep(count, deferred):
    candidates = [each._replace(pool="linux" if each.runner_id % 2 else "mac") for each in losses(count)]
    decided = plan(candidates, {}, LIMITS)
    assert len(decided.chosen) == count - deferred
    assert list(decided.deferred.values()) == [Deferral.PER_SWEEP] * deferred


@pytest.mark.parametrize(("granted", "chosen"), [(0, (1, 2)), (1, (1,)), (2, ()), (3, ())])
def test_what_was_granted_since_the_last_list_counts_for_per_sweep_also_beyond_a_limit_that_was_lowered(
    granted, chosen
):
    limits = RemediationLimits(mode="act", per_sweep=2)
    assert plan(losses(3), {}, limits, granted_since_sweep=granted).chosen == chosen


@pytest.mark.parametrize(
    ("capacity", "limits", "now", "why"),
    [
        (PoolCapacity(), RemediationLimits(mode="off"), (), Deferral.OFF),
        (PoolCapacity(paused=True), LIMITS, (), Deferral.PAUSED),
        (PoolCapacity(room=3, paused=True), LIMITS, (), Deferral.PAUSED),
        (PoolCapacity(room=0, stopped=True), LIMITS, (), Deferral.FUSE_STOPPED),
        (PoolCapacity(room=0), LIMITS, (), Deferral.FUSE_PROVING),
        (PoolCapacity(room=3), LIMITS, (1, 2, 3), Deferral.FUSE_PROVING),
        (PoolCapacity(), RemediationLimits(mode="act", per_sweep=4), (1, 2, 3, 4), Deferral.PER_SWEEP),
    ],
    ids=["off", "paused", "paused while it proves", "stopped", "a batch is under way", "a batch", "per_sweep"],
)
def test_each_deferred_runner_has_a_reason(capacity, limits, now, why):
    decided = plan(losses(5), {"linux": capacity}, limits)
    assert decided.chosen == now
    assert decided.deferred == {each: why for each in range(1, 6) if each not in now}


@pytest.mark.parametrize("room", [None, 5])
@pytest.mark.parametrize(
    ("waiting", "now"), [(MOST_OPEN - 6, 5), (MOST_OPEN - 2, 2), (MOST_OPEN, 0), (MOST_OPEN + 9, 0)]
)
def test_no_more_requests_are_granted_than_may_wait_for_the_url_of_a_pool_and_no_other_pool_waits(waiting, now, room):
    candidates = [*losses(5), Candidate(6, "mac", NOW)]
    decided = plan(candidates, {"linux": PoolCapacity(room, open_requests=waiting)}, LIMITS)
    assert [each for each in decided.chosen if each < 6] == [*range(1, now + 1)]
    assert decided.deferred == dict.fromkeys(range(now + 1, 6), Deferral.OPEN_REQUESTS)
    assert 6 in decided.chosen


def test_a_dry_run_plans_as_in_act():
    assert plan(losses(30), {}, RemediationLimits(mode="dry-run")) == plan(losses(30), {}, LIMITS)


def test_a_proving_fuse_is_limited_by_its_batch_and_not_by_per_sweep():
    decided = plan(losses(48), {"linux": PoolCapacity(room=48)}, LIMITS)
    assert len(decided.chosen) == 48


def test_a_paused_pool_does_not_use_up_the_limit_of_the_others():
    paused = [Candidate(each, "paused", NOW - 100) for each in range(100, 200)]
    decided = plan([*paused, *losses(25)], {"paused": PoolCapacity(paused=True)}, LIMITS)
    assert len(decided.chosen) == 25


POOLS = st.sampled_from(["a", "b", "c"])
CAPACITIES = st.dictionaries(
    POOLS, st.builds(PoolCapacity, st.none() | st.integers(0, 60), st.booleans(), st.booleans()), max_size=3
)
CANDIDATES = st.lists(
    st.builds(Candidate, st.integers(1, 500), POOLS, st.floats(NOW - 1e6, NOW)),
    max_size=120,
    unique_by=lambda each: each.runner_id,
)


@given(CANDIDATES, CAPACITIES, st.integers(1, 40), st.sampled_from(["act", "dry-run", "off"]))
def test_no_limit_is_exceeded_and_no_runner_is_dropped(candidates, capacities, per_sweep, mode):
    decided = plan(candidates, capacities, RemediationLimits(mode=mode, per_sweep=per_sweep))
    assert len(set(decided.chosen)) == len(decided.chosen)
    assert set(decided.chosen).isdisjoint(decided.deferred)
    assert {*decided.chosen, *decided.deferred} == {each.runner_id for each in candidates}
    pool_of = {each.runner_id: each.pool for each in candidates}
    unlimited = [each for each in decided.chosen if capacities.get(pool_of[each], PoolCapacity()).room is None]
    assert len(unlimited) <= per_sweep
    for pool, capacity in capacities.items():
        acted = sum(pool_of[each] == pool for each in decided.chosen)
        assert capacity.room is None or acted <= capacity.room
        assert not (acted and capacity.paused)
    assert not (mode == "off" and decided.chosen)
