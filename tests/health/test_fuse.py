"""The fuse: thresholds at their exact boundaries, and whole stories against a small pool that lives."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ghapp.health.fuse import Fuse, FuseLimits, FuseReason, Position, Tally, resume, room, tally, threshold, turn
from ghapp.health.plan import Candidate, PoolLeave, RemediationLimits, plan
from ghapp.health.seen import registration_seen
from ghapp.health.verdict import Limits, State, judge

from .builders import LONG_AGO, MICROSECOND, NOW, lost, mass_loss, online, proving, registration, survey, suspect

LIMITS = FuseLimits()
SWEEP = 60.0


class Pool:
    """A pool that is swept every minute, its fuse, and a replacer whose runners come online a sweep later, or never."""

    def __init__(self, *evidence, replacer_works=True):
        self.runners = {each.id: each for each in evidence}
        self.fuse = Fuse()
        self.now = NOW
        self.replacer_works = replacer_works
        self.batches: list[int] = []

    def lose(self, count):
        for each in range(count):
            runner_id = 1 + max(self.runners, default=0)
            gone = lost(runner_id, confirmed_at=self.now - 1 + each * MICROSECOND)
            self.runners[runner_id] = gone

    def come_back(self, *ids):
        for each in ids:
            shown = registration(id=each, online=True)
            self.runners[each] = registration_seen(self.runners[each], shown, self.now, listed=True)

    def tally(self):
        states = [
            (each, judge(each, survey(swept_at=self.now), self.now, Limits()).state) for each in self.runners.values()
        ]
        return tally(states, self.fuse, self.now, LIMITS), states

    def sweep(self):
        """One sweep: turn the fuse, act as far as it lets, wait a minute. Answers how many were acted on."""
        counted, states = self.tally()
        self.fuse = turn(self.fuse, counted, self.now, LIMITS)
        waiting = [
            Candidate(each.id, "linux", each.confirmed_at)
            for each, state in states
            if state is State.INVALIDATED and each.granted_at is None
        ]
        leave = PoolLeave(room(self.fuse, counted), stopped=self.fuse.position is Position.STOPPED)
        decided = plan(waiting, {"linux": leave}, RemediationLimits())
        for each in decided.now:
            self.runners[each] = self.runners[each]._replace(granted_at=self.now, replaced_at=self.now)
        if decided.now:
            self.batches.append(len(decided.now))
        self.now += SWEEP
        if self.replacer_works:
            for _ in decided.now:
                runner_id = 1 + max(self.runners)
                self.runners[runner_id] = online(runner_id, first_seen=self.now - 1, observed_at=self.now)
        return len(decided.now)

    def sweep_until(self, position, at_most=50):
        for _ in range(at_most):
            self.sweep()
            if self.fuse.position is position:
                return
        pytest.fail(f"the fuse is {self.fuse} after {at_most} sweeps")


def test_two_hundred_truly_lost_heal_in_doubling_batches():
    pool = Pool()
    pool.lose(200)
    pool.sweep()
    assert (pool.fuse.position, pool.fuse.reason) == (Position.PROVING, FuseReason.MASS_LOSS)
    pool.sweep_until(Position.CLOSED)
    assert pool.batches == [3, 6, 12, 24, 48, 96, 11]
    assert pool.fuse.reason is FuseReason.HEALED
    assert len(pool.runners) == 400


def test_replacements_that_never_come_online_stop_it_after_the_first_batch():
    pool = Pool(replacer_works=False)
    pool.lose(200)
    pool.sweep_until(Position.STOPPED)
    assert pool.fuse.reason is FuseReason.BATCH_NEVER_ONLINE
    assert [pool.sweep() for _ in range(100)] == [0] * 100
    assert pool.batches == [3]
    assert pool.fuse.position is Position.STOPPED


def test_a_second_batch_that_never_comes_online_stops_it_too():
    pool = Pool()
    pool.lose(200)
    pool.sweep()
    pool.replacer_works = False
    pool.sweep_until(Position.STOPPED)
    assert pool.batches == [3, 6]


def test_a_person_resumes_a_stopped_one_and_it_heals():
    pool = Pool(replacer_works=False)
    pool.lose(20)
    pool.sweep_until(Position.STOPPED)
    pool.replacer_works = True
    pool.fuse = resume(pool.fuse, pool.now, LIMITS)
    assert (pool.fuse.position, pool.fuse.reason) == (Position.PROVING, FuseReason.RESUMED)
    pool.sweep_until(Position.CLOSED)
    assert pool.batches == [3, 3, 6, 8]


def test_registrations_that_return_put_it_out_and_on_watch():
    pool = Pool(replacer_works=False)
    pool.lose(200)
    pool.sweep()
    pool.come_back(*range(1, 201))
    pool.sweep()
    assert (pool.fuse.position, pool.fuse.reason) == (Position.CLOSED, FuseReason.REGISTRATIONS_RETURNED)
    assert pool.batches == [3]
    pool.lose(1)
    pool.sweep()
    assert (pool.fuse.position, pool.fuse.reason) == (Position.PROVING, FuseReason.LOSS_ON_WATCH)


def test_when_a_few_of_many_return_the_others_are_not_let_through_at_once():
    pool = Pool(replacer_works=False)
    pool.lose(200)
    pool.sweep()
    pool.come_back(200)
    assert pool.sweep() == 0
    assert pool.fuse.position is Position.CLOSED
    assert pool.sweep() == 3
    assert pool.fuse.position is Position.PROVING


def test_what_still_waits_trips_it_again_though_sweeps_failed_until_the_watch_was_over():
    pool = Pool(replacer_works=False)
    pool.lose(200)
    pool.sweep()
    pool.come_back(200)
    pool.sweep()
    pool.now += LIMITS.cooldown_seconds
    assert pool.sweep() == 3
    assert (pool.fuse.position, pool.fuse.reason) == (Position.PROVING, FuseReason.MASS_LOSS)


def test_a_runner_that_was_back_before_it_tripped_does_not_put_it_out():
    pool = Pool(online(1, back_at=NOW))
    pool.lose(200)
    pool.sweep()
    pool.sweep()
    assert pool.fuse.position is Position.PROVING


def test_runners_first_seen_by_the_sweep_that_tripped_it_prove_nothing():
    pool = Pool(*(online(each, first_seen=NOW) for each in range(1, 51)), replacer_works=False)
    pool.lose(50)
    pool.sweep_until(Position.STOPPED)
    assert pool.batches == [3]


def test_ephemeral_runners_coming_and_going_are_no_proof():
    pool = Pool(*(online(each, ephemeral=True, job_id=each) for each in range(1, 51)), replacer_works=False)
    pool.lose(50)
    pool.sweep()
    for each in range(1, 21):
        pool.runners[each] = pool.runners[each]._replace(absent_since=pool.now, job_ended_at=pool.now)
        pool.runners[1000 + each] = online(1000 + each, ephemeral=True, first_seen=pool.now - 1)
    pool.sweep_until(Position.STOPPED)
    assert pool.batches == [3]


def test_nothing_granted_and_nothing_waiting_heals_though_others_departed():
    assert turn(proving(), Tally(departed=9), NOW + 60, LIMITS) == Fuse(healed_at=NOW + 60, reason=FuseReason.HEALED)


def test_few_losses_are_replaced_at_once():
    pool = Pool(*(online(each) for each in range(1, 101)))
    pool.lose(19)
    assert pool.sweep() == 19
    assert pool.fuse == Fuse()


@pytest.mark.parametrize(
    ("expected", "trips_at"),
    [(0, 3), (1, 3), (2, 3), (3, 3), (15, 3), (16, 4), (20, 4), (21, 5), (100, 20), (101, 21), (200, 40)],
)
def test_the_threshold_is_the_fraction_and_never_below_the_floor(expected, trips_at):
    assert threshold(expected, LIMITS) == trips_at


@pytest.mark.parametrize(("percent", "expected", "trips_at"), [(7, 100, 7), (7, 101, 8), (14, 50, 7), (100, 9, 9)])
def test_the_threshold_is_not_raised_by_floating_point(percent, expected, trips_at):
    assert threshold(expected, FuseLimits(fraction=percent / 100)) == trips_at


@given(st.integers(0, 10_000), st.integers(1, 100))
def test_the_threshold_is_exact_for_every_percentage(expected, percent):
    assert threshold(expected, FuseLimits(fraction=percent / 100)) == max(3, -(-percent * expected // 100))


@pytest.mark.parametrize(
    ("size", "gone", "position"),
    [
        (1, 1, Position.CLOSED),
        (2, 2, Position.CLOSED),
        (3, 2, Position.CLOSED),
        (3, 3, Position.PROVING),
        (15, 2, Position.CLOSED),
        (15, 3, Position.PROVING),
        (16, 3, Position.CLOSED),
        (16, 4, Position.PROVING),
    ],
)
def test_pools_of_every_size_trip_at_their_threshold(size, gone, position):
    pool = Pool(*(online(each) for each in range(1, size - gone + 1)))
    pool.lose(gone)
    pool.sweep()
    assert pool.fuse.position is position


def test_suspects_with_a_404_count_before_the_first_loss_is_acted_on():
    pool = Pool(*(suspect(each) for each in range(1, 41)))
    pool.lose(1)
    assert pool.sweep() == 1
    assert pool.fuse.position is Position.PROVING


def test_suspects_count_before_anyone_asked_for_them_alone():
    pool = Pool(*(suspect(each, missing_at=None) for each in range(1, 41)))
    assert pool.tally()[0].lost == 40


def test_a_fuse_does_not_trip_while_there_is_nothing_to_act_on():
    assert turn(Fuse(), mass_loss(waiting=0), NOW, LIMITS) == Fuse()


@pytest.mark.parametrize(
    ("age", "counted"),
    [(600.0 - MICROSECOND, 1), (600.0, 0)],
    ids=["just within window_seconds", "at window_seconds"],
)
def test_a_loss_counts_for_window_seconds(age, counted):
    old = lost(confirmed_at=NOW - age)
    assert tally([(old, State.INVALIDATED)], Fuse(), NOW, LIMITS).lost == counted


def test_replacements_do_not_make_a_pool_larger():
    replaced = [lost(each, granted_at=NOW, replaced_at=NOW) for each in range(1, 4)]
    pool = Pool(*replaced, *(online(each) for each in range(4, 7)))
    assert pool.tally()[0].expected == 3


@pytest.mark.parametrize(
    ("after", "position"),
    [(300.0 - MICROSECOND, Position.PROVING), (300.0, Position.CLOSED)],
    ids=["just within cooldown_seconds", "at cooldown_seconds"],
)
def test_a_healed_fuse_is_on_watch_for_cooldown_seconds(after, position):
    healed = Fuse(healed_at=NOW)
    one = Tally(lost=1, expected=100, waiting=1)
    assert turn(healed, one, NOW + after, LIMITS).position is position


@pytest.mark.parametrize(
    ("changes", "after", "position", "allowed"),
    [
        ({"accepted": 3, "accepted_at": NOW}, 300.0, Position.PROVING, 3),
        ({"accepted": 3, "accepted_at": NOW}, 300.0 + MICROSECOND, Position.STOPPED, 3),
        ({"accepted": 3, "accepted_at": NOW, "newcomers": 2}, 301.0, Position.STOPPED, 3),
        ({"accepted": 3, "accepted_at": NOW, "newcomers": 3}, 301.0, Position.PROVING, 9),
        ({"accepted": 3, "accepted_at": NOW, "newcomers": 3, "departed": 1}, 299.0, Position.PROVING, 3),
        ({"accepted": 2, "accepted_at": NOW, "newcomers": 2}, 9999.0, Position.PROVING, 3),
        ({"accepted": 3, "accepted_at": NOW, "returned": 1}, 301.0, Position.CLOSED, 0),
    ],
    ids=[
        "at prove_seconds",
        "a microsecond later",
        "one is not online",
        "all are online",
        "a newcomer of a departed one",
        "a request is not accepted",
        "one returned",
    ],
)
def test_a_batch_is_proven_within_prove_seconds_of_its_last_request(changes, after, position, allowed):
    turned = turn(proving(), mass_loss(waiting=197, granted=3, **changes), NOW + after, LIMITS)
    assert (turned.position, turned.allowed) == (position, allowed)


@pytest.mark.parametrize(
    ("fuse", "granted", "lets"),
    [
        (Fuse(), 0, None),
        (proving(), 0, 3),
        (proving(), 3, 0),
        (proving(allowed=9, batch=6), 3, 6),
        (proving(), 4, 0),
        (proving(position=Position.STOPPED), 0, 0),
    ],
    ids=["closed", "first batch", "all given", "second batch", "more than given", "stopped"],
)
def test_the_room_is_what_the_batches_leave(fuse, granted, lets):
    assert room(fuse, mass_loss(granted=granted)) == lets


def test_a_closed_fuse_needs_no_resuming():
    fuse = Fuse(healed_at=NOW)
    assert resume(fuse, NOW + 60, LIMITS) is fuse


def test_a_stopped_fuse_does_not_turn_by_itself():
    stopped = proving(position=Position.STOPPED)
    assert turn(stopped, Tally(returned=9, newcomers=200), NOW + 10**6, LIMITS) is stopped


def test_a_resumed_fuse_forgets_what_was_granted_before():
    before = lost(granted_at=LONG_AGO, replaced_at=LONG_AGO)
    fuse = resume(proving(position=Position.STOPPED, since=LONG_AGO), NOW, LIMITS)
    counted = tally([(before, State.INVALIDATED)], fuse, NOW, LIMITS)
    assert (counted.granted, room(fuse, counted)) == (0, 3)


@settings(max_examples=60)
@given(size=st.integers(1, 120), gone=st.integers(1, 120), sweeps=st.integers(1, 15))
def test_at_most_the_first_batch_goes_unproven(size, gone, sweeps):
    """Whatever the pool's size: at or above its threshold, only first_batch; below it, fewer than the threshold."""
    pool = Pool(*(online(each) for each in range(1, size + 1)), replacer_works=False)
    pool.lose(gone)
    acted = sum(pool.sweep() for _ in range(sweeps))
    trips_at = threshold(size + gone, LIMITS)
    assert acted <= (LIMITS.first_batch if gone >= trips_at else trips_at - 1)


@given(gone=st.integers(3, 400))
@settings(max_examples=30)
def test_a_true_mass_loss_always_heals_in_logarithmic_rounds(gone):
    pool = Pool()
    pool.lose(gone)
    pool.sweep_until(Position.CLOSED)
    assert sum(pool.batches) == gone
    assert len(pool.batches) <= (gone // 3 + 1).bit_length()
    assert all(later <= 2 * earlier for earlier, later in zip(pool.batches, pool.batches[1:], strict=False))


COUNTS = st.integers(0, 50)
TALLIES = st.builds(Tally, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS, st.none() | st.just(NOW), COUNTS, COUNTS, COUNTS)


@given(st.sampled_from(Position), TALLIES, st.floats(0, 10**6))
def test_turning_is_total_and_no_batch_is_more_than_doubled(position, counted, after):
    fuse = replace(proving(), position=position)
    turned = turn(fuse, counted, NOW + after, LIMITS)
    assert turned.batch <= max(LIMITS.first_batch, 2 * fuse.batch)
    let = room(turned, counted)
    assert let is None or 0 <= let <= turned.allowed
