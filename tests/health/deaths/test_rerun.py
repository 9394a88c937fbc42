"""When a job whose runner died is re-run, and when not: a table row for each reason."""

from __future__ import annotations

import pytest

from ghapp.health.deaths.cause import Cause
from ghapp.health.deaths.post_mortem import JobFacts
from ghapp.health.deaths.rerun import (
    AUTO,
    DEFERRED,
    TRIES_AFTER_SECONDS,
    Rerun,
    RerunRefusal,
    RerunRequest,
    RerunRules,
    RerunState,
    RunState,
    next_try_after,
    refusal,
    refusal_of_run,
    settled,
)

FACTS = JobFacts(7, "test", "a" * 40, over=True, conclusion="failure", run_id=1, attempt=1, begun=False)
BOTH, UNASKED = ("mona", AUTO), (AUTO,)


def request(by=AUTO, **changes):
    """A request that no condition prevents."""
    best = RerunRequest(by, Cause.VANISHED, FACTS, RerunRules(mode="auto"), granted=True, fuse_closed=True)
    return best._replace(**changes)


@pytest.mark.parametrize("by", BOTH)
def test_a_first_attempt_that_had_not_begun_is_re_run(by):
    assert refusal(request(by)) is None


@pytest.mark.parametrize(
    ("changes", "why", "for_whom"),
    [
        ({"rules": RerunRules(mode="off")}, RerunRefusal.OFF, BOTH),
        ({"granted": False}, RerunRefusal.NOT_GRANTED, BOTH),
        ({"facts": FACTS._replace(over=False)}, RerunRefusal.NOT_FAILED, BOTH),
        ({"facts": FACTS._replace(conclusion="success")}, RerunRefusal.NOT_FAILED, BOTH),
        ({"facts": FACTS._replace(attempt=2)}, RerunRefusal.LATER_ATTEMPT, BOTH),
        ({"rules": RerunRules(mode="button")}, RerunRefusal.NOT_AUTOMATIC, UNASKED),
        ({"cause": Cause.HOST_OOM}, RerunRefusal.CAUSE, UNASKED),
        ({"cause": Cause.LOST_COMMUNICATION}, RerunRefusal.CAUSE, UNASKED),
        ({"rules": RerunRules(mode="auto", causes=("host-oom",))}, RerunRefusal.CAUSE, UNASKED),
        ({"facts": FACTS._replace(begun=True)}, RerunRefusal.BEGUN, UNASKED),
        ({"fuse_closed": False}, RerunRefusal.FUSE, UNASKED),
    ],
)
def test_each_condition_alone_prevents_a_re_run(changes, why, for_whom):
    for by in BOTH:
        assert refusal(request(by, **changes)) is (why if by in for_whom else None)


def test_a_pool_may_allow_jobs_that_had_begun_and_name_other_causes():
    rules = RerunRules(mode="auto", causes=("host-oom",), begun=True)
    assert refusal(request(rules=rules, cause=Cause.HOST_OOM, facts=FACTS._replace(begun=True))) is None


@pytest.mark.parametrize(
    ("run", "why"),
    [
        (RunState(1, over=True), None),
        (RunState(1, over=False), RerunRefusal.RUN_NOT_OVER),
        (RunState(2, over=True), RerunRefusal.LATER_ATTEMPT),
        (RunState(50, over=True), RerunRefusal.LATER_ATTEMPT),
        (RunState(51, over=True), RerunRefusal.TOO_MANY),
    ],
)
def test_the_run_must_be_over_and_in_its_first_attempt(run, why):
    assert refusal_of_run(run) is why


def test_an_unknown_outcome_is_decided_by_the_runs_attempt():
    intent = Rerun(7, 1, 1, "mona", 5.0)
    assert settled(intent, RunState(1, over=True)) is None
    assert settled(intent, RunState(2, over=False)) == intent._replace(state=RerunState.ACCEPTED)
    assert settled(intent, RunState(3, over=True)) == intent._replace(state=RerunState.ACCEPTED)


def test_a_temporary_condition_is_waited_for_about_six_hours():
    assert {RerunRefusal.RUN_NOT_OVER, RerunRefusal.FUSE, RerunRefusal.HOURLY, RerunRefusal.UNSETTLED} == DEFERRED
    assert [next_try_after(number) for number in (-1, 0, len(TRIES_AFTER_SECONDS))] == [None, 60.0, None]
    assert sum(TRIES_AFTER_SECONDS) == pytest.approx(5.6 * 3600, abs=600)
