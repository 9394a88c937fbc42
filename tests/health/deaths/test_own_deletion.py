"""Ends that are ghapp's own replacements do not count as deaths."""

from __future__ import annotations

import pytest

from ghapp.health.deaths.own_deletion import is_own_replacement
from ghapp.health.pods.deletion_guards import CLOCK_SLACK_SECONDS
from ghapp.health.pods.pod import Ended
from ghapp.health.runner.deletion_progress import accepted, found
from tests.health.builders import NOW
from tests.health.pods.builders import container, pod, pod_of_object

TARGET = found(None, NOW, "pod-1", "runners/linux-1", left_to_arc=False)
TARGET_OBJECT = found(None, NOW, "object-1", "runners/linux-1", left_to_arc=True)
DONE, DONE_OBJECT = accepted(TARGET, NOW + 1, None), accepted(TARGET_OBJECT, NOW + 1, NOW + 126)


def ended(at):
    return container(running_since=None, ended=Ended(143, None, "Error", finished_at=at))


@pytest.mark.parametrize(
    "deletion", [DONE, TARGET], ids=["accepted", "sent, and a crash before the answer was recorded"]
)
def test_a_pod_deleted_by_its_replacement_is_no_death(deletion):
    assert is_own_replacement(pod(deleting_since=NOW + 1, runner=ended(NOW + 31)), deletion)


def test_an_arc_pod_whose_object_ghapp_deleted_is_no_death():
    assert is_own_replacement(pod_of_object(deleting_since=NOW + 2, runner=ended(NOW + 32)), DONE_OBJECT)


def test_a_deleted_pod_with_an_unseen_end_is_no_death():
    assert is_own_replacement(pod(), DONE)


@pytest.mark.parametrize(("at", "is_own"), [(NOW, False), (NOW + 1, True)])
def test_a_pod_that_ended_before_its_deletion_was_requested_is_a_death(at, is_own):
    assert is_own_replacement(pod(deleting_since=NOW + 1, runner=ended(at)), DONE) is is_own


def test_a_pod_that_ended_and_is_not_terminating_is_a_death():
    assert not is_own_replacement(pod(runner=ended(NOW + 9)), DONE)


@pytest.mark.parametrize("deletion", [None, DONE._replace(uid=""), DONE._replace(uid="pod-0")])
def test_another_pod_than_the_target_of_the_deletion_is_a_death(deletion):
    assert not is_own_replacement(pod(deleting_since=NOW + 1, runner=ended(NOW + 31)), deletion)


@pytest.mark.parametrize(("before", "is_own"), [(CLOCK_SLACK_SECONDS, True), (CLOCK_SLACK_SECONDS + 1, False)])
@pytest.mark.parametrize("deletion", [TARGET, accepted(TARGET, NOW + 1, NOW + 126, already_deleted=True)])
def test_a_pod_whose_deletion_another_client_requested_is_a_death(deletion, before, is_own):
    requested_at = NOW - before
    assert is_own_replacement(pod(deleting_since=requested_at, runner=ended(NOW + 31)), deletion) is is_own
