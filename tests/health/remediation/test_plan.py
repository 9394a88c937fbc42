"""What is remediated now, what is deferred, and why."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.health.remediation.plan import Candidate, Deferral, Plan, PoolCapacity, RemediationLimits, plan
from tests.health.builders import NOW

LIMITS = RemediationLimits(mode="act")


def gone(count, pool="linux"):
    return [Candidate(each, pool, NOW + each) for each in range(1, count + 1)]


def test_nothing_lost_is_nothing_to_do():
    assert plan([], {}, LIMITS) == Plan()


def test_those_lost_for_longest_come_first_and_the_lower_id_breaks_a_tie():
    candidates = [Candidate(3, "a", NOW), Candidate(1, "b", NOW + 1), Candidate(2, "a", NOW)]
    assert plan(candidates, {}, LIMITS).now == (2, 3, 1)


@pytest.mark.parametrize(
    ("count", "deferred"), [(24, 0), (25, 0), (26, 1)], ids=["below per_sweep", "at per_sweep", "one more"]
)
def test_closed_fuses_together_let_per_sweep_through(count, deferred):
    candidates = [each._replace(pool="linux" if each.runner_id % 2 else "mac") for each in gone(count)]
    decided = plan(candidates, {}, LIMITS)
    assert len(decided.now) == count - deferred
    assert list(decided.deferred.values()) == [Deferral.PER_SWEEP] * deferred


@pytest.mark.parametrize(
    ("leave", "limits", "now", "why"),
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
def test_what_is_held_back_says_why(leave, limits, now, why):
    decided = plan(gone(5), {"linux": leave}, limits)
    assert decided.now == now
    assert decided.deferred == {each: why for each in range(1, 6) if each not in now}


def test_a_dry_run_plans_as_if_it_acted():
    assert plan(gone(30), {}, RemediationLimits(mode="dry-run")) == plan(gone(30), {}, LIMITS)


def test_while_a_fuse_proves_its_batch_is_the_measure_and_not_per_sweep():
    decided = plan(gone(48), {"linux": PoolCapacity(room=48)}, LIMITS)
    assert len(decided.now) == 48


def test_a_paused_pool_takes_nothing_from_the_others():
    paused = [Candidate(each, "paused", NOW - 100) for each in range(100, 200)]
    decided = plan([*paused, *gone(25)], {"paused": PoolCapacity(paused=True)}, LIMITS)
    assert len(decided.now) == 25


POOLS = st.sampled_from(["a", "b", "c"])
LEAVES = st.dictionaries(
    POOLS, st.builds(PoolCapacity, st.none() | st.integers(0, 60), st.booleans(), st.booleans()), max_size=3
)
CANDIDATES = st.lists(
    st.builds(Candidate, st.integers(1, 500), POOLS, st.floats(NOW - 1e6, NOW)),
    max_size=120,
    unique_by=lambda each: each.runner_id,
)


@given(CANDIDATES, LEAVES, st.integers(1, 40), st.sampled_from(["act", "dry-run", "off"]))
def test_no_ceiling_is_exceeded_and_nobody_is_dropped(candidates, leaves, per_sweep, mode):
    decided = plan(candidates, leaves, RemediationLimits(mode=mode, per_sweep=per_sweep))
    assert len(set(decided.now)) == len(decided.now)
    assert set(decided.now).isdisjoint(decided.deferred)
    assert {*decided.now, *decided.deferred} == {each.runner_id for each in candidates}
    pool_of = {each.runner_id: each.pool for each in candidates}
    unlimited = [each for each in decided.now if leaves.get(pool_of[each], PoolCapacity()).room is None]
    assert len(unlimited) <= per_sweep
    for pool, leave in leaves.items():
        acted = sum(pool_of[each] == pool for each in decided.now)
        assert leave.room is None or acted <= leave.room
        assert not (acted and leave.paused)
    assert not (mode == "off" and decided.now)
