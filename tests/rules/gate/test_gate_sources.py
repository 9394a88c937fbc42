"""The sources that name the active shard, and the warnings beside the answer."""

from __future__ import annotations

import pytest

from ghapp.gate.active_shard import ActiveShardAnswer, Deploy, Role
from ghapp.gate.judgement import STOP, ActiveShardSources, GateRequest
from ghapp.workflow_jobs.job import Job
from tests.rules.builders import MICROSECOND, NOW, online
from tests.rules.gate.builders import (
    DEPLOYED_AT,
    PURPLE_IS_ACTIVE,
    at_work,
    check,
    deploy,
    failed,
    gate,
    on,
    pink,
    steps,
    why,
)


def test_disagreeing_sources_leave_the_step_stop_and_are_each_named_with_their_answer():
    sources = ActiveShardSources(PURPLE_IS_ACTIVE.deploys, "active_command", ActiveShardAnswer("pink", "", NOW))
    answer = gate([*pink(3), *at_work()], sources=sources)
    assert (answer.passed, answer.role, steps(answer)) == (False, Role.UNKNOWN, [STOP])
    for text in (
        "the configuration says that pink is active (active_command)",
        "GitHub assigned 14 jobs to purple lately",
        "the last deploy says that purple is active",
    ):
        assert text in answer.next[0].why
    assert failed(answer) == {"role"}


def test_a_failed_source_is_named_and_does_not_disagree():
    sources = ActiveShardSources(PURPLE_IS_ACTIVE.deploys, "active_url", ActiveShardAnswer("", "it answered 503", NOW))
    answer = gate([*pink(3), *at_work()], sources=sources)
    assert answer.passed
    assert "the configuration has no answer: active_url failed, it answered 503" in check(answer, "role").text


def test_without_an_answer_of_any_source_no_step_changes_anything():
    answer = gate([*pink(3), on("purple", online())], sources=ActiveShardSources())
    assert (answer.passed, answer.role, steps(answer)) == (False, Role.UNKNOWN, [STOP])
    assert answer.next[0].why.startswith(
        "the active shard is unknown: GitHub has no answer: no jobs; no deploy was reported"
    )


@pytest.mark.parametrize(
    ("reported_at", "role"),
    [(NOW - 60 + MICROSECOND, "active"), (NOW - 60, "unknown"), (NOW + 60, "unknown")],
    ids=["reported after the job", "reported before the job", "reported by a clock that jumped"],
)
def test_jobs_taken_before_the_last_deploy_reported_the_active_shard_do_not_contradict_it(reported_at, role):
    sources = ActiveShardSources((Deploy("pink", Role.ACTIVE, DEPLOYED_AT, reported_at),))
    assert gate([*pink(1), *at_work("purple", 1, ago=60)], sources=sources).role == role


def test_two_shards_that_take_jobs_at_once_cause_a_warning_without_an_active_one():
    answer = gate([*at_work("pink", 2), *at_work("purple", 3)])
    assert answer.passed
    assert check(answer, "one-shard").text == (
        "warning: 2 shards take jobs at once: pink has taken 2 jobs, purple has taken 3 jobs in the last 10 minutes"
    )
    assert not check(answer, "one-shard").passed
    assert "it assigns jobs to pink and purple at once" in check(answer, "role").text


def test_the_step_to_stop_a_shard_names_the_jobs_that_it_would_interrupt():
    busy = on("pink", online(busy=True), 9)
    job = Job(77, "running", (), "acme/api", NOW - 90, on("pink", online()).id, "pink-1", NOW - 80)
    answer = gate([busy, on("pink", online()), *at_work("purple", 1)], jobs=[job])
    assert check(answer, "running-jobs").text == (
        "stopping pink would interrupt 2 running jobs: one on pink-9, 77 of acme/api; "
        "purple, which is active, runs 1 job: 101"
    )
    assert not check(answer, "running-jobs").passed
    answer = gate([busy, *at_work("purple", 1)], GateRequest("pink", min_online=2, failures=3))
    assert "cleaning up pink now would interrupt 1 running job: one on pink-9." in why(
        answer, "clean up pink and provision it again"
    )


def test_after_a_switch_the_other_shard_is_cleaned_up_with_a_warning_for_its_jobs():
    sources = ActiveShardSources((deploy("purple", "inactive"), deploy("pink", "active")))
    answer = gate([*at_work("pink", 3), *at_work("purple", 1, ago=3600)], sources=sources)
    assert (answer.passed, answer.role) == (True, Role.ACTIVE)
    assert steps(answer) == ["drain purple, then stop it"]
    assert "cost money and cause confusion" in answer.next[0].why
    assert "stopping purple now would interrupt 1 running job: 101." in answer.next[0].why
