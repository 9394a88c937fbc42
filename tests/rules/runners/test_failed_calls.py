"""After a failed call about a runner, the next one waits twice as long as the one before."""

from __future__ import annotations

import pytest

from ghapp.remediation.steps import ReplacementPath, RequestStep, awaits_remediation, request_step
from ghapp.runners import absence
from ghapp.runners.evidence import FailedCalls
from ghapp.runners.failed_calls import call_failed, failed_calls, may_call, retry_at
from ghapp.runners.verdict import Limits, Reason
from tests.rules.builders import MICROSECOND, NOW, lost, online, present, registration, survey, suspect

LIMITS = Limits()
DAY = 86_400.0


def failed(evidence, times=1, last_at=NOW):
    return evidence._replace(failed_calls=FailedCalls(times, last_at, "GitHub answered 500"))


@pytest.mark.parametrize(
    ("times", "wait"), [(1, 30), (2, 60), (3, 120), (4, 240), (5, 480), (6, 960), (7, 960), (10_000, 960)]
)
def test_each_failure_doubles_the_wait_up_to_sixteen_minutes(times, wait):
    evidence = failed(lost(), times)
    assert retry_at(evidence) == NOW + wait
    assert not may_call(evidence, NOW)
    assert not may_call(evidence, NOW + wait - MICROSECOND)
    assert may_call(evidence, NOW + wait)


def test_a_failure_that_is_dated_in_the_future_is_none():
    assert may_call(failed(lost(), last_at=NOW + MICROSECOND), NOW)


def test_failures_in_a_row_are_counted_and_those_of_an_earlier_loss_are_not():
    evidence = lost(absent_since=NOW - 60, first_404_at=NOW - 50)
    for times in (1, 2, 3):
        evidence = call_failed(evidence, NOW + times, "why", Reason.GITHUB_UNAVAILABLE)
        assert evidence.failed_calls == FailedCalls(times, NOW + times, "why", Reason.GITHUB_UNAVAILABLE)
    again = evidence._replace(absent_since=NOW + 100, first_404_at=NOW + 110)
    assert (failed_calls(again), may_call(again, NOW + 4)) == (None, True)
    assert call_failed(again, NOW + 120, "why", Reason.GITHUB_UNAVAILABLE).failed_calls.times == 1


@pytest.mark.parametrize(
    ("evidence", "counts"),
    [
        (present(offline_since=NOW), True),
        (present(offline_since=NOW + MICROSECOND), False),
        (online(), False),
    ],
    ids=["offline since then", "offline again", "online"],
)
def test_failures_of_an_offline_runner_belong_to_its_time_offline(evidence, counts):
    assert (failed_calls(failed(evidence)) is not None) is counts


def test_a_long_reason_is_cut_and_a_deleted_record_stays_deleted():
    assert len(call_failed(lost(), NOW, "x" * 1000, Reason.GITHUB_UNAVAILABLE).failed_calls.why) == 200
    assert call_failed(None, NOW, "why", Reason.GITHUB_UNAVAILABLE) is None


@pytest.mark.parametrize(("after", "asks"), [(29.999, False), (30.0, True)])
def test_a_suspect_without_an_answer_is_asked_again_after_the_wait(after, asks):
    first = failed(suspect(first_404_at=None, absent_since=NOW - 60))
    now = NOW + after
    assert absence.not_yet_queried([first], survey(swept_at=now), now, LIMITS) == ([first.id] if asks else [])


@pytest.mark.parametrize(("after", "asks"), [(29.999, False), (30.0, True)])
def test_a_suspect_whose_second_get_failed_is_confirmed_after_the_wait(after, asks):
    second = failed(suspect(first_404_at=NOW - 30, absent_since=NOW - 60))
    now = NOW + after
    assert list(absence.due([second], survey(swept_at=now), now, LIMITS)) == ([second.id] if asks else [])
    assert absence.confirm_at([second], survey(swept_at=NOW), NOW, LIMITS) == [NOW + 30]


@pytest.mark.parametrize("answer", [None, registration(online=True)], ids=["404", "found"])
def test_an_answer_ends_the_wait(answer):
    waiting = failed(suspect(first_404_at=NOW - 30, absent_since=NOW - 60), 9)
    assert absence.folds_of_get(answer, NOW + 1)(waiting).failed_calls is None
    assert absence.confirmed(waiting, answer, NOW + 1)(waiting).failed_calls is None


GRANTED = lost(granted_at=NOW - 60, event_id="e1")


@pytest.mark.parametrize("path", ReplacementPath)
def test_no_plan_repeats_a_remediation_before_its_call_is_due(path):
    def awaits(after):
        return awaits_remediation(failed(GRANTED), path, NOW + after, is_unsent=False, is_published=False)

    assert (awaits(29.999), awaits(30.0)) == (False, True)


def test_no_look_for_a_request_is_repeated_before_its_call_is_due():
    removed = failed(GRANTED._replace(removed_at=NOW - 30))
    assert request_step(removed, "e1", NOW + 29.999) is RequestStep.WAIT
    assert request_step(removed, "e1", NOW + 30) is RequestStep.LOOK
    assert request_step(removed._replace(looked_at=NOW), "e1", NOW) is RequestStep.SEND
