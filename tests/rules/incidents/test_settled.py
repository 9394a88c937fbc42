"""When a sweep may keep the judgement of the one before it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.incidents.history import STEP_SECONDS, step_of
from ghapp.incidents.settled import Settled, holds, is_settled
from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.remediation.decision import DecisionInputs, are_at_rest, by_pool, decide
from ghapp.remediation.fuse import Fuse, FuseLimits, FuseReason
from ghapp.remediation.job_proof import KnownJob, KnownJobs
from ghapp.remediation.plan import Plan, RemediationLimits
from ghapp.runners import absence
from ghapp.runners.evidence import Survey
from ghapp.runners.transitions import published_state
from ghapp.runners.verdict import Limits, judge
from tests.rules.builders import MICROSECOND, NOW, lost, online, present, registration, survey, suspect

LIMITS = Limits(confirm_seconds=30, startup_seconds=120, offline_seconds=300, stale_seconds=300)
BEGIN = float(step_of(NOW))
END = BEGIN + STEP_SECONDS
SETTLED = Settled(BEGIN + 10, b"a list")


@pytest.mark.parametrize(
    ("settled", "digest", "at", "expected"),
    [
        (SETTLED, b"a list", BEGIN + 70, True),
        (SETTLED, b"a list", END - MICROSECOND, True),
        (SETTLED, b"a list", END, False),
        (SETTLED, b"another", BEGIN + 70, False),
        (SETTLED, b"a list", BEGIN + 5, True),
        (SETTLED, b"a list", BEGIN - 1, False),
        (None, b"a list", BEGIN + 70, False),
    ],
    ids=["later", "the last moment", "the next step", "another list", "a clock set back", "far back", "a write since"],
)
def test_a_judgement_holds_for_the_same_list_until_the_next_step_of_the_history(settled, digest, at, expected):
    assert holds(settled, digest, at) is expected


def settles(*runners, at=BEGIN + 10):
    return is_settled(runners, survey(swept_at=at), at, LIMITS)


@pytest.mark.parametrize(
    ("runner", "expected"),
    [
        (online(), True),
        (online(busy=True), True),
        (present(), True),
        (present(offline_since=END - 300), True),
        (present(offline_since=END - 300 - 1), False),
        (present(was_online=False, first_seen=END - 120 + 1), True),
        (present(was_online=False, first_seen=END - 120, offline_since=END - 120), False),
        (suspect(), False),
        (suspect(first_404_at=None), False),
        (suspect(replaced_at=NOW), False),
        (lost(), False),
        (lost(granted_at=NOW, event_id="e"), False),
        (lost(granted_at=NOW, event_id="e", replaced_at=NOW), True),
        (suspect(ephemeral=True, job_id=5, job_started_at=NOW - 90, job_ended_at=NOW - 70), True),
        (suspect(first_seen=END - 121), False),
    ],
    ids=[
        "online",
        "busy",
        "long offline",
        "offline, not too long before the end of the step",
        "offline too long before the end of the step",
        "starting until after the end of the step",
        "no longer starting at the end of the step",
        "missing, and a GET said so",
        "missing from a list",
        "missing, and was replaced before",
        "lost",
        "its replacement was granted",
        "it was replaced",
        "its only job ended",
        "absent, and young",
    ],
)
def test_a_sweep_is_settled_if_time_alone_changes_no_state_before_the_next_step(runner, expected):
    assert settles(runner) is expected
    assert settles(online(7), runner, online(8)) is expected


def test_an_empty_fleet_is_settled():
    assert settles()


SPANS = st.none() | st.integers(0, 1000).map(lambda seconds: BEGIN - seconds)
RUNNERS = st.builds(
    present,
    online=st.booleans(),
    busy=st.booleans(),
    was_online=st.booleans(),
    ephemeral=st.sampled_from([True, False, None]),
    first_seen=SPANS.map(lambda at: at or BEGIN - 86_400),
    offline_since=SPANS,
    absent_since=SPANS,
    first_404_at=SPANS,
    confirmed_at=SPANS,
    granted_at=SPANS,
    replaced_at=SPANS,
    job_id=st.none() | st.just(5),
    job_started_at=SPANS,
    job_ended_at=SPANS,
    retired_at=SPANS,
    back_at=SPANS,
    last_delivery_at=SPANS,
    state=st.sampled_from(["", "offline"]),
)
CLOSED = st.none() | st.builds(Fuse, closed_at=SPANS, since=SPANS, reason=st.sampled_from(FuseReason))


@given(RUNNERS, st.integers(0, STEP_SECONDS - 1), st.data())
def test_what_is_settled_keeps_its_state_and_gives_a_later_sweep_nothing_to_do(runner, second, data):
    at = BEGIN + second
    if not settles(runner, at=at):
        return
    later = data.draw(st.integers(int(at), int(END) - 1).map(float))
    then: Survey = survey(swept_at=later)
    assert judge(runner, then, later, LIMITS).state is judge(runner, survey(swept_at=at), at, LIMITS).state
    assert absence.suspects([runner], then, later, LIMITS) == []
    assert absence.due([runner], then, later, LIMITS) == {}


@given(RUNNERS, st.integers(0, STEP_SECONDS - 1), CLOSED, st.data())
def test_what_is_settled_and_at_rest_gives_a_plan_after_a_later_sweep_nothing_to_do(runner, second, fuse, data):
    at = BEGIN + second
    if not settles(runner, at=at) or not are_at_rest([runner], survey(swept_at=at), [], at, LIMITS):
        return
    later = data.draw(st.integers(int(at), int(END) - 1).map(float))
    decision_inputs = DecisionInputs(survey(swept_at=later), later, jobs=KnownJobs([KnownJob(frozenset())]))
    pools = by_pool([runner], decision_inputs.survey, [], later, LIMITS)
    fuses = {} if fuse is None else dict.fromkeys([*pools, ALL_POOLS], fuse)
    decision = decide(pools, fuses, [], [], FuseLimits(), RemediationLimits(mode="act"), decision_inputs)
    assert (decision.fuse_changes, decision.plan, decision.not_needed) == ((), Plan(), ())
    assert all(published_state(each, state) == each.state for members in pools.values() for each, state in members)


def test_the_list_of_a_settled_fleet_changes_no_record():
    known = {1: online()}
    look = absence.RunnerList({1: registration(online=True)}, 1)
    folds = absence.folds_of_list(look, known, survey(swept_at=NOW), NOW + 60)
    assert folds[1](known[1]) is known[1]
