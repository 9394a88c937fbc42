"""A gate must pass for the settling time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ghapp.gate.gate_checks import Stability, stability_after
from ghapp.gate.judgement import held_for
from tests.rules.builders import NOW, survey
from tests.rules.gate.builders import at_work, check, gate, pink, steps


def test_passing_is_measured_between_lists_and_not_between_checks():
    runners = [*pink(3), *at_work()]
    first = gate(runners)
    settling = stability_after(stability_after(Stability(), first), first)
    assert settling.held == 0, "the same list twice counts once"
    later = gate(
        [each._replace(observed_at=NOW + 60) for each in runners], survey=survey(swept_at=NOW + 60), now=NOW + 61
    )
    assert stability_after(settling, later).held == 60


@pytest.mark.parametrize(
    ("gap", "at"), [(True, NOW + 30), (False, NOW - 1)], ids=["a gap", "a list older than the last"]
)
def test_a_gap_restarts_the_settling_time(gap, at):
    settling = stability_after(
        Stability(NOW - 60, NOW), gate(pink(0 if gap else 3) + at_work(), survey=survey(swept_at=at), now=at)
    )
    assert settling.held == 0


def test_passing_without_a_list_does_not_count():
    passing = gate([*pink(3), *at_work()])
    assert passing.passed
    assert stability_after(Stability(NOW - 60, NOW), replace(passing, observed_at=None)) == Stability()


@pytest.mark.parametrize(("held", "passed"), [(59.9, False), (60.0, True)])
def test_a_passing_gate_has_settled_after_settle_seconds(held, passed):
    answer = held_for(gate([*pink(3), *at_work()]), held, 60.0)
    assert answer.passed is passed
    assert check(answer, "settled").passed is passed
    assert check(answer, "settled").text == f"it has passed without a gap for {60 if passed else 59} of 60 s"
    assert steps(answer) == (["make pink active in place of purple"] if passed else ["wait, then run the gate again"])


def test_a_failing_gate_keeps_its_steps_while_it_settles():
    answer = held_for(gate(at_work()), 0.0, 60.0)
    assert steps(answer)[0] == "provision pink again"
