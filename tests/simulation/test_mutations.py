"""The simulation can fail: with one rule of the judgement broken, a named day ends with a violation."""

import pytest

from tests.simulation.engine import simulate
from tests.simulation.invariants import Violation
from tests.simulation.mutations import CAUGHT_BY, MUTATIONS, NOT_CAUGHT, broken
from tests.simulation.test_simulation import SIMULATED


@pytest.mark.parametrize("rule", [rule for rule in MUTATIONS if rule not in NOT_CAUGHT])
def test_a_broken_rule_is_caught(rule):
    with broken(rule), pytest.raises(Violation):
        simulate(CAUGHT_BY[rule])


@pytest.mark.parametrize("day", sorted({*CAUGHT_BY.values()} - {*SIMULATED}))
def test_a_day_that_catches_a_broken_rule_ends_well_when_nothing_is_broken(day):
    simulate(day)
