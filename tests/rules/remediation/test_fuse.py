"""The fuse: thresholds at their exact boundaries, and whole scenarios with a small simulated pool."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ghapp.remediation.fuse import (
    FORGOTTEN_SECONDS,
    Fuse,
    FuseCounts,
    FuseLimits,
    FuseReason,
    Position,
    is_long_closed,
    is_not_needed,
    next_fuse,
    open_since,
    resume,
    resume_command,
    room,
    threshold,
)
from ghapp.remediation.fuse_counts import combined, fuse_counts
from ghapp.remediation.job_proof import KnownJob, KnownJobs
from ghapp.remediation.plan import Candidate, PoolCapacity, RemediationLimits, plan
from ghapp.runners.absence import RunnerList, survey_after, survey_after_failure
from ghapp.runners.evidence import Survey
from ghapp.runners.observations import SeenBy, not_needed, registration_seen, replaced
from ghapp.runners.verdict import Limits, Reason, State, judge
from tests.rules.builders import (
    LONG_AGO,
    MICROSECOND,
    NOW,
    lost,
    mass_loss,
    online,
    present,
    proving,
    registration,
    survey,
    suspect,
)

LIMITS = FuseLimits()
SWEEP = 60.0


class Pool:
    """A pool swept every minute, its fuse, and a replacer whose runners come online one sweep later or never."""

    def __init__(self, *evidence, replacer_works=True):
        self.runners = {each.id: each for each in evidence}
        self.fuse = Fuse()
        self.now = NOW
        self.survey = Survey(swept_at=NOW)
        self.replacer_works = replacer_works
        self.jobs = None
        self.batches: list[int] = []

    def lose(self, count):
        for each in range(count):
            runner_id = 1 + max(self.runners, default=0)
            runner = lost(runner_id, absent_since=self.now - 2, first_404_at=self.now - 2)
            self.runners[runner_id] = runner._replace(confirmed_at=self.now - 1 + each * MICROSECOND)

    def come_back(self, *ids):
        for each in ids:
            shown = registration(id=each, online=True)
            self.runners[each] = registration_seen(self.runners[each], shown, self.now, by=SeenBy.LIST)

    def vanish(self, *ids):
        for each in ids:
            self.runners[each] = lost(each, last_replaced_at=self.runners[each].last_replaced_at)._replace(
                absent_since=self.now - 2, first_404_at=self.now - 2, confirmed_at=self.now - 1
            )

    def have_a_job_end(self, *ids):
        """The jobs end, so these ephemeral runners leave the list."""
        for each in ids:
            self.runners[each] = self.runners[each]._replace(
                ephemeral=True, job_id=each, job_started_at=LONG_AGO, job_ended_at=self.now, absent_since=self.now
            )

    def newcomer(self, first_seen=None):
        runner_id = 1 + max(self.runners)
        at = self.now - 1 if first_seen is None else first_seen
        self.runners[runner_id] = online(runner_id, ephemeral=True, first_seen=at, observed_at=self.now)

    def tally(self):
        states = [(each, judge(each, self.survey, self.now, Limits()).state) for each in self.runners.values()]
        return fuse_counts(states, self.fuse, self.survey, self.now, LIMITS, jobs=self.jobs), states

    def update_fuse(self):
        """Reads a complete list and updates the fuse."""
        self.survey = survey_after(self.survey, RunnerList({}, 0), self.now)
        counted, states = self.tally()
        self.fuse = next_fuse(self.fuse, counted, self.now, LIMITS)
        return states

    def sweep(self):
        """Runs one sweep: updates the fuse, remediates as far as the fuse allows, waits a minute. Returns the number remediated."""
        before, states = self.fuse, self.update_fuse()
        if self.fuse != before and is_not_needed(self.fuse):
            self.runners = {each: not_needed(evidence, self.now) for each, evidence in self.runners.items()}
            states = self.tally()[1]
        waiting = [
            Candidate(each.id, "linux", each.confirmed_at)
            for each, state in states
            if state is State.INVALIDATED and each.granted_at is None
        ]
        counted, _ = self.tally()
        leave = PoolCapacity(room(self.fuse, counted), stopped=self.fuse.position is Position.STOPPED)
        decided = plan(waiting, {"linux": leave}, RemediationLimits(mode="act"))
        for each in decided.chosen:
            acted_on = self.runners[each]._replace(granted_at=self.now, event_id="e", removed_at=self.now)
            self.runners[each] = replaced(acted_on, self.now)
        if decided.chosen:
            self.batches.append(len(decided.chosen))
        self.now += SWEEP
        if self.replacer_works:
            for _ in decided.chosen:
                self.newcomer()
        return len(decided.chosen)

    def lose_github(self, seconds):
        """GitHub does not answer for `seconds`; the fuse is updated each minute."""
        ends = self.now + seconds
        while self.now < ends:
            self.survey = survey_after_failure(self.survey, Reason.RATE_LIMITED, self.now)
            self.fuse = next_fuse(self.fuse, self.tally()[0], self.now, LIMITS)
            self.now += SWEEP

    def sweep_until(self, position, at_most=50):
        for _ in range(at_most):
            self.sweep()
            if self.fuse.position is position:
                return
        pytest.fail(f"the fuse is {self.fuse} after {at_most} sweeps")


def test_a_loss_of_two_hundred_heals_in_doubling_batches():
    pool = Pool()
    pool.lose(200)
    pool.sweep()
    assert (pool.fuse.position, pool.fuse.reason) == (Position.PROVING, FuseReason.MASS_LOSS)
    pool.sweep_until(Position.CLOSED)
    assert pool.batches == [3, 6, 12, 24, 48, 96, 11]
    assert pool.fuse.reason is FuseReason.HEALED
    assert len(pool.runners) == 400


def test_the_fuse_stops_after_a_first_batch_that_never_comes_online():
    pool = Pool(replacer_works=False)
    pool.lose(200)
    pool.sweep_until(Position.STOPPED)
    assert pool.fuse.reason is FuseReason.BATCH_NEVER_ONLINE
    assert [pool.sweep() for _ in range(100)] == [0] * 100
    assert pool.batches == [3]
    assert pool.fuse.position is Position.STOPPED


def test_the_fuse_stops_after_a_second_batch_that_never_comes_online():
    pool = Pool()
    pool.lose(200)
    pool.sweep()
    pool.replacer_works = False
    pool.sweep_until(Position.STOPPED)
    assert pool.batches == [3, 6]


def test_a_stopped_fuse_heals_after_a_person_resumes_it():
    pool = Pool(replacer_works=False)
    pool.lose(20)
    pool.sweep_until(Position.STOPPED)
    pool.replacer_works = True
    pool.fuse = resume(pool.fuse, pool.now, LIMITS)
    assert (pool.fuse.position, pool.fuse.reason) == (Position.PROVING, FuseReason.RESUMED)
    pool.sweep_until(Position.CLOSED)
    assert pool.batches == [3, 3, 6, 8]


def test_the_fuse_closes_when_all_registrations_return_and_grants_no_second_first_batch():
    pool = Pool(replacer_works=False)
    pool.lose(200)
    pool.sweep()
    pool.come_back(*range(1, 201))
    pool.sweep()
    assert (pool.fuse.position, pool.fuse.reason) == (Position.CLOSED, FuseReason.REGISTRATIONS_RETURNED)
    pool.vanish(*range(1, 201))
    assert [pool.sweep() for _ in range(3)] == [0, 0, 0]
    assert (pool.fuse.position, pool.batches) == (Position.PROVING, [3])


def test_registrations_that_returned_long_ago_do_not_limit_a_new_batch():
    pool = Pool(replacer_works=False)
    pool.lose(200)
    pool.sweep()
    pool.come_back(*range(1, 201))
    while pool.fuse.closed_at is None or pool.now - pool.fuse.closed_at < LIMITS.window_seconds:
        pool.sweep()
    pool.vanish(*range(1, 201))
    assert pool.sweep() == 3


@pytest.mark.parametrize("replacer_works", [True, False])
def test_registrations_that_flap_for_half_an_hour_cost_one_first_batch(replacer_works):
    pool = Pool(replacer_works=replacer_works)
    pool.lose(50)
    for minute in range(30):
        pool.sweep()
        pool.come_back(1 + minute)
        if minute:
            pool.vanish(minute)
    assert sum(pool.batches) == 3
    assert pool.fuse.position is not Position.CLOSED


def test_a_return_closes_a_fuse_and_limits_only_batches_since_its_last_trip():
    pool = Pool(*(suspect(each) for each in range(1, 7)))  # never confirmed: they outlast the healed fuse
    pool.lose(9)
    pool.sweep_until(Position.CLOSED)
    assert (pool.fuse.reason, sum(pool.batches)) == (FuseReason.HEALED, 9)
    pool.now += LIMITS.window_seconds
    pool.runners |= {each: suspect(each, observed_at=pool.now) for each in range(1, 7)}  # still missing from every list
    pool.lose(1)
    tripped_for = max(pool.runners)
    assert (pool.sweep(), pool.fuse.allowed) == (1, 3)
    pool.come_back(tripped_for)
    pool.sweep()
    assert pool.fuse.reason is FuseReason.REGISTRATIONS_RETURNED
    pool.lose(5)
    assert [pool.sweep() for _ in range(3)] == [2, 0, 0]


def test_the_remaining_losses_heal_after_a_window_without_a_return():
    pool = Pool()
    pool.lose(50)
    pool.sweep()
    returned_at = pool.now
    pool.come_back(*range(40, 51))
    while len(pool.batches) < 2:
        pool.sweep()
    assert pool.now - SWEEP - returned_at >= LIMITS.window_seconds
    pool.sweep_until(Position.CLOSED)
    assert sum(pool.batches) == 39
    assert pool.fuse.reason is FuseReason.HEALED


def test_a_return_before_the_fuse_tripped_changes_nothing():
    pool = Pool(online(1, back_at=NOW))
    pool.lose(200)
    pool.sweep()
    pool.sweep()
    pool.sweep()
    assert pool.batches == [3, 6, 12]


def test_runners_first_seen_by_the_tripping_sweep_do_not_prove_a_batch():
    pool = Pool(*(online(each, first_seen=NOW) for each in range(1, 51)), replacer_works=False)
    pool.lose(50)
    pool.sweep_until(Position.STOPPED)
    assert pool.batches == [3]


def test_runners_already_starting_at_the_request_do_not_prove_a_batch():
    """Six jobs had just ended: the pool was already creating six runners, and creates none for the request."""
    pool = Pool(*(online(each) for each in range(1, 51)), replacer_works=False)
    pool.have_a_job_end(*range(1, 7))
    pool.lose(50)
    pool.sweep()
    for _ in range(6):
        pool.newcomer()
    pool.sweep_until(Position.STOPPED)
    assert pool.batches == [3]


def test_successors_of_ephemeral_runners_do_not_prove_a_batch():
    pool = Pool(*(online(each) for each in range(1, 101)), replacer_works=False)
    pool.lose(100)
    for each in range(1, 41, 4):
        pool.have_a_job_end(*range(each, each + 4))
        pool.sweep()
        for _ in range(4):
            pool.newcomer()
        if pool.fuse.position is Position.STOPPED:
            break
    assert pool.fuse.position is Position.STOPPED
    assert pool.batches == [3]


def test_a_pool_with_regular_turnover_heals():
    """Each minute four jobs end and four runners succeed theirs, while the lost runners are replaced."""
    pool = Pool(*(online(each) for each in range(1, 201)))
    pool.lose(100)
    for each in range(1, 161, 4):
        pool.have_a_job_end(*range(each, each + 4))
        pool.sweep()
        for _ in range(4):
            pool.newcomer()
        if pool.fuse.reason is FuseReason.HEALED:
            break
    assert pool.batches == [3, 6, 12, 24, 48, 7]


def test_new_runners_of_an_earlier_batch_do_not_prove_a_later_batch():
    pool = Pool()
    pool.lose(200)
    pool.sweep()
    for _ in range(20):  # a scale-up by another controller, before the second batch is requested
        pool.newcomer()
    pool.replacer_works = False
    pool.sweep_until(Position.STOPPED)
    assert pool.batches == [3, 6]


@pytest.mark.parametrize("seconds", [60, 600, 4 * 3600])
def test_no_batch_fails_while_github_does_not_answer(seconds):
    pool = Pool()
    pool.lose(190)
    pool.sweep()
    pool.lose_github(seconds)
    assert pool.fuse.position is Position.PROVING
    pool.sweep_until(Position.CLOSED)
    assert (pool.batches, pool.fuse.reason) == ([3, 6, 12, 24, 48, 96, 1], FuseReason.HEALED)


def test_time_without_an_answer_from_github_extends_the_time_of_a_batch():
    pool = Pool(replacer_works=False)
    pool.lose(190)
    pool.sweep()
    pool.lose_github(3600)
    stopped_after = 0
    while pool.fuse.position is Position.PROVING:
        pool.sweep()
        stopped_after += 1
    assert stopped_after * SWEEP >= LIMITS.prove_seconds


def test_a_proving_fuse_without_losses_heals():
    assert next_fuse(proving(), FuseCounts(), NOW + 60, LIMITS) == Fuse(closed_at=NOW + 60, reason=FuseReason.HEALED)


# A stopped fuse that is not needed: another controller scaled the pool down unannounced.


JOBS = KnownJobs([KnownJob(frozenset())])


def stopped_pool(jobs):
    pool = Pool(*(online(each) for each in range(1, 11)), replacer_works=False)
    pool.lose(40)
    pool.jobs = jobs
    pool.sweep_until(Position.STOPPED)
    return pool


def test_a_scale_down_does_not_wait_for_a_person():
    pool = stopped_pool(KnownJobs())
    stopped_at = pool.fuse.stopped_at
    while pool.fuse.position is Position.STOPPED:
        pool.sweep()
    assert is_not_needed(pool.fuse)
    assert pool.now - SWEEP - stopped_at == LIMITS.window_seconds
    for _ in range(10):
        pool.sweep()
    assert pool.tally()[0].waiting == 0
    assert pool.batches == [3]


@pytest.mark.parametrize("jobs", [JOBS, None], ids=["a queued job", "queued jobs unknown"])
def test_a_stopped_fuse_with_possibly_needed_runners_waits_for_a_person(jobs):
    pool = stopped_pool(jobs)
    for _ in range(100):
        pool.sweep()
    assert pool.fuse.position is Position.STOPPED


def test_a_further_loss_restarts_the_window_of_a_stopped_fuse():
    pool = stopped_pool(KnownJobs())
    for _ in range(5):
        pool.sweep()
    pool.lose(1)
    lost_at = pool.now - 1
    while pool.fuse.position is Position.STOPPED:
        pool.sweep()
    assert pool.now - SWEEP - lost_at >= LIMITS.window_seconds


def test_a_stopped_fuse_does_not_close_while_github_does_not_answer():
    pool = stopped_pool(KnownJobs())
    pool.lose_github(3 * LIMITS.window_seconds)
    assert pool.fuse.position is Position.STOPPED


def test_a_stopped_fuse_closes_when_the_lost_registrations_return():
    pool = stopped_pool(JOBS)
    pool.come_back(*range(11, 51))
    for _ in range(12):
        pool.sweep()
    assert (pool.fuse.position, pool.fuse.reason) == (Position.CLOSED, FuseReason.REGISTRATIONS_RETURNED)


def test_a_job_reported_after_a_removal_delays_no_batch():
    pool = Pool()
    pool.lose(50)
    pool.sweep()
    held = min(each.id for each in pool.runners.values() if each.granted_at is not None)
    at_work = {"replaced_at": None, "last_replaced_at": None, "job_id": 9, "job_started_at": pool.now}
    pool.runners[held] = pool.runners[held]._replace(**at_work)
    for _ in range(6):
        pool.sweep()
    assert sum(pool.batches) > 9


def test_the_counts_of_pools_add_up_to_the_installations():
    one = FuseCounts(
        lost=2, expected=10, waiting=2, accepted=1, successors=1, proving_seconds=50, calm_seconds=70, queued=1
    )
    other = FuseCounts(lost=1, expected=5, granted=1, since_return=20, calm_seconds=10, queued=0)
    assert combined([one, other]) == FuseCounts(
        lost=3,
        expected=15,
        waiting=2,
        granted=1,
        accepted=1,
        successors=1,
        proving_seconds=50,
        since_return=20,
        calm_seconds=10,
        queued=1,
        is_of_all=True,
    )
    assert combined([one, replace(other, queued=None)]).queued is None
    assert combined([]) == FuseCounts()


@pytest.mark.parametrize(
    ("in_batch", "accepted", "is_proven"), [(0, 0, True), (2, 0, False), (2, 2, True), (3, 3, False)]
)
def test_a_batch_of_which_nothing_was_accepted_is_not_proven(in_batch, accepted, is_proven):
    assert FuseCounts(in_batch=in_batch, accepted=accepted, successors=2 * bool(accepted)).is_proven is is_proven


def test_a_pool_that_grows_proves_no_batch_of_the_others():
    """Thirty pools are falsely lost, and one of them is scaled up: its newcomers proved the whole batch."""
    grows, others = (
        FuseCounts(in_batch=1, accepted=1, newcomers=4, successors=4),
        FuseCounts(in_batch=2, accepted=2, waiting=9),
    )
    whole = combined([grows, others])
    assert (whole.newcomers, whole.successors, whole.is_proven) == (1, 1, False)


def test_a_few_losses_are_replaced_at_once():
    pool = Pool(*(online(each) for each in range(1, 101)))
    pool.lose(19)
    assert pool.sweep() == 19
    assert pool.fuse == Fuse()


@pytest.mark.parametrize(
    ("expected", "trips_at"),
    [(0, 3), (1, 3), (2, 3), (3, 3), (15, 3), (16, 4), (20, 4), (21, 5), (100, 20), (101, 21), (200, 40)],
)
def test_the_threshold_is_the_fraction_and_at_least_the_floor(expected, trips_at):
    assert threshold(expected, LIMITS) == trips_at


@pytest.mark.parametrize(("percent", "expected", "trips_at"), [(7, 100, 7), (7, 101, 8), (14, 50, 7), (100, 9, 9)])
def test_the_threshold_is_not_raised_by_floating_point(percent, expected, trips_at):
    assert threshold(expected, FuseLimits(fraction=percent / 100)) == trips_at


@given(st.integers(0, 10_000), st.integers(1, 100))
def test_the_threshold_is_exact_for_every_percentage(expected, percent):
    assert threshold(expected, FuseLimits(fraction=percent / 100)) == max(3, -(-percent * expected // 100))


@pytest.mark.parametrize(
    ("size", "losses", "position"),
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
def test_pools_of_every_size_trip_at_their_threshold(size, losses, position):
    pool = Pool(*(online(each) for each in range(1, size - losses + 1)))
    pool.lose(losses)
    pool.sweep()
    assert pool.fuse.position is position


def test_suspects_with_a_404_count_before_the_first_loss_is_remediated():
    pool = Pool(*(suspect(each) for each in range(1, 41)))
    pool.lose(1)
    assert pool.sweep() == 1
    assert pool.fuse.position is Position.PROVING


def test_suspects_count_before_their_own_get():
    pool = Pool(*(suspect(each, first_404_at=None) for each in range(1, 41)))
    assert pool.tally()[0].lost == 40


def test_a_fuse_does_not_trip_without_a_runner_to_remediate():
    assert next_fuse(Fuse(), mass_loss(waiting=0), NOW, LIMITS) == Fuse()


@pytest.mark.parametrize(
    ("age", "counted"),
    [(600.0 - MICROSECOND, 1), (600.0, 0)],
    ids=["just within window_seconds", "at window_seconds"],
)
def test_a_remediated_loss_counts_for_window_seconds(age, counted):
    old = lost(confirmed_at=NOW - age, granted_at=NOW - age)
    assert fuse_counts([(old, State.INVALIDATED)], Fuse(), survey(), NOW, LIMITS).lost == counted


@pytest.mark.parametrize(
    ("age", "counted"),
    [(600.0 - MICROSECOND, 1), (600.0, 0), (600.0 + MICROSECOND, 0)],
    ids=["just within window_seconds", "at window_seconds", "before it"],
)
def test_what_may_run_an_unknown_job_counts_for_window_seconds(age, counted):
    missing = suspect(
        absent_since=NOW - age, first_404_at=NOW - age, observed_at=NOW - age - 9, was_busy=True, busy=True
    )
    assert fuse_counts([(missing, State.SUSPECT)], Fuse(), survey(), NOW, LIMITS).lost == counted


@pytest.mark.parametrize(
    "age", [600.0 - MICROSECOND, 600.0, 600.0 + MICROSECOND], ids=["within the window", "at its begin", "before it"]
)
def test_a_newcomer_is_one_runner_more_once_the_loss_that_it_replaced_counts_no_longer(age):
    replaced = lost(confirmed_at=NOW - age, granted_at=NOW - age, replaced_at=NOW - age)
    members = [(replaced, State.INVALIDATED), (online(2, first_seen=NOW - 1), State.HEALTHY)]
    assert fuse_counts(members, Fuse(), survey(), NOW, LIMITS).expected == 1


@pytest.mark.parametrize(
    ("age", "expected"),
    [(600.0 - MICROSECOND, 1), (600.0, 2), (600.0 + MICROSECOND, 2)],
    ids=["within it", "at its begin", "before it"],
)
def test_only_a_runner_that_came_within_the_window_takes_the_place_of_a_loss_of_the_window(age, expected):
    replaced = lost(confirmed_at=NOW - 599, granted_at=NOW - 599, replaced_at=NOW - 599)
    members = [(replaced, State.INVALIDATED), (online(2, first_seen=NOW - age), State.HEALTHY)]
    assert fuse_counts(members, Fuse(), survey(), NOW, LIMITS).expected == expected


@pytest.mark.parametrize(
    "age", [600.0 - MICROSECOND, 600.0, 600.0 + MICROSECOND], ids=["within the window", "at its begin", "before it"]
)
def test_the_successor_of_a_runner_replaced_while_offline_is_one_runner_more_once_the_loss_counts_no_longer(age):
    done = {"granted_at": NOW - age, "removed_at": NOW - age, "replaced_at": NOW - age}
    offline = online(1, online=False, offline_since=LONG_AGO, listed=False, **done)
    members = [(offline, State.OFFLINE), (online(2, first_seen=NOW - 1), State.HEALTHY)]
    assert fuse_counts(members, Fuse(), survey(), NOW, LIMITS).expected == 1


@pytest.mark.parametrize(
    ("state", "counts"),
    [
        (State.HEALTHY, 1),
        (State.STARTING, 1),
        (State.OFFLINE, 1),
        (State.UNKNOWN, 1),
        (State.RETIRED, 0),
    ],
)
def test_a_registered_runner_is_one_of_its_pool_unless_it_is_retired(state, counts):
    assert fuse_counts([(online(1), state)], Fuse(), survey(), NOW, LIMITS).expected == counts


def test_waiting_losses_still_count_after_a_long_pause():
    pool = Pool(*(online(each) for each in range(1, 51)))
    pool.lose(50)
    pool.now += 86_400
    assert pool.sweep() == 3


def test_replacements_do_not_raise_the_expected_size_of_a_pool():
    replaced = [lost(each, granted_at=NOW, replaced_at=NOW) for each in range(1, 4)]
    pool = Pool(*replaced, *(online(each, first_seen=NOW) for each in range(4, 7)))
    assert pool.tally()[0].expected == 3
    booting = Pool(*replaced, *(online(each) for each in range(4, 54)))
    assert booting.tally()[0].expected == 53, "their successors are not there yet"


@pytest.mark.parametrize(
    ("after", "position"),
    [(300.0 - MICROSECOND, Position.PROVING), (300.0, Position.CLOSED)],
    ids=["just within cooldown_seconds", "at cooldown_seconds"],
)
def test_a_healed_fuse_trips_at_one_loss_for_cooldown_seconds(after, position):
    healed = Fuse(closed_at=NOW)
    one = FuseCounts(lost=1, expected=100, waiting=1, closed_seconds=after)
    assert next_fuse(healed, one, NOW + 10_000, LIMITS).position is position


@pytest.mark.parametrize(
    ("reason", "lasts"),
    [(FuseReason.REGISTRATIONS_RETURNED, 600.0), (FuseReason.UNPROVEN, 3600.0)],
)
def test_a_fuse_that_closed_without_healing_goes_on_with_its_batches(reason, lasts):
    closed = Fuse(since=NOW - 900, batch=3, allowed=3, batch_at=NOW - 900, closed_at=NOW - 60, reason=reason)
    for after, grants_since in ((lasts - MICROSECOND, NOW - 900), (lasts, NOW)):
        tripped = next_fuse(closed, mass_loss(closed_seconds=after), NOW, LIMITS)
        assert (tripped.position, tripped.since, tripped.grants_since) == (Position.PROVING, NOW, grants_since)


def test_a_fuse_that_closes_and_trips_twice_counts_grants_from_its_first_batch_on():
    fuse = proving(since=NOW - 900)
    for at in (NOW - 300, NOW):
        closed = next_fuse(fuse, replace(HIDDEN, proving_seconds=301.0), at - 60, LIMITS)
        fuse = next_fuse(closed, mass_loss(closed_seconds=60.0), at, LIMITS)
        assert (fuse.position, fuse.since, fuse.grants_since) == (Position.PROVING, at, NOW - 900)


@pytest.mark.parametrize(
    ("tripped_ago", "position"), [(300.0, Position.PROVING), (300.0 + MICROSECOND, Position.STOPPED)]
)
def test_a_fuse_that_trips_again_gives_its_earlier_batch_prove_seconds_from_then_on(tripped_ago, position):
    fuse = proving(since=NOW - tripped_ago, continues_from=NOW - 3000, batch_at=NOW - 3000)
    replaced_before = [lost(each, granted_at=NOW - 2900, replaced_at=NOW - 2900) for each in (1, 2, 3)]
    members = [(each, State.INVALIDATED) for each in (*replaced_before, *map(lost, range(4, 13)))]
    counted = fuse_counts(members, fuse, survey(), NOW, LIMITS)
    assert (counted.granted, counted.accepted, counted.waiting) == (3, 3, 9)
    assert next_fuse(fuse, counted, NOW, LIMITS).position is position


def test_the_time_since_a_fuse_closed_is_time_that_lists_cover():
    closed = Fuse(since=NOW - 900, closed_at=NOW - 700, reason=FuseReason.REGISTRATIONS_RETURNED)
    blind = Survey(swept_at=NOW, total=10, blind=((NOW - 600, NOW - 100),))
    assert fuse_counts([], closed, blind, NOW, LIMITS).closed_seconds == 200.0
    assert fuse_counts([], Fuse(), blind, NOW, LIMITS).closed_seconds is None


@pytest.mark.parametrize(("was_lost", "since_return"), [(True, 30.0), (False, None)])
def test_only_the_return_of_a_lost_runner_counts(was_lost, since_return):
    """One unconfirmed 404 in ten minutes would hold up the batches of a true mass loss for as long as that goes on."""
    back = (online(1, back_at=NOW - 30, was_lost=was_lost), State.HEALTHY)
    seen = Survey(swept_at=NOW, total=10)
    assert fuse_counts([back], proving(since=NOW - 900), seen, NOW, LIMITS).since_return == since_return


@pytest.mark.parametrize(
    ("after", "counts"),
    [(-MICROSECOND, False), (0.0, False), (MICROSECOND, True)],
    ids=["before the fuse tripped", "as it tripped", "after that"],
)
@pytest.mark.parametrize(
    ("returned", "found"),
    [
        (lambda at: (online(1, back_at=at, was_lost=True), State.HEALTHY), 0),
        (lambda at: (lost(1, removed_at=at, was_deleted=True), State.INVALIDATED), 1),
    ],
    ids=["listed again", "found by our DELETE"],
)
def test_only_a_lost_runner_that_was_registered_after_the_fuse_tripped_counts_as_returned(
    returned, found, after, counts
):
    members = [returned(NOW - 60 + after)]
    counted = fuse_counts(members, proving(since=NOW - 60), survey(), NOW, LIMITS)
    assert (counted.since_return is not None, counted.found) == ((True, found) if counts else (False, 0))


ACCEPTED = {"granted": 3, "in_batch": 3, "accepted": 3}


@pytest.mark.parametrize(
    ("changes", "position", "allowed"),
    [
        ({"proving_seconds": 300.0}, Position.PROVING, 3),
        ({"proving_seconds": 300.0 + MICROSECOND}, Position.STOPPED, 3),
        ({"proving_seconds": 300.0, "successors": 1}, Position.PROVING, 3),
        ({"proving_seconds": 300.0 + MICROSECOND, "successors": 1}, Position.PROVING, 5),
        ({"successors": 2}, Position.PROVING, 7),
        ({"successors": 3}, Position.PROVING, 9),
        ({"successors": 30}, Position.PROVING, 9),
        ({"proving_seconds": 9999.0, "pending": 1, "accepted": 2}, Position.PROVING, 3),
        ({"overdue": 3, "accepted": 0}, Position.STOPPED, 3),
        ({"overdue": 2, "pending": 1, "accepted": 0}, Position.PROVING, 3),
        ({"overdue": 2, "accepted": 1, "successors": 1}, Position.PROVING, 5),
        ({"successors": 3, "since_return": 600.0 - MICROSECOND}, Position.PROVING, 3),
        ({"successors": 3, "since_return": 600.0, "calm_seconds": 0.0}, Position.PROVING, 9),
        ({"proving_seconds": 301.0, "since_return": 0.0}, Position.STOPPED, 3),
    ],
    ids=[
        "at prove_seconds",
        "a microsecond later",
        "two successors are missing at prove_seconds",
        "two successors are missing a microsecond later",
        "one successor is missing",
        "all successors are online",
        "more than all successors are online",
        "a request was not accepted yet",
        "no request was accepted within prove_seconds",
        "one of them may still be accepted",
        "the accepted one is proven",
        "a registration returned within the window",
        "no registration returned for a window, but one was lost",
        "a registration returned, without successors",
    ],
)
def test_a_batch_is_proven_within_prove_seconds_of_its_last_request(changes, position, allowed):
    turned = next_fuse(proving(), mass_loss(**{"waiting": 197, **ACCEPTED, **changes}), NOW + 1, LIMITS)
    assert (turned.position, turned.allowed) == (position, allowed)


@pytest.mark.parametrize(
    ("successors", "changes", "allowed"),
    [
        (16, {}, 56),
        (15, {}, 24),
        (16, {"waiting": 0}, 24),
        (2, {"accepted": 3, "in_batch": 3}, 28),
        (1, {"accepted": 3, "in_batch": 3}, 24),
        (1, {"accepted": 2, "in_batch": 2}, 24),
        (22, {"is_of_all": True}, 68),
        (21, {"is_of_all": True}, 24),
        (2, {"accepted": 3, "in_batch": 3, "is_of_all": True}, 24),
    ],
    ids=[
        "eight of 24 are late",
        "nine are",
        "no loss waits",
        "one of three",
        "two of three",
        "one of two",
        "of all pools two of 24",
        "of all pools three of 24",
        "of all pools one of three",
    ],
)
def test_the_last_third_of_a_batch_holds_up_no_other_loss(successors, changes, allowed):
    fuse = proving(batch=24, allowed=24)
    counts = {"waiting": 99, "granted": 24, "in_batch": 24, "accepted": 24, "successors": successors, **changes}
    assert next_fuse(fuse, mass_loss(**counts), NOW + 1, LIMITS).allowed == allowed


@pytest.mark.parametrize(
    ("granted_before", "position"),
    [(MICROSECOND, Position.STOPPED), (0.0, Position.PROVING)],
    ids=["granted before the fuse tripped", "granted when it tripped"],
)
def test_only_requests_granted_since_the_trip_start_the_time_of_a_batch(granted_before, position):
    fuse, stops_at = proving(batch_at=NOW), NOW + 1.0 + LIMITS.prove_seconds + 1.0
    of_batch = lost(1, granted_at=NOW, replaced_at=NOW + 1.0)
    accepted_late = lost(2, granted_at=NOW - granted_before, replaced_at=NOW + 50.0)
    members = [(each, State.INVALIDATED) for each in (of_batch, accepted_late)]
    counted = fuse_counts(members, fuse, survey(swept_at=stops_at), stops_at, LIMITS)
    assert next_fuse(fuse, counted, stops_at, LIMITS).position is position


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
    ids=["closed", "first batch", "all granted", "second batch", "more granted than allowed", "stopped"],
)
def test_the_room_is_the_part_of_the_batch_not_yet_granted(fuse, granted, lets):
    assert room(fuse, mass_loss(granted=granted)) == lets


@pytest.mark.parametrize(
    ("org", "pool", "command"),
    [
        ("acme", None, "ghapp resume acme"),
        ("acme", "linux", "ghapp resume acme --pool linux"),
        ("acme", "#1", "ghapp resume acme --pool '#1'"),
        ("acme/api", None, "ghapp resume acme/api"),
        ("acme/api", "linux", "ghapp resume acme/api --pool linux"),
        ("acme/api", "*", "ghapp resume acme"),
        ("enterprises/corp", "*", "ghapp resume enterprises/corp"),
    ],
)
def test_the_fuse_of_all_pools_is_restarted_where_it_belongs(org, pool, command):
    assert resume_command(org, pool) == command


CLOSED, OPEN = Fuse(Position.CLOSED, since=NOW - 9, closed_at=NOW - 3), proving(since=NOW - 5)


@pytest.mark.parametrize(
    ("fuses", "since"),
    [
        ([], None),
        ([Fuse()], None),
        ([CLOSED], None),
        ([CLOSED, OPEN], NOW - 5),
        ([OPEN, Fuse(Position.STOPPED, since=NOW - 7)], NOW - 7),
        ([replace(OPEN, since=None)], None),
    ],
    ids=["no fuse", "never tripped", "closed again", "one is open", "the oldest of two", "its time is not known"],
)
def test_grants_are_counted_since_the_oldest_fuse_that_is_not_closed_tripped(fuses, since):
    assert open_since(fuses) == since


def test_a_closed_fuse_is_unchanged_by_a_resume():
    fuse = Fuse(closed_at=NOW)
    assert resume(fuse, NOW + 60, LIMITS) is fuse


def test_a_stopped_fuse_with_waiting_losses_does_not_change_by_itself():
    stopped = proving(position=Position.STOPPED)
    assert next_fuse(stopped, mass_loss(successors=200, calm_seconds=10**6), NOW + 10**6, LIMITS) is stopped


@pytest.mark.parametrize(
    "counts",
    [
        FuseCounts(calm_seconds=10**6, queued=0),
        FuseCounts(calm_seconds=10**6, queued=0, since_return=10**6),
        mass_loss(calm_seconds=10**6, queued=0),
        mass_loss(granted=3, in_batch=3, accepted=3, successors=3),
        mass_loss(granted=3, in_batch=0),
    ],
    ids=[
        "no loss waits",
        "the registrations returned",
        "no job waits",
        "its batch is online",
        "nothing is in its batch",
    ],
)
def test_a_fuse_whose_record_cannot_be_read_stays_stopped_until_a_person_resumes_it(counts):
    unreadable = Fuse(Position.STOPPED, reason=FuseReason.UNREADABLE, since=NOW - 900, stopped_at=NOW - 900)
    assert next_fuse(unreadable, counts, NOW, LIMITS) is unreadable


def test_a_resumed_fuse_does_not_count_earlier_grants():
    before = lost(granted_at=LONG_AGO, replaced_at=LONG_AGO)
    fuse = resume(proving(position=Position.STOPPED, since=LONG_AGO), NOW, LIMITS)
    counted = fuse_counts([(before, State.INVALIDATED)], fuse, survey(), NOW, LIMITS)
    assert (counted.granted, room(fuse, counted)) == (0, 3)


@settings(max_examples=60)
@given(size=st.integers(1, 120), losses=st.integers(1, 120), sweeps=st.integers(1, 15))
def test_at_most_the_first_batch_is_replaced_without_proof(size, losses, sweeps):
    """At any pool size: at or above the threshold only first_batch, below it fewer than the threshold."""
    pool = Pool(*(online(each) for each in range(1, size + 1)), replacer_works=False)
    pool.lose(losses)
    acted = sum(pool.sweep() for _ in range(sweeps))
    trips_at = threshold(size + losses, LIMITS)
    assert acted <= (LIMITS.first_batch if losses >= trips_at else trips_at - 1)


@given(losses=st.integers(3, 400))
@settings(max_examples=30)
def test_a_mass_loss_heals_in_a_logarithmic_number_of_batches(losses):
    pool = Pool()
    pool.lose(losses)
    pool.sweep_until(Position.CLOSED)
    assert sum(pool.batches) == losses
    assert len(pool.batches) <= (losses // 3 + 1).bit_length()
    assert all(later <= 2 * earlier for earlier, later in zip(pool.batches, pool.batches[1:], strict=False))


COUNTS = st.integers(0, 50)
SECONDS = st.floats(0, 10**6)
TALLIES = st.builds(
    FuseCounts,
    *[COUNTS] * 9,
    proving_seconds=SECONDS,
    since_return=st.none() | SECONDS,
    calm_seconds=SECONDS,
    queued=st.none() | COUNTS,
)


@given(st.sampled_from(Position), TALLIES, st.floats(0, 10**6))
def test_every_update_of_a_fuse_is_defined_and_at_most_doubles_its_batch(position, counted, after):
    fuse = replace(proving(), position=position)
    turned = next_fuse(fuse, counted, NOW + after, LIMITS)
    assert turned.batch <= max(LIMITS.first_batch, 2 * fuse.batch)
    let = room(turned, counted)
    assert let is None or 0 <= let <= turned.allowed
    assert turned.allowed <= max(fuse.allowed, counted.granted) + 2 * fuse.batch


@pytest.mark.parametrize(
    ("lost_again", "after", "successors"),
    [(0, 30.0, 3), (1, 30.0, 2), (4, 30.0, 0), (1, MICROSECOND, 2), (1, 0.0, 3)],
    ids=["no", "one", "four", "one from just after the fuse tripped", "one from when it tripped"],
)
def test_newcomers_that_are_lost_again_take_from_the_proof(lost_again, after, successors):
    again = [(lost(50 + each, first_seen=NOW + after), State.INVALIDATED) for each in range(lost_again)]
    assert successors_beside(again) == successors


@pytest.mark.parametrize("state", [State.STARTING, State.OFFLINE, State.RETIRED, State.UNKNOWN])
def test_newcomers_that_never_came_online_and_are_not_lost_take_nothing_from_the_proof(state):
    assert successors_beside([(present(50, first_seen=NOW + 30, was_online=False), state)]) == 3


def successors_beside(others):
    """The successors of a batch of three, whose newcomers came online, with these runners beside them."""
    batch = [lost(each, granted_at=NOW, removed_at=NOW, replaced_at=NOW) for each in (1, 2, 3)]
    came = [online(100 + each, first_seen=NOW + 60) for each in range(3)]
    members = [*((each, State.INVALIDATED) for each in batch), *((each, State.HEALTHY) for each in came), *others]
    seen = Survey(swept_at=NOW + 90, total=10)
    return fuse_counts(members, proving(batch_at=NOW), seen, NOW + 90, LIMITS).successors


@pytest.mark.parametrize(("after", "position"), [(4200.0, Position.PROVING), (4200.0 + MICROSECOND, Position.STOPPED)])
def test_a_late_successor_counts_for_a_little_more_than_an_hour(after, position):
    stopped = proving(position=Position.STOPPED, reason=FuseReason.BATCH_NEVER_ONLINE, stopped_at=NOW)
    counted = mass_loss(waiting=9, granted=3, in_batch=3, accepted=3, successors=1, proving_seconds=after)
    assert next_fuse(stopped, counted, NOW + 9000, LIMITS).position is position


@pytest.mark.parametrize(
    ("fuse", "forgotten"),
    [
        (Fuse(), False),
        (Fuse(closed_at=NOW - FORGOTTEN_SECONDS), False),
        (Fuse(closed_at=NOW - FORGOTTEN_SECONDS - 1), True),
        (Fuse(Position.PROVING, since=NOW - FORGOTTEN_SECONDS - 1), False),
        (Fuse(Position.STOPPED, since=LONG_AGO, stopped_at=NOW - FORGOTTEN_SECONDS - 1), False),
    ],
)
def test_which_fuses_of_pools_without_runners_are_forgotten(fuse, forgotten):
    assert is_long_closed(fuse, NOW) is forgotten


HIDDEN = FuseCounts(granted=3, in_batch=3, accepted=3, newcomers=3, proving_seconds=300.0 + MICROSECOND)
"""A batch whose time is over; as many newcomers came as were replaced, and churn explains all of them."""


@pytest.mark.parametrize(
    ("changes", "position", "reason"),
    [
        ({}, Position.CLOSED, FuseReason.HIDDEN_BY_CHURN),
        ({"proving_seconds": 300.0}, Position.PROVING, FuseReason.MASS_LOSS),
        ({"newcomers": 2}, Position.STOPPED, FuseReason.BATCH_NEVER_ONLINE),
        ({"waiting": 1}, Position.STOPPED, FuseReason.BATCH_NEVER_ONLINE),
        ({"successors": 1}, Position.CLOSED, FuseReason.HEALED),
        ({"accepted": 1, "newcomers": 1}, Position.CLOSED, FuseReason.HIDDEN_BY_CHURN),
        ({"in_batch": 0, "accepted": 0, "proving_seconds": 0.0}, Position.CLOSED, FuseReason.HEALED),
    ],
    ids=[
        "nothing waits",
        "not yet",
        "too few newcomers",
        "a loss waits",
        "a successor stands out",
        "a batch of one",
        "nothing was requested",
    ],
)
def test_a_batch_that_churn_hides_closes_the_fuse_once_no_loss_waits(changes, position, reason):
    after = next_fuse(proving(reason=FuseReason.MASS_LOSS), replace(HIDDEN, **changes), NOW, LIMITS)
    assert (after.position, after.reason) == (position, reason)


@pytest.mark.parametrize(("seconds", "room_left"), [(3600.0 - MICROSECOND, 0), (3600.0, 3)])
def test_a_fuse_that_closed_because_churn_hid_its_batch_gives_no_new_first_batch_for_an_hour(seconds, room_left):
    closed = next_fuse(proving(), HIDDEN, NOW, LIMITS)
    counted = replace(HIDDEN, lost=200, expected=200, waiting=200, closed_seconds=seconds)
    tripped = next_fuse(closed, counted, NOW + seconds, LIMITS)
    assert tripped.position is Position.PROVING
    assert room(tripped, replace(counted, granted=3 if room_left == 0 else 0)) == room_left
