"""Re-runs over hours in which everything changes: never twice, never one that must not be, always one that may be."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from ghapp.deaths import rerun
from ghapp.deaths.rerun import RerunRefusal, RerunState
from jobs.deaths import rerun as tries
from tests.simulation.liveness import Violation
from tests.simulation.reruns import simulate

SEEDS = 400

_always, _unasked = rerun._always, rerun._unasked


def live_through(seeds):
    for seed in seeds:
        simulate(seed)


@pytest.mark.parametrize("block", range(4))
def test_a_job_is_run_again_once_and_only_if_it_may_be(block):
    outcomes = [simulate(seed).record for seed in range(block * SEEDS, (block + 1) * SEEDS)]
    assert sum(each is not None and each.state is RerunState.ACCEPTED for each in outcomes) > SEEDS // 5


@pytest.mark.parametrize(
    "why",
    [
        RerunRefusal.OFF,
        RerunRefusal.NOT_FAILED,
        RerunRefusal.LATER_ATTEMPT,
        RerunRefusal.NOT_AUTOMATIC,
        RerunRefusal.CAUSE,
        RerunRefusal.USED_UP,
        RerunRefusal.STEP_FAILED,
        RerunRefusal.CANCELLED,
        RerunRefusal.MERGE_QUEUE,
        RerunRefusal.DEPLOYMENT,
        RerunRefusal.BEGUN,
        RerunRefusal.FUSE,
        RerunRefusal.NEWER_RUN,
    ],
)
def test_a_judgement_without_one_of_its_conditions_is_caught(why):
    def without(checks):
        return lambda facts: [(is_against, reason) for is_against, reason in checks(facts) if reason is not why]

    always, unasked = (
        patch.object(rerun, "_always", without(_always)),
        patch.object(rerun, "_unasked", without(_unasked)),
    )
    with always, unasked, pytest.raises(Violation):
        live_through(range(5 * SEEDS))


def test_a_request_without_an_answer_that_is_never_settled_is_caught():
    never = patch.object(tries, "settled", lambda *_: RerunRefusal.UNSETTLED)
    with never, pytest.raises(Violation, match="the outcome of a request stays unknown"):
        live_through(range(SEEDS))


def test_a_refusal_that_passes_and_is_not_waited_for_is_caught():
    with (
        patch.object(tries, "DEFERRED", frozenset({RerunRefusal.NO_ANSWER})),
        pytest.raises(Violation, match="that may be run again was not"),
    ):
        live_through(range(SEEDS))
