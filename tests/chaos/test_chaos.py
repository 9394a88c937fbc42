"""A short soak whose faults are always the same, and what decides about them."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.chaos.faults import LANES
from tests.chaos.schedule import schedule
from tests.chaos.soak import soak

SEED, SECONDS = 1, 30


@pytest.mark.xdist_group("chaos")
@pytest.mark.timeout(480)
def test_whatever_goes_wrong_no_runner_is_wronged_and_nothing_is_lost(tmp_path):
    log = []
    account = soak(SEED, SECONDS, tmp_path, log.append)
    assert account.violations() == [], "\n".join(log)
    assert len(log) > 15, "it was no fair weather"
    assert account.seconds_to_notice, "runners were lost, and it was noticed"


def test_the_same_seed_brings_the_same_faults_and_another_one_others():
    assert schedule(7, 300) == schedule(7, 300)
    assert schedule(7, 300) != schedule(8, 300)


def test_in_five_minutes_each_lane_strikes_often_and_one_fault_after_the_other_and_all_are_over_by_the_end():
    coming = schedule(7, 300)
    for name in LANES:
        lane = [strike for strike in coming if strike.lane == name]
        assert len(lane) > 15
        assert all(one.at + one.seconds < other.at for one, other in pairwise(lane))
        assert lane[-1].at + lane[-1].seconds <= 300


def test_within_a_few_seeds_every_fault_strikes():
    affected = {(strike.lane, strike.name) for seed in range(10) for strike in schedule(seed, 300)}
    assert affected == {(name, fault) for name, lane in LANES.items() for fault in lane.faults}
