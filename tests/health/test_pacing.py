"""When the next sweep begins."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.health.pacing import Allowance, BudgetLimits, Purpose, call_limits, left, next_sweep_in

HOUR = 3600.0


def after(cost, *, interval=60.0, used=0, resets_in=HOUR, limit=5000, share=0.5):
    return next_sweep_in(interval, cost, Allowance(limit, used, resets_in), BudgetLimits(share))


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


BUDGETS = st.builds(Allowance, st.integers(1, 50_000), st.integers(0, 60_000), st.floats(0, HOUR))


@given(st.floats(1, 1e5), st.integers(0, 500), BUDGETS, st.builds(BudgetLimits, st.floats(0.01, 1)))
def test_the_next_sweep_is_never_sooner_than_the_interval_and_never_waits_past_the_reset(interval, cost, left, limits):
    seconds = next_sweep_in(interval, cost, left, limits)
    assert interval <= seconds <= max(interval, left.resets_in)


@given(st.integers(1, 500), BUDGETS.filter(lambda each: each.resets_in >= 1), st.floats(0.01, 1))
def test_sweeps_at_the_computed_interval_keep_within_the_share(cost, left, share):
    seconds = next_sweep_in(1.0, cost, left, BudgetLimits(share))
    sweeps = int(left.resets_in / seconds + 1e-9)
    keeps = left.used + sweeps * cost <= left.limit * share
    assert keeps or sweeps <= 1


@pytest.mark.parametrize(("held_for", "seconds"), [(0.0, 60.0), (59.0, 60.0), (61.0, 61.0), (900.0, 900.0)])
def test_a_sweep_does_not_begin_before_github_s_retry_after(held_for, seconds):
    assert next_sweep_in(60.0, 0, Allowance(held_for=held_for), BudgetLimits()) == seconds


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
