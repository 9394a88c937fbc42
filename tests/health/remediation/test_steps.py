"""The last questions before a registration is taken away."""

import pytest

from ghapp.health.remediation.fuse import Position
from ghapp.health.remediation.steps import RemediationStep, RequestStep, may_act, request_step, step_after, successor_of
from ghapp.health.runner.verdict import State
from tests.health.builders import NOW, lost, online, present, registration

GRANTED = lost(granted_at=NOW, event_id="e1")


@pytest.mark.parametrize(
    ("evidence", "state", "changes", "may"),
    [
        (GRANTED, State.INVALIDATED, {}, True),
        (present(granted_at=NOW, event_id="e1"), State.OFFLINE, {}, True),
        (GRANTED, State.INVALIDATED, {"fuse": Position.PROVING}, True),
        (GRANTED._replace(removed_at=NOW), State.RETIRED, {}, True),
        (lost(), State.INVALIDATED, {}, False),
        (GRANTED._replace(replaced_at=NOW), State.INVALIDATED, {}, False),
        (GRANTED, State.SUSPECT, {}, False),
        (GRANTED, State.UNKNOWN, {}, False),
        (GRANTED, State.HEALTHY, {}, False),
        (GRANTED, State.RETIRED, {}, False),
        (GRANTED, State.INVALIDATED, {"fuse": Position.STOPPED}, False),
        (GRANTED, State.INVALIDATED, {"paused": True}, False),
        (GRANTED, State.INVALIDATED, {"mode": "dry-run"}, False),
        (GRANTED, State.INVALIDATED, {"mode": "off"}, False),
        (GRANTED._replace(removed_at=NOW), State.INVALIDATED, {"paused": True}, False),
        (GRANTED, State.INVALIDATED, {"claimed": True}, False),
        (GRANTED._replace(removed_at=NOW), State.INVALIDATED, {"claimed": True}, False),
        (GRANTED._replace(job_id=9, job_started_at=NOW), State.INVALIDATED, {}, False),
        (GRANTED._replace(removed_at=NOW, job_id=9, job_started_at=NOW), State.INVALIDATED, {}, False),
        (GRANTED._replace(job_id=9, job_started_at=NOW, job_ended_at=NOW), State.INVALIDATED, {}, True),
    ],
    ids=[
        "granted and lost",
        "granted for being offline",
        "one of a batch",
        "removed, and not replaced yet",
        "never granted",
        "replaced already",
        "a suspect again",
        "not known any more",
        "healthy again",
        "retired since",
        "the fuse stopped since",
        "paused since",
        "dry-run since",
        "off since",
        "removed, then paused",
        "claimed since",
        "removed, then claimed",
        "a job was reported since",
        "removed, then a job was reported",
        "its job is over",
    ],
)
def test_acting_needs_a_grant_that_still_holds(evidence, state, changes, may):
    given = {"fuse": Position.CLOSED, "mode": "act", "paused": False, "claimed": False} | changes
    assert may_act(evidence, state, now=NOW, **given) is may


@pytest.mark.parametrize(
    ("evidence", "step"),
    [
        (GRANTED._replace(removed_at=NOW), RequestStep.SEND),
        (None, RequestStep.SEND),
        (online(), RequestStep.WITHDRAW),
        (GRANTED._replace(event_id="e2"), RequestStep.WITHDRAW),
        (GRANTED._replace(removed_at=NOW, job_id=9, job_started_at=NOW), RequestStep.WAIT),
        (GRANTED._replace(removed_at=NOW, job_id=9, job_started_at=NOW, job_ended_at=NOW), RequestStep.SEND),
    ],
    ids=["lost", "not known any more", "back", "lost once more", "a job was reported since", "its job is over"],
)
def test_a_request_that_waits_for_its_controller_is_sent_only_while_it_holds(evidence, step):
    assert request_step(evidence, "e1", NOW) is step


@pytest.mark.parametrize(
    ("evidence", "step"),
    [
        (GRANTED._replace(removed_at=NOW), RequestStep.WAIT),
        (None, RequestStep.WAIT),
        (online(), RequestStep.WITHDRAW),
        (GRANTED._replace(event_id="e2"), RequestStep.WITHDRAW),
    ],
    ids=["lost", "not known any more", "back", "lost once more"],
)
def test_a_pause_holds_back_a_request_and_keeps_none_that_does_not_hold_any_more(evidence, step):
    assert request_step(evidence, "e1", NOW, paused=True) is step


OFFLINE = present(granted_at=NOW, event_id="e1")


@pytest.mark.parametrize(
    ("evidence", "answer", "step"),
    [
        (GRANTED, None, RemediationStep.REMOVE),
        (GRANTED, registration(), RemediationStep.RECORD_RETURN),
        (GRANTED, registration(online=True), RemediationStep.RECORD_RETURN),
        (OFFLINE, None, RemediationStep.CALL_OFF),
        (OFFLINE, registration(), RemediationStep.REMOVE),
        (OFFLINE, registration(online=True), RemediationStep.CALL_OFF),
        (OFFLINE, registration(busy=True), RemediationStep.CALL_OFF),
    ],
    ids=[
        "still gone",
        "lost, and there again, if only offline",
        "lost, and back",
        "offline, and one 404",
        "still offline",
        "offline, and back online",
        "offline, and at work",
    ],
)
def test_it_looks_again_before_it_removes(evidence, answer, step):
    assert step_after(evidence, answer, []) is step


@pytest.mark.parametrize(
    ("same_name", "step", "successor"),
    [
        ([registration()._replace(id=GRANTED.id + 1)], RemediationStep.RECORD_SUCCESSOR, GRANTED.id + 1),
        (
            [registration()._replace(id=GRANTED.id + n) for n in (2, 3, 1)],
            RemediationStep.RECORD_SUCCESSOR,
            GRANTED.id + 3,
        ),
        ([registration()._replace(id=GRANTED.id)], RemediationStep.RECORD_RETURN, None),
        ([registration()._replace(id=GRANTED.id - 1)], RemediationStep.REMOVE, None),
        ([registration()._replace(id=GRANTED.id + 1, name="another")], RemediationStep.REMOVE, None),
    ],
    ids=["configured anew", "more than once", "listed, though its GET is a 404", "an older one", "of another name"],
)
def test_whoever_was_configured_anew_since_the_last_sweep_is_not_replaced(same_name, step, successor):
    assert step_after(GRANTED, None, same_name) is step
    assert successor_of(GRANTED, same_name) == successor
