"""One decision over all pools of an installation."""

from dataclasses import dataclass

import pytest

from ghapp.health.cluster.podclaim import PodClaim, by_name
from ghapp.health.decision import by_pool, decide
from ghapp.health.fuse import Fuse, FuseLimits, FuseReason, Position, tally
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


def decided(runners, fuses=None, paused=(), rule=None, limits=None, claims=()):
    rules = [rule or Rule()]
    pools = by_pool(runners, survey(), rules, NOW, Limits())
    return decide(pools, fuses or {}, paused, rules, FuseLimits(), limits or RemediationLimits(), NOW, by_name(claims))


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


def offline(gone, there=100, **changes):
    """So many offline for an hour, which the pool's rule does not put up with."""
    return [present(each, **changes) for each in range(1, gone + 1)] + [
        online(each) for each in range(1000, 1000 + there)
    ]


IMPATIENT = Rule(replace_offline_after_seconds=3600.0)


def test_whom_github_calls_busy_is_not_replaced_for_being_offline():
    assert decided(offline(1), rule=IMPATIENT).plan.now == (1,)
    assert decided(offline(1, busy=True), rule=IMPATIENT).plan.now == ()


def test_a_fleet_that_is_shown_offline_trips_the_fuse_where_offline_is_replaced():
    decision = decided(offline(50), rule=IMPATIENT)
    ((_, _, after, counted),) = decision.turns
    assert (after.position, after.reason, counted.lost, counted.expected) == (
        Position.PROVING,
        FuseReason.MASS_LOSS,
        50,
        150,
    )
    assert decision.plan.now == (1, 2, 3)
    assert decided(offline(50), rule=Rule()).turns == (), "where it is only reported, nothing is about to be done"


def test_whom_we_removed_for_being_offline_is_lost_for_the_window_and_nobody_who_left():
    def counted(**changes):
        gone = [
            present(each, granted_at=NOW - 60, removed_at=NOW - 60, replaced_at=NOW - 60, **changes)
            for each in (1, 2, 3)
        ]
        fuse = Fuse(Position.PROVING, NOW - 61, 3, 3)
        pools = by_pool([*gone, *offline(10)[3:]], survey(), [IMPATIENT], NOW, Limits())
        return tally(pools[POOL], fuse, NOW, FuseLimits(), 3600.0)

    shown, unlisted = counted(), counted(absent_since=NOW - 1, listed=False)
    assert shown == unlisted
    assert (shown.lost, shown.expected, shown.waiting) == (10, 107, 7)
    assert (shown.granted, shown.accepted, shown.departed) == (3, 3, 0)


def test_a_fleet_that_is_truly_offline_is_replaced_in_doubling_batches():
    gone = [
        present(each, granted_at=NOW - 60, removed_at=NOW - 60, replaced_at=NOW - 60, absent_since=NOW - 1)
        for each in (1, 2, 3)
    ]
    new = [online(2000 + each, first_seen=NOW - 30) for each in range(3)]
    fuses = {POOL: Fuse(Position.PROVING, NOW - 61, 3, 3)}
    decision = decided([*gone, *offline(20)[3:], *new], fuses, rule=IMPATIENT)
    assert decision.plan.now == (4, 5, 6, 7, 8, 9)


def test_what_is_granted_is_not_planned_again():
    assert decided([lost(1, granted_at=NOW)]).plan.now == ()


def test_whom_a_claim_holds_waits_and_takes_nobody_s_place():
    claims = [PodClaim("pod-1", "linux-1", None, NOW + 1), PodClaim("linux-2", "another", None, NOW + MICROSECOND)]
    decision = decided(fleet(50), claims=claims)
    assert decision.turns[0].counted.lost == 50, "they are lost all the same"
    assert decision.plan.now == (3, 4, 5)
    assert {each for each, why in decision.plan.deferred.items() if why is Deferral.CLAIMED} == {1, 2}


def test_a_claim_that_has_run_out_holds_nobody():
    assert decided(fleet(5), claims=[PodClaim("linux-1", "linux-1", None, NOW)]).plan.now == (1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    ("limits", "paused", "why"),
    [
        (RemediationLimits(mode="off"), (), Deferral.OFF),
        (None, [POOL], Deferral.PAUSED),
        (RemediationLimits(per_sweep=1), (), Deferral.CLAIMED),
    ],
    ids=["off", "paused", "claimed"],
)
def test_what_people_say_is_named_before_what_a_controller_says(limits, paused, why):
    claims = [PodClaim(f"linux-{each}", f"linux-{each}", None, NOW + 60) for each in range(1, 6)]
    decision = decided(fleet(5), limits=limits, paused=paused, claims=claims)
    assert (decision.plan.now, set(decision.plan.deferred.values())) == ((), {why})
