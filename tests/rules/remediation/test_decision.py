"""A decision covers all pools of an installation."""

from dataclasses import dataclass

import pytest

from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.pods.pod_claim import PodClaim, by_name
from ghapp.remediation.decision import DecisionInputs, are_at_rest, by_pool, counts_for, decide, deliveries_flow
from ghapp.remediation.fuse import Fuse, FuseLimits, FuseReason, Position, fuse_of, has_stepped
from ghapp.remediation.fuse_counts import fuse_counts
from ghapp.remediation.job_proof import KnownJob, KnownJobs
from ghapp.remediation.plan import Deferral, Plan, RemediationLimits
from ghapp.runners.evidence import PastLoss
from ghapp.runners.verdict import Limits
from tests.rules.builders import MICROSECOND, NOW, lost, online, present, proving, survey, suspect

POOL = "linux-4vcpu"


@dataclass(frozen=True)
class Rule:
    name: str = POOL
    labels: tuple[str, ...] = (POOL,)
    shard_label: str | None = None
    replace_offline_after_seconds: float | None = None


def rules_of(*names):
    return [Rule(name=each, labels=(each,)) for each in names]


def decided(runners, fuses=None, paused=(), rules=None, limits=None, claims=(), **changes):
    rules = rules or [Rule()]
    decision_inputs = DecisionInputs(survey(), NOW, claimed=by_name(claims))._replace(**changes)
    pools = by_pool(runners, decision_inputs.survey, rules, NOW, Limits())
    return decide(
        pools, fuses or {}, paused, rules, FuseLimits(), limits or RemediationLimits(mode="act"), decision_inputs
    )


def fleet(count, there=100):
    return [lost(each) for each in range(1, count + 1)] + [online(each) for each in range(1000, 1000 + there)]


def test_a_few_losses_in_a_large_pool_are_all_remediated():
    decision = decided(fleet(5))
    assert (decision.fuse_changes, decision.plan.chosen) == ((), (1, 2, 3, 4, 5))


def test_all_losses_are_counted_before_the_first_is_remediated():
    decision = decided(fleet(50))
    ((pool, before, after, counted),) = decision.fuse_changes
    assert (pool, before, after.position, after.reason) == (POOL, None, Position.PROVING, FuseReason.MASS_LOSS)
    assert (counted.lost, counted.expected) == (50, 150)
    assert decision.plan.chosen == (1, 2, 3)
    assert set(decision.plan.deferred.values()) == {Deferral.FUSE_PROVING}


def test_a_stopped_fuse_defers_every_runner_and_keeps_its_state():
    stopped = Fuse(Position.STOPPED, since=NOW - 10, batch=3, allowed=3)
    decision = decided(fleet(5), {POOL: stopped})
    assert decision.fuse_changes == ()
    assert decision.plan.chosen == ()
    assert set(decision.plan.deferred.values()) == {Deferral.FUSE_STOPPED}


@pytest.mark.parametrize(
    ("position", "lost_of_all"),
    [(Position.CLOSED, 6), (Position.PROVING, 6), (Position.STOPPED, 1)],
)
def test_the_published_count_of_all_pools_leaves_out_those_that_their_own_fuse_stops(position, lost_of_all):
    runners, rules = [*fleet(5), lost(500, labels=("gpu",), custom_labels=("gpu",))], rules_of(POOL, "gpu")
    pools = by_pool(runners, survey(), rules, NOW, Limits())
    fuses = {POOL: proving(position=position), ALL_POOLS: proving()}
    counts = counts_for(pools, fuses, rules, FuseLimits(), DecisionInputs(survey(), NOW))
    assert (counts[POOL].lost, counts[ALL_POOLS].lost) == (5, lost_of_all)


def test_the_published_count_includes_a_loss_that_has_waited_for_longer_than_the_window():
    old = lost(absent_since=NOW - 9000, first_404_at=NOW - 9000, confirmed_at=NOW - 9000)
    pools = by_pool([old], survey(), [Rule()], NOW, Limits())
    counts = counts_for(pools, {POOL: proving()}, [Rule()], FuseLimits(), DecisionInputs(survey(), NOW))
    assert counts[POOL].lost == 1


def test_a_paused_pool_defers_every_runner_though_its_fuse_has_room():
    decision = decided(fleet(5), paused=[POOL])
    assert decision.plan.chosen == ()
    assert set(decision.plan.deferred.values()) == {Deferral.PAUSED}


def test_a_written_off_loss_returns_for_a_job_that_it_could_take_though_others_are_idle():
    linux, windows = frozenset({"self-hosted", "linux"}), frozenset({"self-hosted", "windows"})
    of = {
        each: {"labels": tuple(sorted(each)), "custom_labels": tuple(sorted(each - {"self-hosted"}))}
        for each in (linux, windows)
    }
    away = {"not_needed_at": NOW - 8000}
    oldest = lost(1, confirmed_at=NOW - 9000, **away, **of[linux])
    runners = [oldest, lost(2, confirmed_at=NOW - 8900, **away, **of[windows]), online(50, **of[linux])]
    rules = [Rule("all", ("*",))]
    for_linux, for_windows = KnownJob(linux), KnownJob(windows)
    assert decided(runners, rules=rules, jobs=waiting([for_windows, for_windows])).needed == (2,)
    assert decided(runners, rules=rules, jobs=waiting([for_linux, for_linux, for_windows])).needed == (1, 2)


def test_a_pool_whose_fuse_a_person_changed_meanwhile_is_left_out_of_the_plan():
    runners = [*fleet(5), lost(500, labels=("gpu",), custom_labels=("gpu",))]
    decision = decided(runners, rules=rules_of(POOL, "gpu"))
    assert decision.without([POOL]).plan.chosen == (500,)
    assert decision.without([]).plan == decision.plan


@pytest.mark.parametrize(
    ("patience", "replaced"),
    [(None, ()), (3600.0, (1,)), (3600.0 + MICROSECOND, ())],
    ids=["never, by default", "at the pool's limit", "just before the limit"],
)
def test_an_offline_runner_is_replaced_only_if_its_pool_has_a_limit(patience, replaced):
    decision = decided([present(1)], rules=[Rule(replace_offline_after_seconds=patience)])
    assert decision.plan.chosen == replaced


def offline(count, there=100, **changes):
    """A fleet of which `count` runners are offline for an hour, the limit of their pool."""
    return [present(each, **changes) for each in range(1, count + 1)] + [
        online(each) for each in range(1000, 1000 + there)
    ]


REPLACES_OFFLINE = Rule(replace_offline_after_seconds=3600.0)


def test_an_offline_runner_that_github_lists_as_busy_is_not_replaced():
    assert decided(offline(1), rules=[REPLACES_OFFLINE]).plan.chosen == (1,)
    assert decided(offline(1, busy=True), rules=[REPLACES_OFFLINE]).plan.chosen == ()


def test_a_fleet_listed_as_offline_trips_the_fuse_if_its_pool_replaces_offline_runners():
    decision = decided(offline(50), rules=[REPLACES_OFFLINE])
    ((_, _, after, counted),) = decision.fuse_changes
    assert (after.position, after.reason, counted.lost, counted.expected) == (
        Position.PROVING,
        FuseReason.MASS_LOSS,
        50,
        150,
    )
    assert decision.plan.chosen == (1, 2, 3)
    assert decided(offline(50), rules=[Rule()]).fuse_changes == (), (
        "a pool that only reports offline runners remediates none, so its fuse stays closed"
    )


def test_a_runner_removed_for_being_offline_counts_as_lost_for_the_window():
    def counted(**changes):
        lost_runners = [
            present(each, granted_at=NOW - 60, removed_at=NOW - 60, replaced_at=NOW - 60, **changes)
            for each in (1, 2, 3)
        ]
        fuse = Fuse(Position.PROVING, NOW - 61, 3, 3)
        pools = by_pool([*lost_runners, *offline(10)[3:]], survey(), [REPLACES_OFFLINE], NOW, Limits())
        return fuse_counts(pools[POOL], fuse, survey(), NOW, FuseLimits(), 3600.0)

    shown, unlisted = counted(), counted(absent_since=NOW - 1, listed=False)
    assert shown == unlisted
    assert (shown.lost, shown.expected, shown.waiting) == (10, 110, 7)
    assert (shown.granted, shown.accepted, shown.successors) == (3, 3, 0)


def test_an_offline_fleet_is_replaced_in_doubling_batches():
    lost_runners = [
        present(each, granted_at=NOW - 60, removed_at=NOW - 60, replaced_at=NOW - 60, absent_since=NOW - 1)
        for each in (1, 2, 3)
    ]
    new = [online(2000 + each, first_seen=NOW - 30) for each in range(3)]
    fuses = {POOL: Fuse(Position.PROVING, NOW - 61, 3, 3)}
    decision = decided([*lost_runners, *offline(20)[3:], *new], fuses, rules=[REPLACES_OFFLINE])
    assert decision.plan.chosen == (4, 5, 6, 7, 8, 9)


def test_a_granted_runner_is_not_planned_again():
    assert decided([lost(1, granted_at=NOW)]).plan.chosen == ()


@pytest.mark.parametrize(
    ("mode", "first", "planned"),
    [
        ("dry-run", {"would_remediate_at": NOW - 30}, ()),
        ("act", {"would_remediate_at": NOW - 30}, (1, 2, 3)),
        ("dry-run", {"granted_at": NOW - 30}, ()),
        ("dry-run", {}, (1, 2, 3)),
    ],
    ids=["would be replaced", "the mode is act since", "granted before the mode was dry-run", "not planned yet"],
)
def test_what_would_be_replaced_counts_as_granted_in_dry_run_alone(mode, first, planned):
    runners = [*(lost(each, **first) for each in (1, 2, 3)), *(lost(each) for each in range(4, 51))]
    fuse = Fuse(Position.PROVING, NOW - 60, 3, 3, batch_at=NOW - 60)
    assert decided(runners, {POOL: fuse}, limits=RemediationLimits(mode=mode)).plan.chosen == planned


def test_a_claimed_runner_is_deferred_and_takes_no_place_in_the_batch():
    claims = [PodClaim("pod-1", "linux-1", None, NOW + 1), PodClaim("linux-2", "another", None, NOW + MICROSECOND)]
    decision = decided(fleet(50), claims=claims)
    assert decision.fuse_changes[0].counted.lost == 50, "claimed runners count as lost"
    assert decision.plan.chosen == (3, 4, 5)
    assert {each for each, why in decision.plan.deferred.items() if why is Deferral.CLAIMED} == {1, 2}


def test_an_expired_claim_defers_no_runner():
    assert decided(fleet(5), claims=[PodClaim("linux-1", "linux-1", None, NOW)]).plan.chosen == (1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    ("limits", "paused", "why"),
    [
        (RemediationLimits(mode="off"), (), Deferral.OFF),
        (None, [POOL], Deferral.PAUSED),
        (RemediationLimits(mode="act", per_sweep=1), (), Deferral.CLAIMED),
    ],
    ids=["off", "paused", "claimed"],
)
def test_mode_and_pause_take_precedence_over_a_claim_as_the_reported_reason(limits, paused, why):
    claims = [PodClaim(f"linux-{each}", f"linux-{each}", None, NOW + 60) for each in range(1, 6)]
    decision = decided(fleet(5), limits=limits, paused=paused, claims=claims)
    assert (decision.plan.chosen, set(decision.plan.deferred.values())) == ((), {why})


# The installation's own fuse: a mass loss spread over many pools.


def spread(pools, size, lost_each):
    """Runners of `pools` pools of `size` runners, of which `lost_each` are lost; the lowest ids are lost first."""
    runners = []
    for number in range(pools):
        labels = {"labels": ("self-hosted", f"pool-{number}"), "custom_labels": (f"pool-{number}",)}
        runners += [lost(1 + number * lost_each + each, **labels) for each in range(lost_each)]
        runners += [online(10_000 + number * size + each, **labels) for each in range(size - lost_each)]
    return runners


@pytest.mark.parametrize(
    ("pools", "size", "lost_each", "granted"),
    [(30, 10, 2, 3), (30, 10, 3, 3), (400, 1, 1, 3), (30, 10, 1, 25), (2, 100, 1, 2), (2, 2, 2, 3), (1, 2, 2, 2)],
    ids=[
        "thirty pools lose two of ten",
        "thirty pools trip, each its own fuse",
        "four hundred runners with a label each",
        "thirty pools lose one of ten",
        "two pools lose one each",
        "two pools lose all runners",
        "the smallest pool",
    ],
)
def test_a_mass_loss_spread_over_pools_grants_one_first_batch(pools, size, lost_each, granted):
    decision = decided(spread(pools, size, lost_each), rules=rules_of(*(f"pool-{each}" for each in range(pools))))
    assert len(decision.plan.chosen) == granted
    turned = {each.pool: each.after for each in decision.fuse_changes}
    assert (ALL_POOLS in turned) is (granted == 3)


def test_a_mass_loss_in_one_pool_trips_the_pools_fuse_alone():
    turned = [each.pool for each in decided(fleet(50)).fuse_changes]
    assert turned == [POOL]


@pytest.mark.parametrize(
    ("elsewhere", "trips"), [(0, False), (1, True)], ids=["in that pool alone", "in another pool too"]
)
def test_losses_from_before_a_pools_fuse_closed_count_for_the_installations_fuse(elsewhere, trips):
    """Two losses a minute before their pool's fuse closed, and one since: three in the installation's window."""
    other = {"labels": ("other",), "custom_labels": ("other",)}
    before = {"confirmed_at": NOW - 120, "granted_at": NOW - 110, "removed_at": NOW - 110, "replaced_at": NOW - 100}
    labels = other if elsewhere else {}
    runners = [lost(1, **before), lost(2, **before), lost(3, confirmed_at=NOW - 1, **labels)]
    runners += [online(each) for each in range(100, 105)] + [online(each, **other) for each in range(105, 110)]
    rules = rules_of(POOL, "other")
    decision = decided(runners, {POOL: Fuse(closed_at=NOW - 60, reason=FuseReason.HEALED)}, rules=rules)
    assert (ALL_POOLS in {each.pool for each in decision.fuse_changes}) is trips


def test_a_pool_without_successors_stops_alone_and_delays_no_other_pool():
    """The installation's first batch went to two pools; one of them has a controller that does nothing."""
    acted_on = {"granted_at": NOW - 400, "removed_at": NOW - 400, "replaced_at": NOW - 400, "confirmed_at": NOW - 500}
    works = {"labels": ("works",), "custom_labels": ("works",)}
    broken = {"labels": ("broken",), "custom_labels": ("broken",)}
    runners = [
        lost(1, **acted_on, **works),
        lost(2, **acted_on, **broken),
        lost(3, **acted_on, **broken),
        online(500, first_seen=NOW - 350, **works),
        *(lost(each, **works) for each in range(10, 20)),
        *(lost(each, **broken) for each in range(20, 30)),
    ]
    whole = Fuse(Position.PROVING, NOW - 401, 3, 3, batch_at=NOW - 401)
    decision = decided(runners, {ALL_POOLS: whole}, rules=rules_of("works", "broken"))
    turned = {each.pool: each.after for each in decision.fuse_changes}
    assert turned["broken"].position is Position.STOPPED
    assert ALL_POOLS not in turned
    fuses = {ALL_POOLS: whole, **turned}
    again = decided(runners, fuses, rules=rules_of("works", "broken"))
    assert again.plan.chosen == (10, 11), "the broken pool's part of the batch goes to the other pool"


WELL, GONE = (
    {"labels": ("well",), "custom_labels": ("well",)},
    {"labels": ("gone",), "custom_labels": ("gone",)},
)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"replaced_at": None, "granted_at": NOW - 301}, FuseReason.REQUEST_NOT_ACCEPTED),
        ({"replaced_at": NOW - 301, "granted_at": NOW - 301}, FuseReason.BATCH_NEVER_ONLINE),
    ],
    ids=["its url is down", "nothing comes online"],
)
def test_a_pool_whose_part_of_the_batch_fails_stops_alone(changes, reason):
    """The installation's batch went to two pools, and the other one has its successor."""
    runners = [
        lost(1, removed_at=NOW - 301, confirmed_at=NOW - 310, **GONE, **changes),
        lost(2, removed_at=NOW - 301, confirmed_at=NOW - 310, granted_at=NOW - 301, replaced_at=NOW - 301, **WELL),
        online(500, first_seen=NOW - 100, **WELL),
        *(lost(each, **WELL) for each in range(10, 60)),
    ]
    whole = Fuse(Position.PROVING, NOW - 302, 3, 2, batch_at=NOW - 302)
    decision = decided(runners, {ALL_POOLS: whole}, rules=rules_of("well", "gone"))
    turned = {each.pool: each.after for each in decision.fuse_changes}
    assert (turned["gone"].position, turned["gone"].reason) == (Position.STOPPED, reason)
    assert ALL_POOLS not in turned
    assert decision.plan.chosen == (10,), "its part of the batch goes to the other pool"
    grants = ("since", "batch", "allowed", "batch_at")
    assert [getattr(turned["gone"], name) for name in grants] == [getattr(whole, name) for name in grants]


def test_a_pool_that_proves_a_batch_of_its_own_stops_with_that_batch():
    granted = {"removed_at": NOW - 301, "confirmed_at": NOW - 310, "granted_at": NOW - 301, "replaced_at": NOW - 301}
    runners = [
        lost(1, **GONE, **granted),
        lost(2, **WELL, **granted),
        lost(3, **GONE),
        online(500, first_seen=NOW - 100, **WELL),
        *(lost(each, **WELL) for each in range(10, 60)),
    ]
    whole = Fuse(Position.PROVING, NOW - 302, 3, 2, batch_at=NOW - 302)
    own = proving(since=NOW - 100, batch=6, allowed=9, batch_at=NOW - 100)
    decision = decided(runners, {ALL_POOLS: whole, "gone": own}, rules=rules_of("well", "gone"))
    stopped = next(each.after for each in decision.fuse_changes if each.pool == "gone")
    assert stopped.position is Position.STOPPED
    assert (stopped.since, stopped.batch, stopped.allowed, stopped.batch_at) == (NOW - 100, 6, 9, NOW - 100)


def test_a_pool_whose_requests_are_not_accepted_stops_alone_though_no_other_pool_has_proven_anything():
    runners = [
        *(lost(each, removed_at=NOW - 301, granted_at=NOW - 301, **GONE) for each in range(1, 4)),
        *(lost(each, **WELL) for each in range(10, 60)),
    ]
    whole = Fuse(Position.PROVING, NOW - 302, 3, 3, batch_at=NOW - 302)
    decision = decided(runners, {ALL_POOLS: whole}, rules=rules_of("well", "gone"))
    turned = {each.pool: each.after for each in decision.fuse_changes}
    assert turned["gone"].reason is FuseReason.REQUEST_NOT_ACCEPTED
    assert ALL_POOLS not in turned
    assert decision.plan.chosen == (10, 11, 12), "the first batch of the installation is free for the other pool"


@pytest.mark.parametrize("hold", ["paused", "unconfigured"])
def test_a_pool_that_waits_alone_holds_up_no_other_pool(hold):
    """Four runners of a pool without replacements were lost first, then all fifty of another one."""
    runners = [
        *(lost(each, confirmed_at=NOW - 3600, **GONE) for each in range(1, 5)),
        *(lost(each, **WELL) for each in range(10, 60)),
    ]
    whole = {ALL_POOLS: Fuse(Position.PROVING, NOW - 3600, 3, 3, batch_at=NOW - 3600)}
    paused, names = (["gone"], ["well", "gone"]) if hold == "paused" else ([], ["well"])
    decision = decided(runners, whole, paused, rules=rules_of(*names))
    assert decision.plan.chosen == (10, 11, 12)
    expected = Deferral.PAUSED if hold == "paused" else Deferral.NO_POOL
    assert {decision.plan.deferred[each] for each in range(1, 5)} == {expected}


@pytest.mark.parametrize("hold", ["paused", "unconfigured"])
def test_the_installations_fuse_closes_when_only_pools_that_wait_alone_have_losses(hold):
    """It would hold the reaper and the re-runs of all pools for as long as the pause lasts."""
    runners = [*(lost(each, **GONE) for each in range(1, 5)), online(100, **WELL)]
    whole = {ALL_POOLS: Fuse(Position.PROVING, NOW - 3600, 3, 3, batch_at=NOW - 3600)}
    paused, names = (["gone"], ["well", "gone"]) if hold == "paused" else ([], ["well"])
    decision = decided(runners, whole, paused, rules=rules_of(*names))
    turned = {each.pool: each.after for each in decision.fuse_changes}
    assert turned[ALL_POOLS].reason is FuseReason.POOLS_STOPPED


def test_a_batch_that_other_pools_prove_is_proven_though_one_pool_waits_alone():
    """That the losses which are left belong to pools that wait alone is a reason to close, not to go on."""
    acted_on = {"granted_at": NOW - 60, "removed_at": NOW - 60, "replaced_at": NOW - 60}
    runners = [
        *(lost(each, **GONE) for each in range(1, 5)),
        *(lost(each, **acted_on, **WELL) for each in range(5, 8)),
        *(online(each, first_seen=NOW - 30, **WELL) for each in range(100, 103)),
        *(lost(each, **WELL) for each in range(10, 60)),
    ]
    whole = {ALL_POOLS: Fuse(Position.PROVING, NOW - 61, 3, 3, batch_at=NOW - 61)}
    decision = decided(runners, whole, ["gone"], rules=rules_of("well", "gone"))
    turned = {each.pool: each.after for each in decision.fuse_changes}
    assert turned[ALL_POOLS].reason is FuseReason.BATCH_ONLINE


@pytest.mark.parametrize("name", ["#1", "*1", "gone"])
def test_whatever_its_name_a_pool_is_not_all_pools(name):
    labels = {"labels": (name,), "custom_labels": (name,)}
    runners = [lost(1, **labels), *(online(each, **WELL) for each in range(100, 110))]
    assert decided(runners, rules=rules_of("well")).plan == Plan((), {1: Deferral.NO_POOL})
    own = proving(batch=1, allowed=0)
    assert decided(runners, {name: own}, rules=rules_of("well", name)).plan.deferred == {1: Deferral.FUSE_PROVING}
    without_runners = decided(runners[1:], {name: own}, rules=rules_of("well"))
    assert [each.pool for each in without_runners.fuse_changes] == [name]


def test_the_installations_fuse_is_healed_once_no_pool_has_a_loss_that_waits():
    done = lost(1, confirmed_at=NOW - 310, granted_at=NOW - 301, removed_at=NOW - 301, replaced_at=NOW - 301, **WELL)
    whole = {ALL_POOLS: Fuse(Position.PROVING, NOW - 302, 1, 1, batch_at=NOW - 302)}
    decision = decided([done, online(500, first_seen=NOW - 100, **WELL)], whole, rules=rules_of("well", "gone"))
    assert [(each.pool, each.after.reason) for each in decision.fuse_changes] == [(ALL_POOLS, FuseReason.HEALED)]


@pytest.mark.parametrize(("returned_at", "granted"), [(NOW - 600 + MICROSECOND, ()), (NOW - 600, (10, 11))])
def test_a_lost_runner_that_returned_in_a_paused_pool_holds_the_installations_next_batch_for_a_window(
    returned_at, granted
):
    runners = [
        online(1, was_lost=True, back_at=returned_at, **GONE),
        lost(2, granted_at=NOW - 301, removed_at=NOW - 301, replaced_at=NOW - 301, **WELL),
        online(500, first_seen=NOW - 100, **WELL),
        *(lost(each, **WELL) for each in range(10, 60)),
    ]
    whole = {ALL_POOLS: Fuse(Position.PROVING, NOW - 900, 1, 1, batch_at=NOW - 900)}
    decision = decided(runners, whole, ["gone"], rules=rules_of("well", "gone"))
    assert decision.plan.chosen == granted


def test_pools_that_the_configuration_does_not_name_are_replaced_where_it_names_none():
    rules = []
    decision_inputs = DecisionInputs(survey(), NOW)
    pools = by_pool([lost(1, **GONE), online(2, **GONE)], survey(), rules, NOW, Limits())
    decision = decide(pools, {}, (), rules, FuseLimits(), RemediationLimits(mode="act"), decision_inputs)
    assert decision.plan.chosen == (1,)


def waiting_for_acceptance(granted_at):
    return [lost(each, removed_at=granted_at, granted_at=granted_at) for each in (1, 2, 3)] + [lost(9), online(100)]


@pytest.mark.parametrize(
    ("paused", "held_at", "stops"),
    [((), None, True), ((POOL,), None, False), ((), NOW - 300, False), ((), NOW - 300 - MICROSECOND, True)],
    ids=["nothing holds it", "a pause holds it", "a pause held it until just now", "a pause ended long enough ago"],
)
def test_a_request_that_a_pause_holds_back_is_not_one_that_is_refused(paused, held_at, stops):
    fuse = Fuse(Position.PROVING, NOW - 4000, 3, 3, batch_at=NOW - 4000, held_at=held_at)
    decision = decided(waiting_for_acceptance(NOW - 4000), {POOL: fuse}, paused)
    positions = {each.pool: each.after.position for each in decision.fuse_changes}
    assert (positions.get(POOL) is Position.STOPPED) is stops


def test_while_a_pool_is_paused_its_fuse_keeps_the_time():
    fuse = Fuse(Position.PROVING, NOW - 4000, 3, 3, batch_at=NOW - 4000)
    (turn,) = decided(waiting_for_acceptance(NOW - 4000), {POOL: fuse}, [POOL]).fuse_changes
    assert (turn.after.held_at, has_stepped(turn.before, turn.after)) == (NOW, False)


@pytest.mark.parametrize(
    ("position", "held_at"),
    [(Position.PROVING, NOW), (Position.CLOSED, None), (Position.STOPPED, None)],
    ids=lambda each: str(getattr(each, "value", "")),
)
def test_in_dry_run_the_installations_fuse_keeps_the_time_while_it_proves(position, held_at):
    whole = Fuse(position, NOW - 4000, 3, 3, batch_at=NOW - 4000)
    decision = decided(waiting_for_acceptance(NOW - 4000), {ALL_POOLS: whole}, limits=RemediationLimits(mode="dry-run"))
    after = {each.pool: each.after.held_at for each in decision.fuse_changes}
    assert after.get(ALL_POOLS) == held_at


def test_a_fuse_stopped_for_requests_that_were_not_accepted_goes_on_when_one_is():
    fuse = Fuse(
        Position.STOPPED, NOW - 4000, 3, 3, reason=FuseReason.REQUEST_NOT_ACCEPTED, batch_at=NOW - 4000, stopped_at=NOW
    )
    assert decided(waiting_for_acceptance(NOW - 4000), {POOL: fuse}).fuse_changes == ()
    accepted = [
        each._replace(replaced_at=NOW - 1) if each.id == 1 else each for each in waiting_for_acceptance(NOW - 4000)
    ]
    (turn,) = decided(accepted, {POOL: fuse}).fuse_changes
    assert (turn.after.position, turn.after.reason) == (Position.PROVING, FuseReason.REQUEST_ACCEPTED)


@pytest.mark.parametrize(
    ("came", "goes_on"),
    [(3600.0, True), (3600.0 + MICROSECOND, False)],
    ids=["an hour later", "after more than an hour"],
)
def test_a_fuse_stopped_without_successors_goes_on_when_one_comes_within_an_hour(came, goes_on):
    accepted_at = NOW - 4000
    steps = {"granted_at": accepted_at, "removed_at": accepted_at, "replaced_at": accepted_at}
    fuse = Fuse(Position.STOPPED, accepted_at, 3, 3, reason=FuseReason.BATCH_NEVER_ONLINE, stopped_at=NOW - 3000)
    runners = [*(lost(each, **steps) for each in (1, 2, 3)), *(lost(each) for each in range(10, 40))]
    late = online(100, first_seen=accepted_at + came)
    turned = {each.pool: each.after for each in decided([*runners, late], {POOL: fuse}).fuse_changes}
    if goes_on:
        assert (turned[POOL].position, turned[POOL].batch, turned[POOL].stopped_at) == (Position.PROVING, 2, None)
    else:
        assert POOL not in turned


AGAIN = {"removed_at": NOW - 60, "granted_at": NOW - 60, "replaced_at": NOW - 60}


@pytest.mark.parametrize(
    "end",
    [{"reregistered_as": 900}, {"retired_at": NOW - 10}],
    ids=["registered again under its name", "removed on purpose"],
)
def test_an_accepted_request_counts_for_its_batch_whatever_becomes_of_the_runner(end):
    """Else the batch would have room again, for as long as machines register again under their names."""
    fuse = Fuse(Position.PROVING, NOW - 61, 3, 3, batch_at=NOW - 61)
    runners = [lost(each, **AGAIN, **end) for each in (1, 2, 3)] + [lost(each) for each in range(10, 50)]
    assert decided(runners, {POOL: fuse}).plan.chosen == ()


def test_machines_that_a_controller_registers_again_under_their_names_are_successors():
    fuse = Fuse(Position.PROVING, NOW - 61, 3, 3, batch_at=NOW - 61)
    again = [lost(each, **AGAIN, reregistered_as=900 + each) for each in (1, 2, 3)]
    came = [online(900 + each, name=f"linux-{each}", first_seen=NOW - 20) for each in (1, 2, 3)]
    decision = decided([*again, *came, *(lost(each) for each in range(10, 50))], {POOL: fuse})
    assert (decision.fuse_changes[0].after.batch, len(decision.plan.chosen)) == (6, 6)


@pytest.mark.parametrize(
    "job", [{}, {"job_id": 7, "job_ended_at": NOW - 7200}], ids=["never had a job", "had one long ago"]
)
@pytest.mark.parametrize("ephemeral", [False, None], ids=["persistent", "not reported"])
def test_machines_that_register_again_by_themselves_prove_no_batch(job, ephemeral):
    fuse = Fuse(Position.PROVING, NOW - 500, 3, 3, batch_at=NOW - 500)
    steps = {"removed_at": NOW - 450, "granted_at": NOW - 450, "replaced_at": NOW - 450}
    barren = [lost(each, **steps) for each in (1, 2, 3)]
    left = [
        lost(each, ephemeral=ephemeral, reregistered_as=900 + each, absent_since=NOW - 20, first_404_at=None, **job)
        for each in (10, 11, 12)
    ]
    came = [online(900 + each, name=f"linux-{each}", first_seen=NOW - 20) for each in (10, 11, 12)]
    (turn,) = decided([*barren, *left, *came, *(lost(each) for each in range(20, 50))], {POOL: fuse}).fuse_changes
    assert turn.after.reason is FuseReason.BATCH_NEVER_ONLINE


@pytest.mark.parametrize("back", [30.0, 300.0, 3600.0, 365 * 86_400.0])
def test_grants_count_although_the_clock_was_set_back(back):
    """Redis failed over to a machine with another time: the fuse and its grants are dated in the future."""
    fuse = Fuse(Position.PROVING, NOW + back - 60, 3, 3, batch_at=NOW + back - 60)
    steps = {"removed_at": NOW + back - 50, "granted_at": NOW + back - 50, "replaced_at": NOW + back - 50}
    before = [lost(each, **steps) for each in (1, 2, 3)]
    decision = decided([*before, *(lost(each) for each in range(10, 50))], {POOL: fuse})
    assert decision.plan.chosen == ()
    fuse = next((each.after for each in decision.fuse_changes), fuse)
    assert (fuse.since or 0.0) <= max(NOW, NOW + back - 60)
    later = [
        each._replace(granted_at=NOW + 1, removed_at=NOW + 1) if each.id == 10 else each
        for each in [*before, *(lost(each) for each in range(10, 50))]
    ]
    assert decided(later, {POOL: fuse}).plan.chosen == ()


def test_a_pool_that_is_split_has_its_fuse_twice():
    tripped = decided(fleet(50)).fuse_changes[0].after
    gpu = {"labels": ("gpu",), "custom_labels": ("gpu",)}
    moved = [each._replace(**gpu) if 1 < each.id <= 40 else each for each in fleet(50)]
    split = decided(moved, {POOL: tripped}, rules=rules_of(POOL, "gpu"))
    turned = {each.pool: each.after for each in split.fuse_changes}
    assert {pool: each.position for pool, each in turned.items() if pool != ALL_POOLS} == {
        POOL: Position.PROVING,
        "gpu": Position.PROVING,
    }


def test_a_fuse_of_a_pool_without_runners_closes():
    fuses = {"gone": Fuse(Position.STOPPED, NOW - 4000, 3, 3, stopped_at=NOW - 601), "other": proving()}
    turned = {each.pool: each.after.position for each in decided([online(1)], fuses).fuse_changes}
    assert turned == {"gone": Position.CLOSED, "other": Position.CLOSED}


def test_a_fuse_follows_its_runners_when_their_pool_is_renamed():
    """Another name would give a false mass loss another first batch."""
    tripped = decided(fleet(50)).fuse_changes[0].after
    assert tripped.runners == tuple(range(1, 51))
    granted = [
        each._replace(granted_at=NOW, removed_at=NOW, replaced_at=NOW) if each.id <= 3 else each for each in fleet(50)
    ]
    renamed = decided(granted, {POOL: tripped}, rules=[Rule(name="renamed")])
    turned = {each.pool: (each.before, each.after.position, each.after.reason) for each in renamed.fuse_changes}
    assert turned[POOL] == (tripped, Position.CLOSED, FuseReason.POOL_CHANGED)
    assert turned["renamed"] == (None, Position.PROVING, FuseReason.MASS_LOSS)
    assert renamed.plan.chosen == ()


def test_a_fuse_follows_what_was_granted_since_it_tripped():
    fuse = Fuse(Position.PROVING, since=NOW - 3000, batch=3, allowed=3, batch_at=NOW - 3000)
    asked_for = [lost(each, granted_at=NOW - 3000, replaced_at=NOW - 3000) for each in (1, 2, 3)]
    back = [online(each, granted_at=at) for each, at in ((4, NOW - 2000), (5, NOW - 3000), (6, NOW - 3000.1))]
    (change,) = decided([*asked_for, *back], {POOL: fuse}).fuse_changes
    assert change.after.runners == (1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    ("own", "whole", "decides"),
    [
        (Position.CLOSED, Position.CLOSED, Position.CLOSED),
        (Position.PROVING, Position.CLOSED, Position.PROVING),
        (Position.CLOSED, Position.PROVING, Position.PROVING),
        (Position.PROVING, Position.STOPPED, Position.STOPPED),
        (Position.STOPPED, Position.PROVING, Position.STOPPED),
    ],
)
def test_the_stricter_fuse_decides(own, whole, decides):
    assert fuse_of({POOL: Fuse(own), ALL_POOLS: Fuse(whole)}, POOL).position is decides


@pytest.mark.parametrize(("age", "trips"), [(599.0, True), (600.0, False)], ids=["within the window", "a window ago"])
def test_runners_that_may_run_an_unknown_job_count_as_lost_for_one_window(age, trips):
    """Such runners stay suspect for as long as the longest job. A later loss during that time is no mass loss."""
    lost_runners = {"absent_since": NOW - age, "first_404_at": NOW - age, "busy": True, "ephemeral": False}
    unknown = [suspect(each, **lost_runners) for each in range(1, 11)]
    decision = decided([*unknown, lost(50), *(online(each) for each in range(100, 130))])
    assert (POOL in {each.pool for each in decision.fuse_changes}) is trips


def test_reaped_pods_count_as_lost():
    assert decided(fleet(3)).fuse_changes == ()
    ((pool, _, after, counted),) = decided(fleet(3), reaped={POOL: 30}).fuse_changes
    assert (pool, after.position, counted.lost) == (POOL, Position.PROVING, 33)


def test_reaped_pods_of_no_known_pool_count_for_all_pools():
    whole = Fuse(Position.PROVING, since=NOW - 3000, batch=3, allowed=3, batch_at=NOW - 3000)
    asked_for = [lost(each, granted_at=NOW - 3000, replaced_at=NOW - 3000) for each in range(51, 54)]
    changes = decided([*fleet(50), *asked_for], {ALL_POOLS: whole}, reaped={"deleted": 50}).fuse_changes
    (counted,) = [each.counted for each in changes if each.pool == ALL_POOLS]
    assert (counted.lost, counted.expected) == (103, 203)


@pytest.mark.parametrize(
    ("own", "whole", "is_whole"),
    [
        (Position.PROVING, Position.PROVING, True),
        (Position.PROVING, Position.CLOSED, False),
        (Position.CLOSED, Position.PROVING, True),
        (Position.STOPPED, Position.PROVING, False),
        (Position.PROVING, Position.STOPPED, True),
    ],
)
@pytest.mark.parametrize("own_at", [-60, 0, 60])
def test_a_pool_waits_for_the_stricter_fuse_and_for_that_of_all_pools_while_both_prove(own, whole, is_whole, own_at):
    fuses = {POOL: Fuse(own, since=NOW, batch_at=NOW + own_at), ALL_POOLS: Fuse(whole, since=NOW, batch_at=NOW)}
    assert (fuse_of(fuses, POOL) is fuses[ALL_POOLS]) is is_whole


# Runners that are not needed are written off; runners that may be needed are not.

STOPPED = Fuse(Position.STOPPED, since=NOW - 2000, batch=3, allowed=3, stopped_at=NOW - 1200)


def scaled_down(queued, paused=()):
    lost_runners = [
        lost(each, absent_since=NOW - 2000, first_404_at=NOW - 2000, confirmed_at=NOW - 1900) for each in range(1, 41)
    ]
    return decided(
        [*lost_runners, *(online(each) for each in range(100, 110))], {POOL: STOPPED}, paused, jobs=waiting(queued)
    )


def waiting(queued):
    return None if queued is None else KnownJobs(queued)


JOB, OTHER_JOB = KnownJob(frozenset({"self-hosted", POOL})), KnownJob(frozenset({"gpu"}))


def test_a_scale_down_is_written_off_if_no_job_is_queued_for_the_pool():
    decision = scaled_down(queued=[])
    assert decision.not_needed == tuple(range(1, 41))
    assert decision.plan.chosen == ()
    assert [each.after.reason for each in decision.fuse_changes] == [FuseReason.NOT_NEEDED]


def test_a_scale_down_is_written_off_while_jobs_of_other_pools_are_queued():
    assert scaled_down(queued=[OTHER_JOB]).not_needed == tuple(range(1, 41))


@pytest.mark.parametrize(
    ("queued", "paused"),
    [
        ([JOB], ()),
        ([KnownJob(frozenset({POOL}))], ()),
        ([KnownJob(frozenset(each.lower() for each in lost().labels))], ()),
        (None, ()),
        ([], (POOL,)),
    ],
    ids=[
        "a queued job",
        "a queued job with fewer labels",
        "a queued job with all of their labels",
        "queued jobs unknown",
        "a paused pool",
    ],
)
def test_runners_that_may_be_needed_are_not_written_off(queued, paused):
    decision = scaled_down(queued, paused)
    assert (decision.fuse_changes, decision.not_needed) == ((), ())


@pytest.mark.parametrize(
    ("fuses", "rules", "paused"),
    [
        ({POOL: STOPPED}, (POOL, "gpu"), ()),
        ({}, ("gpu",), ()),
        ({}, (POOL, "gpu"), (POOL,)),
    ],
    ids=["its own fuse is stopped", "not configured", "paused"],
)
def test_the_installations_fuse_writes_off_no_runner_of_a_pool_that_waits_alone(fuses, rules, paused):
    """The installation's fuse does not count that pool, so the jobs queued for the pool are unknown to it."""
    old = {"absent_since": NOW - 2000, "first_404_at": NOW - 2000, "confirmed_at": NOW - 1900}
    gpu = {"labels": ("gpu",), "custom_labels": ("gpu",)}
    runners = [lost(1, **old), lost(2, **old, **gpu), online(100), online(101, **gpu)]
    fuses = {**fuses, ALL_POOLS: STOPPED}
    assert decided(runners, fuses, paused, rules_of(*rules), jobs=waiting([JOB])).not_needed == (2,)


@pytest.mark.parametrize(
    ("changes", "needed"),
    [
        ({}, (1, 2)),
        ({"queued": [JOB]}, (1,)),
        ({"queued": [OTHER_JOB] * 2}, ()),
        ({"queued": []}, ()),
        ({"queued": None}, ()),
        ({"others": [online(50)]}, (1,)),
        ({"others": [online(50, busy=True)]}, (1, 2)),
        ({"others": [lost(50, granted_at=NOW, replaced_at=NOW)]}, (1,)),
        ({"others": [lost(50, granted_at=NOW - 300, replaced_at=NOW - 300)]}, (1, 2)),
        ({"others": [lost(50)]}, (1,)),
        ({"paused": [POOL]}, ()),
    ],
    ids=[
        "a job for each of two",
        "one job",
        "jobs of another pool",
        "no job",
        "queued jobs unknown",
        "an idle runner takes one",
        "a busy runner takes none",
        "the successor of another loss takes one",
        "a successor that never came takes none",
        "another loss waits",
        "a paused pool",
    ],
)
def test_written_off_losses_return_when_jobs_wait_for_them(changes, needed):
    """Machines lost at night while their controller was away, and jobs in the morning."""
    others, paused, queued = changes.get("others", []), changes.get("paused", ()), changes.get("queued", [JOB, JOB])
    written_off = [lost(each, confirmed_at=NOW - 9000 + each, not_needed_at=NOW - 8000) for each in (1, 2, 3)]
    assert decided([*written_off, *others], paused=paused, jobs=waiting(queued)).needed == needed


def test_a_pool_whose_fuse_a_person_changed_meanwhile_is_not_written_off():
    assert scaled_down(queued=[]).without([POOL]).not_needed == ()


@pytest.mark.parametrize(
    ("age", "flow"), [(86_400.0 - MICROSECOND, True), (86_400.0, False)], ids=["within a day", "a day ago"]
)
def test_deliveries_flow_if_a_runner_had_a_delivery_within_a_day(age, flow):
    assert deliveries_flow([online(), online(2, last_delivery_at=NOW - age)], NOW) is flow


def test_per_sweep_limits_all_plans_since_the_last_list():
    granted = [lost(each, granted_at=NOW) for each in range(1, 21)]
    waiting = [lost(each) for each in range(101, 121)]
    all_runners = [*granted, *waiting, *(online(each) for each in range(1000, 2000))]
    assert len(decided(all_runners).plan.chosen) == 5
    assert len(decided(all_runners, survey=survey(swept_at=NOW + 1)).plan.chosen) == 20


def test_a_lost_runner_whose_job_was_reported_later_is_not_planned():
    reported = lost(1, job_id=9, job_started_at=NOW)
    assert decided([reported, *fleet(0)]).plan.chosen == ()


def at_rest(*runners, rule=None):
    return are_at_rest(runners, survey(), [rule or Rule()], NOW, Limits())


@pytest.mark.parametrize(
    "runner",
    [
        online(1),
        online(1, busy=True),
        online(1, was_online=False),
        online(1, registered=False),
        present(1, state="offline"),
        present(1, offline_since=NOW - 300),
        suspect(1, ephemeral=True, job_id=5, job_started_at=NOW - 90, job_ended_at=NOW - 70),
        suspect(1, retired_at=NOW - 60),
    ],
    ids=[
        "online",
        "busy",
        "never online",
        "known from deliveries",
        "offline, and published so",
        "offline for no longer than offline_seconds",
        "its only job ended",
        "removed by its controller",
    ],
)
def test_a_fleet_that_gives_a_plan_nothing_to_do_is_at_rest(runner):
    assert at_rest(runner, online(2))
    decision = decided([runner, online(2)])
    assert (decision.fuse_changes, decision.plan, decision.not_needed) == ((), Plan(), ())


@pytest.mark.parametrize(
    "runner",
    [
        suspect(1),
        suspect(1, first_404_at=None),
        suspect(1, retired_at=NOW - 60, state="offline"),
        present(1),
        present(1, offline_since=NOW - 300 - MICROSECOND),
        online(1, state="offline"),
        lost(1),
        online(1, granted_at=NOW),
        online(1, removed_at=NOW),
        online(1, past_loss=PastLoss(NOW, NOW)),
        present(1, state="offline", granted_at=NOW),
        suspect(1, retired_at=NOW - 60, confirmed_at=NOW - 70),
    ],
    ids=[
        "a GET answered 404",
        "a list lacked it",
        "retired, and published as offline",
        "offline, and not published so",
        "offline for longer than offline_seconds",
        "online, and published as offline",
        "lost",
        "granted",
        "removed",
        "back, and its loss is not recorded",
        "offline and granted",
        "lost, then removed by its controller",
    ],
)
def test_a_fleet_with_one_runner_that_a_plan_may_change_is_not_at_rest(runner):
    assert not at_rest(online(2), runner, online(3))


@pytest.mark.parametrize(("seconds", "pool"), [(86_400, POOL), (86_400, "another"), (None, POOL)])
def test_an_offline_runner_is_not_at_rest_where_offline_runners_are_replaced(seconds, pool):
    rule = Rule(name=pool, labels=(pool,), replace_offline_after_seconds=seconds)
    assert at_rest(present(1, state="offline"), rule=rule) is (seconds is None or pool != POOL)


def test_a_pool_that_was_written_off_before_is_not_written_off_again_while_its_requests_are_held():
    """A held request changes what the fuse remembers, and is no change of its position."""
    closed = Fuse(closed_at=NOW - 7200, reason=FuseReason.NOT_NEEDED)
    whole = Fuse(Position.PROVING, NOW - 60, 3, 3, batch_at=NOW - 60)
    fuses = {POOL: closed, ALL_POOLS: whole}
    decision = decided([lost(1), *fleet(50)[:20]], fuses, limits=RemediationLimits(mode="dry-run"), jobs=waiting([JOB]))
    assert decision.not_needed == ()
