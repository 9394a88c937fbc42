"""Errors found by `make simulate`, each reproduced in the shortest way, without a seed."""

import pytest

from ghapp.remediation.decision import DecisionInputs, decide
from ghapp.remediation.fuse import FuseLimits
from ghapp.remediation.fuse_counts import fuse_counts
from ghapp.remediation.plan import RemediationLimits
from ghapp.runners.absence import RunnerList, folds_of_get, folds_of_list
from ghapp.runners.evidence import STALE_LIST_SECONDS
from ghapp.runners.observations import (
    LIST_LAG_SECONDS,
    SeenBy,
    get_missed,
    job_ended,
    job_started,
    registration_seen,
    removed,
)
from ghapp.runners.verdict import Limits, State, judge
from tests.rules.builders import NOW, lost, online, present, proving, registration, survey


def test_only_the_first_batch_is_granted_after_a_return_before_the_plan():
    back = online(1, first_seen=NOW - 9000, back_at=NOW - 0.4)
    waiting = [(lost(runner_id), State.INVALIDATED) for runner_id in range(2, 12)]
    decision = decide(
        {"linux-4vcpu": [(back, State.HEALTHY), *waiting]},
        {"linux-4vcpu": proving(since=NOW - 60, batch_at=NOW - 60)},
        (),
        (),
        FuseLimits(),
        RemediationLimits(mode="act"),
        DecisionInputs(survey(), NOW),
    )
    assert decision.fuse_changes == ()
    assert len(decision.plan.chosen) == FuseLimits().first_batch


def test_an_offline_runner_is_offline_since_its_last_sign_of_life():
    ended_a_job = present(offline_since=NOW - 3600, job_id=5, job_started_at=NOW - 900, job_ended_at=NOW - 10)
    verdict = judge(ended_a_job._replace(last_delivery_at=NOW - 10), survey(), NOW, Limits())
    assert (verdict.state, verdict.since) == (State.HEALTHY, NOW - 10)


REPLACED = lost(granted_at=NOW, event_id="e1", removed_at=NOW, replaced_at=NOW)


@pytest.mark.parametrize(
    ("was_deleted", "after", "event_id"),
    [
        (True, LIST_LAG_SECONDS, "e1"),
        (True, LIST_LAG_SECONDS + 1.0, None),
        (False, STALE_LIST_SECONDS - 60.0, "e1"),
        (False, STALE_LIST_SECONDS - 60.0 + 1.0, None),
    ],
    ids=[
        "deleted, lists may lag",
        "deleted, lists have caught up",
        "it was missing before, and the list may be of that time",
        "it was missing before, and the list is newer",
    ],
)
def test_a_list_older_than_a_removal_does_not_cause_a_second_replacement(was_deleted, after, event_id):
    back, removed = registration(online=True), REPLACED._replace(was_deleted=was_deleted)
    fold = folds_of_list(RunnerList({1: back}, 1), {1: removed}, survey(), NOW + after)[1]
    shown = fold(removed)
    assert shown is not None
    assert shown.event_id == event_id


def test_a_get_of_a_returned_runner_clears_its_confirmation_at_once():
    shown = folds_of_get(registration(online=True), NOW + 1.0)(REPLACED)
    assert shown is not None
    assert shown.confirmed_at is None


@pytest.mark.parametrize(("removed_at", "granted"), [(None, 1), (NOW, 2)], ids=["known in time", "removed before"])
def test_the_fuse_does_not_wait_for_a_runner_whose_job_was_over(removed_at, granted):
    acted_on = lost(1, granted_at=NOW, removed_at=NOW, replaced_at=NOW)
    spent = lost(2, ephemeral=True, job_id=5, job_ended_at=NOW - 60, granted_at=NOW, removed_at=removed_at)
    counted = fuse_counts(
        [(acted_on, State.INVALIDATED), (spent, State.RETIRED)], proving(), survey(), NOW + 1, FuseLimits()
    )
    assert (counted.granted, counted.accepted) == (granted, 1)


GRANTED = lost(granted_at=NOW, event_id="e1")
RETURNED = registration_seen(GRANTED, registration(online=True), NOW + 1, by=SeenBy.GET)


@pytest.mark.parametrize(
    ("known", "was_deleted", "event_id"),
    [
        (GRANTED, False, "e1"),
        (job_started(GRANTED, 7, NOW - 60), False, "e1"),
        (RETURNED, False, None),
        (get_missed(RETURNED, NOW + 2), False, None),
        (RETURNED, True, "e1"),
    ],
    ids=["nothing", "a job was reported", "it was back", "it was back, and is missing again", "it was back until then"],
)
def test_a_removal_that_answers_404_restores_no_grant_that_a_return_has_revoked(known, was_deleted, event_id):
    after = removed(known, NOW + 3, granted=GRANTED, was_deleted=was_deleted)
    assert after.event_id == event_id
    assert (after.removed_at is not None) is (event_id is not None)


def test_a_job_reported_after_the_confirmation_revokes_the_confirmation():
    evidence = job_started(lost(granted_at=NOW, event_id="e1"), 7, NOW - 60)
    assert (evidence.confirmed_at, evidence.granted_at, evidence.event_id) == (None, None, None)
    assert judge(evidence, survey(), NOW, Limits()).state is State.SUSPECT


def test_a_replacement_before_a_jobs_report_is_kept():
    evidence = job_started(REPLACED, 7, NOW - 60)
    assert (evidence.confirmed_at, evidence.event_id) == (NOW, "e1")


def test_an_old_list_read_by_a_clock_that_jumped_does_not_make_a_runner_persistent():
    spent = job_ended(online(ephemeral=None, observed_at=NOW - 30), 7, NOW)
    shown = registration_seen(spent, registration(online=True, ephemeral=None), NOW + 86_400, by=SeenBy.LIST)
    assert shown.ephemeral is None
