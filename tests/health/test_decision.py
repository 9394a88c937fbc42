"""One decision over all pools of an installation."""

from dataclasses import dataclass

import pytest

from ghapp.health.decision import by_pool, decide
from ghapp.health.fuse import Fuse, FuseLimits, FuseReason, Position
from ghapp.health.plan import Deferral, RemediationLimits
from ghapp.health.verdict import Limits

from .builders import MICROSECOND, NOW, lost, online, present, survey

POOL = "linux-4vcpu"


@dataclass(frozen=True)
class Rule:
    name: str = POOL
    labels: tuple[str, ...] = (POOL,)
    shard_label: str | None = None
    replace_offline_after_seconds: float | None = None


def decided(runners, fuses=None, paused=(), rule=None, limits=None):
    rules = [rule or Rule()]
    pools = by_pool(runners, survey(), rules, NOW, Limits())
    return decide(pools, fuses or {}, paused, rules, FuseLimits(), limits or RemediationLimits(), NOW)


def fleet(gone, there=100):
    return [lost(each) for each in range(1, gone + 1)] + [online(each) for each in range(1000, 1000 + there)]


def test_a_few_losses_of_a_large_pool_are_all_acted_on():
    decision = decided(fleet(5))
    assert (decision.turns, decision.plan.now) == ((), (1, 2, 3, 4, 5))


def test_all_losses_are_counted_before_the_first_is_acted_on():
    decision = decided(fleet(50))
    ((pool, before, after, counted),) = decision.turns
    assert (pool, before, after.position, after.reason) == (POOL, None, Position.PROVING, FuseReason.MASS_LOSS)
    assert (counted.lost, counted.expected) == (50, 150)
    assert decision.plan.now == (1, 2, 3)
    assert set(decision.plan.deferred.values()) == {Deferral.FUSE_PROVING}


def test_a_stopped_fuse_lets_nothing_through_and_does_not_turn():
    stopped = Fuse(Position.STOPPED, since=NOW - 10, batch=3, allowed=3)
    decision = decided(fleet(5), {POOL: stopped})
    assert decision.turns == ()
    assert decision.plan.now == ()
    assert set(decision.plan.deferred.values()) == {Deferral.FUSE_STOPPED}


def test_a_pause_wins_over_a_fuse_that_has_room():
    decision = decided(fleet(5), paused=[POOL])
    assert decision.plan.now == ()
    assert set(decision.plan.deferred.values()) == {Deferral.PAUSED}


def test_where_a_person_was_faster_nothing_is_done():
    decision = decided([*fleet(5), lost(500, labels=("gpu",), custom_labels=("gpu",))])
    assert decision.without([POOL]).plan.now == (500,)
    assert decision.without([]).plan == decision.plan


@pytest.mark.parametrize(
    ("patience", "replaced"),
    [(None, ()), (3600.0, (1,)), (3600.0 + MICROSECOND, ())],
    ids=["never, by default", "for as long as the pool says", "a little less"],
)
def test_offline_is_replaced_only_where_a_pool_asks_for_it(patience, replaced):
    decision = decided([present(1)], rule=Rule(replace_offline_after_seconds=patience))
    assert decision.plan.now == replaced


def test_what_is_granted_is_not_planned_again():
    assert decided([lost(1, granted_at=NOW)]).plan.now == ()
