"""The progress of a deletion in the cluster, step by step."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.remediation.fuse import Fuse, Position
from ghapp.remediation.plan import Candidate, Deferral, PoolCapacity, RemediationLimits, plan
from ghapp.remediation.steps import is_open, may_act
from ghapp.report.documents import history
from ghapp.runners.deletion_progress import (
    LEAST_PAUSE_SECONDS,
    MOST_PAUSE_SECONDS,
    Deletion,
    accepted,
    found,
    freed,
    is_deferred,
    over,
    waits,
)
from ghapp.runners.observations import SeenBy, grant_revoked, registration_seen
from ghapp.runners.verdict import State
from tests.rules.builders import MICROSECOND, NOW, lost, registration, survey

FOUND = found(None, NOW, "object-1", "runners/linux-1", left_to_arc=True)


def test_a_waiting_deletion_is_checked_again_after_the_time_already_waited():
    first = waits(None, NOW, "NotRunning")
    assert (first.waiting_since, first.look_at) == (NOW, NOW + LEAST_PAUSE_SECONDS)
    later = waits(first, NOW + 100, "NotRunning")
    assert (later.waiting_since, later.look_at) == (NOW, NOW + 200)
    much_later = waits(later, NOW + 9000, "NotRunning")
    assert much_later.look_at == NOW + 9000 + MOST_PAUSE_SECONDS


def test_another_reason_restarts_the_wait():
    other = waits(waits(None, NOW, "NotRunning"), NOW + 100, "PodClaimed")
    assert (other.waiting_since, other.look_at) == (NOW + 100, NOW + 100 + LEAST_PAUSE_SECONDS)


@pytest.mark.parametrize(("after", "look_at"), [(1.0, NOW + 1), (9000.0, NOW + MOST_PAUSE_SECONDS)])
def test_a_deletion_with_a_known_wait_is_checked_when_the_wait_ends(after, look_at):
    assert waits(None, NOW, "WithinGrace", after).look_at == look_at


@pytest.mark.parametrize(
    ("look_at", "deferred"),
    [
        (None, False),
        (NOW - MICROSECOND, False),
        (NOW, False),
        (NOW + MICROSECOND, True),
        (NOW + MOST_PAUSE_SECONDS, True),
        (NOW + MOST_PAUSE_SECONDS + 1, False),
    ],
    ids=["never waited", "overdue", "due", "not yet due", "the longest pause", "written by a clock that jumped"],
)
def test_a_deletion_is_deferred_until_its_next_check(look_at, deferred):
    assert is_deferred(Deletion(look_at=look_at), NOW) is deferred


def test_a_deletion_never_tried_is_not_deferred():
    assert not is_deferred(None, NOW)


def test_arc_removes_the_registration_only_once_its_object_is_found():
    """A deletion that is blocked before shows that ghapp removed the registration itself."""
    waiting = waits(None, NOW, "ClusterForbidden")
    assert (waiting.left_to_arc, FOUND.left_to_arc) == (False, True)
    facts = [facts for _, _, facts in history(lost(granted_at=NOW, removed_at=NOW, deletion=waiting), survey())]
    assert "registration removed" in facts


def test_the_reason_of_a_wait_is_cleared_only_when_the_deletion_is_accepted():
    waiting = waits(FOUND, NOW, "ClusterForbidden")
    again = found(waiting, NOW + 60, "object-1", "runners/linux-1", left_to_arc=True)
    assert again.waits_for == "ClusterForbidden"
    assert again.waiting_since == NOW, "otherwise each try would restart the pauses"
    assert accepted(again, NOW + 61, None).waits_for == ""


def test_a_deletion_of_an_object_is_under_way_until_the_object_is_deleted():
    assert not FOUND.is_under_way
    begun = accepted(FOUND, NOW, NOW + 125)
    assert begun.is_under_way
    assert is_deferred(begun, NOW)
    assert freed(begun, NOW + 130).is_under_way
    assert not over(begun, NOW + 131).is_under_way


def test_a_deletion_of_a_pod_is_over_when_it_is_accepted():
    assert not accepted(FOUND, NOW, None).is_under_way


@given(st.floats(NOW, NOW + 1000))
def test_a_completed_step_is_not_repeated(at):
    begun = accepted(FOUND, NOW, None)
    assert accepted(begun, at, at + 1) is begun
    ended = over(freed(accepted(FOUND, NOW, NOW + 1), NOW), NOW)
    assert over(freed(ended, at), at) is ended


def test_a_returned_registration_clears_the_deletion():
    evidence = lost(deletion=waits(FOUND, NOW, "NotRunning"), granted_at=NOW, event_id="e1")
    assert registration_seen(evidence, registration(online=True), NOW + 1, by=SeenBy.LIST).deletion is None


def test_a_revoked_grant_keeps_the_deletion():
    waiting = waits(None, NOW, "NotRunning")
    assert grant_revoked(lost(deletion=waiting, granted_at=NOW, event_id="e1")).deletion == waiting


@pytest.mark.parametrize(
    ("changes", "is_left"),
    [
        ({}, True),
        ({"replaced_at": NOW}, False),
        ({"replaced_at": NOW, "deletion": accepted(FOUND, NOW, NOW + 125)}, True),
        ({"replaced_at": NOW, "deletion": accepted(FOUND, NOW, None)}, False),
        ({"granted_at": None}, False),
        ({"event_id": None}, False),
    ],
    ids=["granted", "replaced", "accepted, and Terminating", "accepted, and deleted", "never granted", "revoked"],
)
def test_a_granted_replacement_is_open_until_its_target_is_deleted(changes, is_left):
    evidence = lost(**({"granted_at": NOW, "event_id": "e1"} | changes))
    assert is_open(evidence) is is_left
    assert may_act(evidence, State.INVALIDATED, Fuse(), "act", NOW, paused=False) is is_left
    assert not may_act(evidence, State.INVALIDATED, Fuse(), "act", NOW, paused=True)
    assert not may_act(evidence, State.INVALIDATED, Fuse(Position.STOPPED), "act", NOW, paused=False)
    assert not may_act(evidence, State.INVALIDATED, Fuse(), "dry-run", NOW, paused=False)


def test_a_candidate_that_waits_in_the_cluster_takes_no_room_and_is_deferred():
    waiting = Candidate(1, "pool", since=NOW - 9, waits=True)
    chosen = plan(
        [waiting, Candidate(2, "pool", since=NOW)], {"pool": PoolCapacity(room=1)}, RemediationLimits(mode="act")
    )
    assert chosen.chosen == (2,)
    assert chosen.deferred == {1: Deferral.WAITS}


def test_evidence_of_one_second_is_listed_in_the_order_in_which_it_happens():
    evidence = lost(
        job_id=7, job_started_at=NOW + 0.9, job_ended_at=NOW + 0.1, absent_since=NOW + 0.4, first_404_at=NOW + 0.4
    )
    facts = [text for at, _, text in history(evidence, survey()) if int(at) == int(NOW)]
    assert [each for each in facts if "job" in each] == ["took job 7", "ended job 7"]
    assert facts.index("ended job 7") < facts.index("404")


def lines(evidence):
    return [(at, facts) for at, source, facts in history(evidence, survey()) if source == "pod"]


def test_the_evidence_lists_the_target_and_each_step():
    deletion = over(freed(accepted(FOUND, NOW + 1, NOW + 126), NOW + 130), NOW + 140)
    evidence = lost(granted_at=NOW, removed_at=NOW + 1, replaced_at=NOW + 1, deletion=deletion)
    assert lines(evidence) == [
        (NOW, "found runners/linux-1"),
        (NOW + 1, "the cluster accepted the deletion of ARC's object"),
        (NOW + 130, "its finalizer was removed: it was stuck waiting for GitHub"),
        (NOW + 140, "ARC's object is deleted"),
    ]
    facts = [facts for _, _, facts in history(evidence, survey())]
    assert "registration removed" not in facts, "ARC removes the registration"
    assert "replacement accepted" in facts


@pytest.mark.parametrize(
    ("look_at", "text"),
    [
        (None, "ARC's object was already deleted from the cluster"),
        (NOW + 126, "ARC's object was already being deleted"),
    ],
)
def test_the_evidence_shows_no_accepted_deletion_if_ghapp_deleted_nothing(look_at, text):
    """After a 409 to the DELETE, a GET finds another object of the same name, or none."""
    done = accepted(FOUND, NOW + 1, look_at, already_deleted=True)
    assert lines(lost(granted_at=NOW, replaced_at=NOW + 1, deletion=done))[1] == (NOW + 1, text)


def test_the_evidence_shows_the_reason_of_a_wait():
    (line,) = lines(lost(deletion=waits(None, NOW, "ClusterForbidden")))
    assert line == (NOW, "waits (ClusterForbidden): RBAC lacks a verb; `ghapp doctor` names it")


def test_the_evidence_shows_that_nothing_was_left_to_delete():
    nothing = accepted(found(None, NOW, "", "no pod of its name in runners", left_to_arc=False), NOW + 1, None)
    assert lines(lost(deletion=nothing, removed_at=NOW)) == [
        (NOW, "found no pod of its name in runners"),
        (NOW + 1, "nothing was left to delete"),
    ]
