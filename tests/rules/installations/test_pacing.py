"""When the next sweep begins."""

from collections import deque
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.installations.pacing import (
    AVERAGED_SWEEPS,
    LEAST_SWEEPS_LEFT,
    POINTS_SECONDS,
    READ_POINTS,
    SWEEPING_POINTS,
    Allowance,
    BudgetLimits,
    Purpose,
    call_limits,
    least_interval,
    left,
    mean_changed,
    next_sweep_at,
    next_sweep_in,
)
from ghapp.queue.jobs import SWEEP_TIMEOUT_SECONDS

HOUR = 3600.0


BUDGETS_OF_AN_HOUR = st.builds(Allowance, st.integers(1, 50_000), st.integers(0, 60_000), st.floats(60, HOUR))


def after(cost, *, mean=None, interval=60.0, used=0, resets_in=HOUR, limit=5000, share=0.5):
    """After a sweep of that cost; all sweeps before had the same."""
    mean = cost if mean is None else mean
    return next_sweep_in(interval, cost, mean, Allowance(limit, used, resets_in), BudgetLimits(share))


@pytest.mark.parametrize(
    ("runners", "shortest"), [(100, 1.44), (300, 4.32), (1000, 14.4), (4100, 60.0), (10_000, 144.0)]
)
def test_sweeps_at_full_cost_keep_within_the_rate_limit_until_the_reset(runners, shortest):
    assert after(runners // 100, interval=1.0) == pytest.approx(shortest, abs=0.01)


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [
        ({"cost": 0}, 60.0),
        ({"cost": 41}, 60.0),
        ({"cost": 100}, 144.0),
        ({"cost": 100, "interval": 600.0}, 600.0),
        ({"cost": 100, "resets_in": 0.0}, 60.0),
        ({"cost": 100, "used": 2400}, HOUR),
        ({"cost": 100, "used": 2401}, HOUR),
        ({"cost": 100, "used": 2300}, HOUR / 2),
        ({"cost": 1, "used": 2500}, HOUR),
        ({"cost": 1, "used": 5000}, HOUR),
        ({"cost": 1, "used": 5000, "resets_in": 5.0}, 60.0),
        ({"cost": 100, "limit": 15_000}, 60.0),
        ({"cost": 100, "share": 1.0}, 72.0),
    ],
    ids=[
        "quiet pages are free",
        "4,100 runners keep the default",
        "10,000 stretch it",
        "never below the interval",
        "the reset is unknown or past",
        "one more sweep fits",
        "no further sweep fits",
        "two more sweeps fit",
        "the share is spent",
        "the limit is spent",
        "the reset is nearer than the interval",
        "a larger limit keeps the interval",
        "the whole limit",
    ],
)
def test_the_interval_depends_on_the_remaining_budget(changes, seconds):
    assert after(**changes) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [
        ({"cost": 100, "mean": 6.25}, 60.0),
        ({"cost": 125, "mean": 0.0}, 60.0),
        ({"cost": 126, "mean": 0.0}, HOUR / 19),
        ({"cost": 0, "mean": 100.0}, 144.0),
        ({"cost": 100, "mean": 50.0}, 72.0),
        ({"cost": 100, "mean": 50.0, "used": 501}, HOUR / 19),
        ({"cost": 10, "mean": 126.0}, HOUR / 19),
        ({"cost": 0, "mean": 0.5, "used": 2500}, HOUR),
    ],
    ids=[
        "one sweep of changed pages does not stretch",
        "twenty sweeps fit",
        "fewer than twenty fit, so the last one counts",
        "one sweep of unchanged pages does not shorten",
        "half of the sweeps cost as much",
        "the same, with the hour nearly spent",
        "a cheap sweep does not make the others cheap",
        "the share is spent",
    ],
)
def test_the_expected_cost_is_that_of_recent_sweeps_unless_few_fit(changes, seconds):
    assert after(**changes) == pytest.approx(seconds)


def test_the_mean_of_changed_pages_follows_a_lasting_change_and_ignores_unknown_ones():
    assert LEAST_SWEEPS_LEFT > AVERAGED_SWEEPS
    mean = 0.0
    for _ in range(AVERAGED_SWEEPS):
        mean = mean_changed(mean, 100)
    assert 60 < mean < 70
    assert mean_changed(mean, None) == mean
    assert mean_changed(100.0, 100) == 100.0
    assert mean_changed(16.0, 0) == 15.0


@pytest.mark.parametrize(("runners", "seconds"), [(100, 0.07), (10_000, 7.26), (85_000, 61.7), (100_000, 72.6)])
def test_sweeps_are_as_far_apart_as_their_points_allow(runners, seconds):
    assert least_interval(runners // 100) == pytest.approx(seconds, abs=0.05)


def durations(interval, *, sweeps, acting_points):
    """How long each of these sweeps of 100,000 runners takes: a hundred calls a second, as long as points are left."""
    sent: deque[tuple[int, int]] = deque()
    spent, now, found = 0, 0.0, []
    for number in range(sweeps):
        now = began = max(number * interval, now)
        for points in [acting_points, *[READ_POINTS] * 1000]:
            while True:
                while sent and sent[0][0] <= now - POINTS_SECONDS:
                    spent -= sent.popleft()[1]
                if spent + points <= SWEEPING_POINTS:
                    break
                now = sent[0][0] + POINTS_SECONDS
            sent.append((int(now), points))
            spent, now = spent + points, now + 0.01
        found.append(now - began)
    return found


@pytest.mark.parametrize(("acting_points", "longest"), [(0, 67.0), (10, 80.0), (300, SWEEP_TIMEOUT_SECONDS)])
def test_no_sweep_of_100_000_runners_takes_much_longer_than_the_others_however_many_follow(acting_points, longest):
    taken = durations(least_interval(1000), sweeps=100, acting_points=acting_points)
    assert max(taken) < longest


def test_without_a_pause_every_few_of_them_one_takes_the_points_of_two_minutes():
    taken = durations(60.0, sweeps=100, acting_points=0)
    assert 10 < sum(each > 100 for each in taken) < 20


def test_scopes_with_one_limit_are_stretched_so_that_together_they_keep_within_it():
    busy = partial(next_sweep_in, 60.0, 1, 1.0, Allowance(5000, 0, HOUR), BudgetLimits(0.5))
    assert busy(0.0) == 60.0
    assert busy(39 * 60.0) == 60.0, "40 of them make 2,400 calls an hour"
    assert busy(99 * 60.0) == pytest.approx(144.0), "100 of them make 2,500 instead of 6,000"
    assert next_sweep_in(60.0, 0, 0.0, Allowance(5000, 0, HOUR), BudgetLimits(0.5), 99 * 60.0) == 60.0, "a quiet one"


@given(st.lists(st.floats(0.1, 50), min_size=1, max_size=50), BUDGETS_OF_AN_HOUR, st.floats(0.01, 1))
def test_scopes_that_share_a_limit_never_spend_more_than_the_share(means, left, share):
    limits, an_hour = BudgetLimits(share), [each * HOUR / 60 for each in means]
    waits = [
        next_sweep_in(60.0, 0, mean, left, limits, sum(an_hour) - own) for mean, own in zip(means, an_hour, strict=True)
    ]
    spent = sum(mean * left.resets_in / wait for mean, wait in zip(means, waits, strict=True) if wait < left.resets_in)
    assert spent <= max(0.0, left.limit * share - left.used) + 1e-6


BUDGETS = st.builds(Allowance, st.integers(1, 50_000), st.integers(0, 60_000), st.floats(0, HOUR))


@given(st.floats(1, 1e5), st.integers(0, 500), st.floats(0, 500), BUDGETS, st.builds(BudgetLimits, st.floats(0.01, 1)))
def test_the_next_sweep_is_never_sooner_than_the_interval_and_never_waits_past_the_reset(
    interval, cost, mean, left, limits
):
    seconds = next_sweep_in(interval, cost, mean, left, limits)
    assert interval <= seconds <= max(interval, left.resets_in)


@given(st.integers(1, 500), BUDGETS.filter(lambda each: each.resets_in >= 1), st.floats(0.01, 1))
def test_sweeps_at_the_computed_interval_keep_within_the_share(cost, left, share):
    seconds = next_sweep_in(1.0, cost, cost, left, BudgetLimits(share))
    sweeps = int(left.resets_in / seconds + 1e-9)
    keeps = left.used + sweeps * cost <= left.limit * share
    assert keeps or sweeps <= 1


@pytest.mark.parametrize(("held_for", "seconds"), [(0.0, 60.0), (59.0, 60.0), (61.0, 61.0), (900.0, 900.0)])
def test_a_sweep_does_not_begin_before_github_s_retry_after(held_for, seconds):
    assert next_sweep_in(60.0, 0, 0.0, Allowance(held_for=held_for), BudgetLimits()) == seconds


@pytest.mark.parametrize(
    ("purpose", "share", "upto"),
    [
        (Purpose.ACT, 0.5, 0.9),
        (Purpose.ACT, 1.0, 1.0),
        (Purpose.SWEEP, 0.5, 0.5),
        (Purpose.REPORT, 0.5, 0.45),
    ],
)
def test_with_a_short_budget_reports_are_deferred_first_and_confirmations_last(purpose, share, upto):
    assert call_limits(purpose, BudgetLimits(share)).share == pytest.approx(upto)


@pytest.mark.parametrize(("used", "calls"), [(0, 2500), (2499, 1), (2500, 0), (4000, 0)])
def test_the_remaining_calls_are_those_of_the_share_and_never_negative(used, calls):
    assert left(Allowance(used=used), BudgetLimits()) == calls


@pytest.mark.parametrize(
    ("late", "counts_from"),
    [
        (0.0, "due"),
        (0.3, "due"),
        (6.0, "due"),
        (6.001, "began"),
        (-0.001, "began"),
        (-7200.0, "began"),
        (None, "began"),
    ],
    ids=["on time", "a tick late", "at the limit", "too late", "ahead of its time", "its date is absurd", "requested"],
)
def test_the_next_sweep_counts_from_when_this_one_was_due_unless_it_was_late(late, counts_from):
    began, due = 1_790_000_000.0, None if late is None else 1_790_000_000.0 - late
    assert next_sweep_at(began, due, 60.0) == (due if counts_from == "due" else began) + 60.0
