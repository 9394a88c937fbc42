"""The last checks before a registration is removed."""

import pytest

from ghapp.remediation.fuse import Fuse, FuseReason, Position
from ghapp.remediation.steps import (
    LOOK_LASTS_SECONDS,
    RemediationStep,
    ReplacementPath,
    RequestStep,
    accepted,
    awaits_remediation,
    is_open,
    may_act,
    may_hand_out,
    may_terminate,
    request_id,
    request_step,
    step_after,
    successor_of,
)
from ghapp.runners.deletion_progress import Deletion
from ghapp.runners.verdict import Limits, State, judge
from tests.rules.builders import MICROSECOND, NOW, lost, online, present, registration, survey

GRANTED = lost(granted_at=NOW, event_id=b"e1".decode())
"""Its event's id is equal to the one that is asked for, and another object, as one that was read from Redis is."""

STOPPED = Fuse(Position.STOPPED, reason=FuseReason.BATCH_NEVER_ONLINE)
INVALIDATED = judge(GRANTED, survey(), NOW, Limits())
DEAF = Fuse(Position.STOPPED, reason=FuseReason.REQUEST_NOT_ACCEPTED)


@pytest.mark.parametrize(
    ("evidence", "state", "changes", "may"),
    [
        (GRANTED, State.INVALIDATED, {}, True),
        (present(granted_at=NOW, event_id="e1"), State.OFFLINE, {}, True),
        (GRANTED, State.INVALIDATED, {"fuse": Fuse(Position.PROVING)}, True),
        (GRANTED._replace(removed_at=NOW), State.RETIRED, {}, True),
        (lost(), State.INVALIDATED, {}, False),
        (GRANTED._replace(replaced_at=NOW), State.INVALIDATED, {}, False),
        (GRANTED, State.SUSPECT, {}, False),
        (GRANTED, State.UNKNOWN, {}, False),
        (GRANTED, State.HEALTHY, {}, False),
        (GRANTED, State.RETIRED, {}, False),
        (GRANTED, State.INVALIDATED, {"fuse": STOPPED}, False),
        (GRANTED, State.INVALIDATED, {"fuse": DEAF}, True),
        (GRANTED, State.INVALIDATED, {"paused": True}, False),
        (GRANTED, State.INVALIDATED, {"mode": "dry-run"}, False),
        (GRANTED, State.INVALIDATED, {"mode": "off"}, False),
        (GRANTED._replace(removed_at=NOW), State.INVALIDATED, {"paused": True}, False),
        (GRANTED, State.INVALIDATED, {"claimed": True}, False),
        (GRANTED._replace(removed_at=NOW), State.INVALIDATED, {"claimed": True}, False),
        (GRANTED._replace(job_id=9, job_started_at=NOW), State.INVALIDATED, {}, False),
        (GRANTED._replace(removed_at=NOW, job_id=9, job_started_at=NOW), State.INVALIDATED, {}, False),
        (GRANTED._replace(job_id=9, job_started_at=NOW, job_ended_at=NOW), State.INVALIDATED, {}, True),
        (GRANTED._replace(removed_at=NOW, reregistered_as=2), State.RETIRED, {}, False),
        (GRANTED._replace(removed_at=NOW, retired_at=NOW), State.RETIRED, {}, False),
    ],
    ids=[
        "granted and lost",
        "granted for being offline",
        "in a proving fuse's batch",
        "removed, not yet replaced",
        "never granted",
        "already replaced",
        "suspect again",
        "unknown",
        "healthy again",
        "retired since",
        "the fuse stopped since",
        "the fuse stopped since because nothing was accepted",
        "paused since",
        "dry-run since",
        "off since",
        "removed, then paused",
        "claimed since",
        "removed, then claimed",
        "a job was reported since",
        "removed, then a job was reported",
        "job over",
        "removed, then registered again under its name",
        "removed, then removed on purpose by its controller",
    ],
)
def test_acting_requires_a_valid_grant(evidence, state, changes, may):
    given = {"fuse": Fuse(), "mode": "act", "paused": False, "claimed": False} | changes
    assert may_act(evidence, state, now=NOW, **given) is may


@pytest.mark.parametrize(
    ("changes", "may"),
    [
        ({}, True),
        ({"evidence": GRANTED._replace(replaced_at=NOW)}, True),
        ({"evidence": lost()}, False),
        ({"evidence": GRANTED._replace(granted_at=NOW - 3600.0)}, True),
        ({"evidence": GRANTED._replace(granted_at=NOW - 3600.0 - MICROSECOND)}, False),
        ({"evidence": GRANTED._replace(granted_at=NOW + MICROSECOND)}, False),
        ({"evidence": GRANTED._replace(job_id=9, job_started_at=NOW)}, False),
        ({"verdict": INVALIDATED._replace(stale=True)}, False),
        ({"verdict": INVALIDATED._replace(state=State.RETIRED)}, False),
        ({"fuse": Fuse(Position.PROVING)}, True),
        ({"fuse": DEAF}, True),
        ({"fuse": STOPPED}, False),
        ({"mode": "dry-run"}, False),
        ({"mode": "off"}, False),
        ({"paused": True}, False),
        ({"claimed": True}, False),
    ],
    ids=[
        "granted", "accepted", "not granted", "granted an hour ago", "before that", "granted in the future", "at work",
        "by an old observation", "retired", "proving", "nothing was accepted", "stopped", "dry-run", "off", "paused",
        "claimed",
    ],
)  # fmt: skip
def test_a_process_may_end_itself_only_while_acting_is_permitted(changes, may):
    given = {
        "evidence": GRANTED, "verdict": INVALIDATED, "fuse": Fuse(), "mode": "act", "paused": False, "claimed": False,
    } | changes  # fmt: skip
    assert may_terminate(now=NOW, **given) is may


WAITING = GRANTED._replace(removed_at=NOW, looked_at=NOW)


@pytest.mark.parametrize(
    ("evidence", "step"),
    [
        (WAITING, RequestStep.SEND),
        (WAITING._replace(looked_at=NOW - LOOK_LASTS_SECONDS), RequestStep.SEND),
        (WAITING._replace(looked_at=NOW - LOOK_LASTS_SECONDS - MICROSECOND), RequestStep.LOOK),
        (WAITING._replace(looked_at=NOW + MICROSECOND), RequestStep.LOOK),
        (WAITING._replace(looked_at=None), RequestStep.LOOK),
        (None, RequestStep.WITHDRAW),
        (online(), RequestStep.WITHDRAW),
        (WAITING._replace(event_id="e2"), RequestStep.WITHDRAW),
        (WAITING._replace(job_id=9, job_started_at=NOW), RequestStep.WAIT),
        (WAITING._replace(job_id=9, job_started_at=NOW, job_ended_at=NOW), RequestStep.SEND),
        (WAITING._replace(reregistered_as=2), RequestStep.WITHDRAW),
        (WAITING._replace(retired_at=NOW), RequestStep.WITHDRAW),
        (WAITING._replace(replaced_at=NOW), RequestStep.WITHDRAW),
    ],
    ids=[
        "GitHub has just been asked",
        "asked a moment ago",
        "asked too long ago",
        "asked in the future",
        "never asked",
        "no record proves it",
        "back",
        "lost once more",
        "a job was reported since",
        "its job is over",
        "registered again under its name",
        "removed on purpose by its controller",
        "accepted, or reported as replaced",
    ],
)
def test_a_request_leaves_only_while_its_grant_is_valid_and_github_was_just_asked(evidence, step):
    assert request_step(evidence, "e1", NOW) is step


@pytest.mark.parametrize(
    ("evidence", "step"),
    [
        (WAITING, RequestStep.WAIT),
        (WAITING._replace(looked_at=None), RequestStep.WAIT),
        (online(), RequestStep.WITHDRAW),
        (WAITING._replace(event_id="e2"), RequestStep.WITHDRAW),
    ],
    ids=["lost", "GitHub was not asked", "back", "lost once more"],
)
def test_what_holds_a_valid_request_back_withdraws_an_invalid_one(evidence, step):
    assert request_step(evidence, "e1", NOW, held=True) is step


REMOVED = GRANTED._replace(removed_at=NOW)
UNDER_WAY = REMOVED._replace(replaced_at=NOW, deletion=Deletion(accepted_at=NOW))
CLUSTER, EVENT, POLL = ReplacementPath.CLUSTER, ReplacementPath.EVENT, ReplacementPath.POLL


@pytest.mark.parametrize(
    ("evidence", "path", "is_unsent", "is_published", "awaits"),
    [
        (REMOVED, EVENT, False, True, True),
        (REMOVED, EVENT, False, False, True),
        (REMOVED, EVENT, True, True, False),
        (REMOVED._replace(deletion=Deletion(look_at=NOW + 1)), EVENT, False, True, True),
        (REMOVED._replace(replaced_at=NOW), EVENT, False, True, False),
        (UNDER_WAY, EVENT, False, False, False),
        (GRANTED, POLL, False, True, True),
        (REMOVED, POLL, False, False, True),
        (REMOVED, POLL, False, True, False),
        (REMOVED._replace(replaced_at=NOW), POLL, False, False, False),
        (REMOVED, CLUSTER, True, True, True),
        (UNDER_WAY, CLUSTER, False, False, True),
        (REMOVED._replace(deletion=Deletion(look_at=NOW)), CLUSTER, False, False, True),
        (REMOVED._replace(deletion=Deletion(look_at=NOW + MICROSECOND)), CLUSTER, False, False, False),
        (lost(), EVENT, False, False, False),
        (REMOVED._replace(reregistered_as=2), EVENT, False, False, False),
    ],
    ids=[
        "published for pollers, and not sent",
        "a crash before the request",
        "the request waits for its URL",
        "what its former replacer waited for is over",
        "the URL accepted the request",
        "its former replacer deletes its pod",
        "a crash before the removal",
        "a crash between removal and publication",
        "its controller polls",
        "its controller reported the replacement",
        "to be deleted, with a request of the former replacer",
        "its pod is Terminating",
        "its pod may be checked again now",
        "its pod may be checked again in a moment",
        "never granted",
        "registered again",
    ],
)
def test_a_grant_is_done_when_the_replacer_of_its_pool_has_what_it_needs(
    evidence, path, is_unsent, is_published, awaits
):
    assert awaits_remediation(evidence, path, NOW, is_unsent=is_unsent, is_published=is_published) is awaits


@pytest.mark.parametrize(
    ("evidence", "path", "is_read"),
    [
        (REMOVED, EVENT, True),
        (REMOVED, CLUSTER, True),
        (REMOVED, POLL, False),
        (REMOVED._replace(replaced_at=NOW), EVENT, True),
        (REMOVED._replace(replaced_at=NOW - LOOK_LASTS_SECONDS), EVENT, True),
        (REMOVED._replace(replaced_at=NOW - LOOK_LASTS_SECONDS - MICROSECOND), EVENT, False),
        (REMOVED._replace(replaced_at=NOW + MICROSECOND), EVENT, False),
        (REMOVED._replace(reregistered_as=2), EVENT, False),
        (REMOVED._replace(replaced_at=NOW, reregistered_as=2), EVENT, False),
        (REMOVED._replace(retired_at=NOW), EVENT, False),
        (REMOVED._replace(event_id="e2"), EVENT, False),
        (online(), EVENT, False),
        (None, EVENT, False),
    ],
    ids=[
        "open",
        "open, and its pool has another replacer",
        "its controller polls",
        "accepted now",
        "accepted a moment ago",
        "accepted before that",
        "accepted in the future",
        "registered again under its name",
        "accepted, and registered again under its name",
        "removed on purpose",
        "lost once more",
        "back",
        "no record",
    ],
)
def test_a_listener_reads_no_request_that_is_over(evidence, path, is_read):
    assert may_hand_out(evidence, path, "e1", NOW) is is_read


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        (lost(confirmed_at=NOW + 9), True),
        (lost(granted_at=NOW, event_id="e1"), True),
        (lost(first_404_at=NOW - 29), False),
        (lost(2), False),
        (present(offline_since=NOW - 30), False),
    ],
    ids=[
        "confirmed once more",
        "granted before",
        "lost another time",
        "another runner",
        "offline, not missing, since then",
    ],
)
def test_one_loss_has_one_request(other, is_same):
    """Redis may lose its last second: what is granted again must be the same request."""
    assert (request_id(1, other) == request_id(1, lost())) is is_same
    assert request_id(2, lost()) != request_id(1, lost())


OFFLINE = present(granted_at=NOW, event_id="e1")


@pytest.mark.parametrize(
    ("evidence", "answer", "step"),
    [
        (GRANTED, None, RemediationStep.PROCEED),
        (GRANTED, registration(), RemediationStep.RECORD_RETURN),
        (GRANTED, registration(online=True), RemediationStep.RECORD_RETURN),
        (OFFLINE, None, RemediationStep.CALL_OFF),
        (OFFLINE, registration(), RemediationStep.PROCEED),
        (OFFLINE, registration(online=True), RemediationStep.CALL_OFF),
        (OFFLINE, registration(busy=True), RemediationStep.CALL_OFF),
        (GRANTED._replace(removed_at=NOW), None, RemediationStep.PROCEED),
        (GRANTED._replace(removed_at=NOW), registration(), RemediationStep.RECORD_RETURN),
        (OFFLINE._replace(removed_at=NOW), None, RemediationStep.PROCEED),
        (OFFLINE._replace(removed_at=NOW), registration(), RemediationStep.RECORD_RETURN),
    ],
    ids=[
        "lost, still a 404",
        "lost, registered again, offline",
        "lost, online again",
        "offline, then a 404",
        "still offline",
        "offline, then online",
        "offline, then busy",
        "removed, and the request waited",
        "removed, then registered again",
        "removed for being offline, and the request waited",
        "removed for being offline, and still registered",
    ],
)
def test_a_runner_is_queried_again_before_its_removal(evidence, answer, step):
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
        ([registration()._replace(id=GRANTED.id - 1)], RemediationStep.PROCEED, None),
        ([registration()._replace(id=GRANTED.id + 1, name="another")], RemediationStep.PROCEED, None),
    ],
    ids=[
        "registered again",
        "registered more than once",
        "listed, though its GET is a 404",
        "an older registration",
        "of another name",
    ],
)
def test_a_runner_registered_again_since_the_last_sweep_is_not_replaced(same_name, step, successor):
    assert step_after(GRANTED, None, same_name) is step
    assert successor_of(GRANTED, same_name) == successor


REMOVED = GRANTED._replace(removed_at=NOW)


@pytest.mark.parametrize(
    ("evidence", "same_name", "step"),
    [
        (REMOVED, [registration()._replace(id=GRANTED.id + 1)], RemediationStep.RECORD_SUCCESSOR),
        (REMOVED, [registration()._replace(id=GRANTED.id)], RemediationStep.PROCEED),
        (
            OFFLINE._replace(removed_at=NOW),
            [registration()._replace(id=OFFLINE.id + 1)],
            RemediationStep.RECORD_SUCCESSOR,
        ),
    ],
    ids=["registered again", "a list that is older than the removal", "removed for being offline, registered again"],
)
def test_a_request_that_waited_after_the_removal_is_checked_by_name(evidence, same_name, step):
    assert step_after(evidence, None, same_name) is step


@pytest.mark.parametrize(
    ("evidence", "is_left"),
    [
        (REMOVED, True),
        (REMOVED._replace(reregistered_as=2), False),
        (REMOVED._replace(retired_at=NOW), False),
        (REMOVED._replace(replaced_at=NOW), False),
    ],
    ids=["waits", "registered again", "removed on purpose", "accepted"],
)
def test_a_grant_is_open_while_its_request_may_be_made(evidence, is_left):
    assert is_open(evidence) is is_left


@pytest.mark.parametrize(
    ("evidence", "after"),
    [
        (REMOVED, REMOVED._replace(replaced_at=NOW + 9, last_replaced_at=NOW + 9)),
        (REMOVED._replace(event_id="e2"), REMOVED._replace(event_id="e2")),
        (online(), online()),
        (None, None),
    ],
    ids=["its request", "granted again since", "returned since", "its record was deleted"],
)
def test_an_accepted_request_is_recorded_of_the_grant_that_it_was_made_for(evidence, after):
    assert accepted(evidence, "e1", NOW + 9) == after
