"""How a loss is derived from the evidence of its runner."""

from __future__ import annotations

import pytest

from ghapp.incidents.incident import (
    FuseStep,
    LossEnd,
    RunnerLoss,
    granted_by_batch,
    incident_of,
    is_unrecorded,
    losses_of,
    returned,
)
from ghapp.remediation.fuse import Position
from ghapp.remediation.healing import HEALED_WITHIN_SECONDS
from ghapp.runners.evidence import LIST_LASTS_SECONDS, PastLoss, Survey
from ghapp.runners.observations import (
    SeenBy,
    busy_after_all,
    job_started,
    not_needed,
    registration_seen,
    removed,
    replaced,
    reregistered,
    retired_by_controller,
    succeeded_by,
)
from ghapp.runners.remains import Remains, RemainsKind
from ghapp.runners.verdict import Limits, Reason, judge
from tests.rules.builders import NOW, lost, present, registration, suspect

LATER = NOW + 100
HOUR = HEALED_WITHIN_SECONDS + LIST_LASTS_SECONDS


def losses(evidence, at=LATER):
    verdict = judge(evidence, Survey(at), at, Limits())
    return losses_of(evidence, verdict, "linux", at)


def loss(evidence, at=LATER):
    (found,) = losses(evidence, at)
    return found


def healed(evidence, at):
    return succeeded_by(9, at)(evidence)


def test_two_404s_make_a_loss_that_began_with_the_first_list_without_the_runner():
    found = loss(lost())
    assert (found.runner_id, found.name, found.pool) == (1, "linux-1", "linux")
    assert (found.first_at, found.first_404_at, found.confirmed_at) == (NOW - 60, NOW - 30, NOW)
    assert (found.proof, found.end, found.ended_at) == (Reason.REGISTRATION_INVALIDATED, LossEnd.OPEN, None)


def test_an_offline_hour_before_it_went_missing_is_no_evidence_of_the_loss():
    assert loss(lost(offline_since=NOW - 3600)).first_at == NOW - 60


@pytest.mark.parametrize(
    "evidence", [suspect(), present(), present(granted_at=NOW)], ids=["suspect", "registered", "granted"]
)
def test_a_runner_without_proof_of_its_loss_is_no_loss(evidence):
    assert not is_unrecorded(evidence)
    assert losses(evidence) == []


def test_a_runner_replaced_while_offline_is_a_loss_since_it_was_offline():
    removed_offline = removed(present(granted_at=NOW - 5), NOW)
    found = loss(removed_offline._replace(absent_since=NOW + 60))
    assert (found.proof, found.first_at) == (Reason.REPLACED_WHILE_OFFLINE, NOW - 3600)
    assert (found.confirmed_at, found.is_open) == (None, True)


def test_a_zombie_is_proven_by_its_container():
    ended = lost(ephemeral=True, job_id=7, job_ended_at=NOW - 600, remains=Remains(RemainsKind.RUNNING, NOW - 500, NOW))
    hanging = ended._replace(absent_since=NOW - 900, first_404_at=NOW - 800)
    assert loss(hanging).proof is Reason.HANGS_AFTER_JOB


def test_a_loss_is_healed_when_its_successor_was_first_observed():
    found = loss(healed(replaced(lost(), NOW + 5), NOW + 42))
    assert (found.end, found.ended_at, found.successor) == (LossEnd.SUCCESSOR_ONLINE, NOW + 42, 9)


def test_a_successor_recorded_by_an_older_release_is_dated_after_the_request():
    found = loss(replaced(lost(), NOW + 5)._replace(successor=9))
    assert (found.end, found.ended_at) == (LossEnd.SUCCESSOR_ONLINE, NOW + 5)


@pytest.mark.parametrize(
    ("state", "since", "ended_at"),
    [("", NOW + 30, NOW + 30), ("", NOW - 61, LATER), ("", None, LATER), ("invalidated", NOW + 30, LATER)],
    ids=["published", "before the loss", "never", "not yet"],
)
def test_a_loss_found_retired_ended_when_it_was_no_longer_published_as_lost(state, since, ended_at):
    evidence = reregistered(lost(state=state, state_since=since), 9)
    assert loss(evidence).ended_at == ended_at


@pytest.mark.parametrize(("at", "end"), [(HOUR, LossEnd.OPEN), (HOUR + 0.001, LossEnd.NO_SUCCESSOR)])
def test_a_replacement_without_a_successor_ends_an_hour_after_it_was_accepted(at, end):
    found = loss(replaced(lost(), NOW), NOW + at)
    assert found.end is end
    assert found.ended_at == (None if end is LossEnd.OPEN else NOW + HEALED_WITHIN_SECONDS)


def test_a_loss_whose_successor_is_hidden_ended_when_that_was_found():
    found = loss(replaced(lost(), NOW)._replace(hidden_at=NOW + 301), NOW + HOUR + 1)
    assert (found.end, found.ended_at) == (LossEnd.HIDDEN_BY_CHURN, NOW + 301)


@pytest.mark.parametrize(
    ("evidence", "end", "ended_at"),
    [
        (reregistered(lost(), 9), LossEnd.REREGISTERED, LATER),
        (not_needed(lost(), NOW + 7), LossEnd.NOT_NEEDED, NOW + 7),
        (retired_by_controller(lost(), NOW + 8), LossEnd.REMOVED_BY_CONTROLLER, NOW + 8),
        (lost(remains=Remains(RemainsKind.NOTHING, NOW, NOW)), LossEnd.REMOVED_BY_CONTROLLER, LATER),
        (lost(ephemeral=True, job_id=7, job_ended_at=NOW - 70), LossEnd.JOB_COMPLETED, LATER),
    ],
    ids=["registered again", "not needed", "removed", "taken down", "job over"],
)
def test_a_loss_found_retired_ends_with_its_reason(evidence, end, ended_at):
    found = loss(evidence)
    assert (found.end, found.ended_at) == (end, ended_at)


def back(evidence, at):
    return registration_seen(evidence, registration(online=True), at, by=SeenBy.LIST)


RETURNS = {
    "registered again": lambda evidence: back(evidence, NOW + 20),
    "at work": lambda evidence: job_started(evidence, 7, NOW + 20),
    "busy after all": lambda evidence: busy_after_all(evidence, NOW + 20),
}


@pytest.mark.parametrize("returns", RETURNS.values(), ids=RETURNS)
def test_a_returned_runner_keeps_its_loss_until_the_loss_is_recorded(returns):
    evidence = returns(lost())
    assert is_unrecorded(evidence)
    found = loss(evidence)
    assert (found.first_at, found.confirmed_at) == (NOW - 60, NOW)
    assert (found.end, found.ended_at) == (LossEnd.RETURNED, NOW + 20)
    assert losses(evidence._replace(past_loss=None)) == []


def test_a_runner_that_returned_after_its_successor_was_healed_by_the_successor():
    found = loss(back(healed(replaced(lost(), NOW), NOW + 4), NOW + 20))
    assert (found.end, found.ended_at, found.accepted_at) == (LossEnd.SUCCESSOR_ONLINE, NOW + 4, NOW)


def test_a_suspect_that_returned_was_not_lost():
    assert back(suspect(), NOW + 20).past_loss is None


def test_a_loss_recorded_as_over_is_not_kept_and_the_next_loss_is():
    over = back(lost(incident="1-1"), NOW + 20)
    assert (over.past_loss, over.incident) == (None, None)
    again = over._replace(absent_since=NOW + 30, first_404_at=NOW + 31, confirmed_at=NOW + 61)
    assert back(again, NOW + 70).past_loss == PastLoss(NOW + 30, NOW + 70, NOW + 31, NOW + 61)


def test_a_second_loss_does_not_replace_an_unrecorded_first_loss():
    first = back(lost(), NOW + 20)
    second = first._replace(absent_since=NOW + 30, first_404_at=NOW + 31, confirmed_at=NOW + 61)
    assert [each.first_at for each in losses(second)] == [NOW - 60, NOW + 30]
    assert back(second, NOW + 70).past_loss == first.past_loss


def test_a_recorded_mark_ends_the_loss_to_record():
    evidence = healed(replaced(lost(), NOW), NOW + 4)
    assert is_unrecorded(evidence)
    assert not is_unrecorded(evidence._replace(incident="1-1"))
    assert not is_unrecorded(evidence._replace(incident=""))


@pytest.mark.parametrize(
    ("evidence", "end", "ended_at"),
    [
        (None, LossEnd.AGED_OUT, LATER),
        (present(back_at=NOW + 9), LossEnd.RETURNED, NOW + 9),
        (present(back_at=NOW - 61), LossEnd.RETURNED, LATER),
        (present(), LossEnd.RETURNED, LATER),
    ],
    ids=["no record", "returned", "returned before", "no date"],
)
def test_an_open_loss_without_evidence_ends(evidence, end, ended_at):
    found = returned(loss(lost()), evidence, LATER)
    assert (found.end, found.ended_at) == (end, ended_at)


def granted(number, before, pool="linux"):
    return RunnerLoss(number, f"r-{number}", pool, NOW - 100, granted_at=None if before is None else NOW - before)


PROVES, CLOSED, STOPPED = Position.PROVING, Position.CLOSED, Position.STOPPED


@pytest.mark.parametrize(
    ("losses", "steps", "found"),
    [
        ([granted(1, 60), granted(2, 61), granted(3, None)], [(60, "linux", PROVES, 3)], {("linux", 60): 1}),
        ([granted(1, 41), granted(2, 40)], [(60, "linux", PROVES, 3), (40, "linux", PROVES, 6)], {60: 1, 40: 1}),
        ([granted(1, 30)], [(60, "linux", PROVES, 3), (50, "linux", PROVES, 0)], {60: 1}),
        ([granted(1, 30)], [(60, "linux", PROVES, 3), (50, "linux", STOPPED, 0)], {60: 1}),
        ([granted(1, 30)], [(60, "linux", PROVES, 3), (30, "linux", CLOSED, 0)], {}),
        ([granted(1, 20)], [(60, "linux", PROVES, 3), (50, "linux", CLOSED, 0), (30, "linux", PROVES, 0)], {}),
        (
            [granted(1, 30), granted(2, 30, "gpu"), granted(3, 5)],
            [(60, "linux", PROVES, 3), (50, "gpu", PROVES, 3), (40, "*", PROVES, 6), (10, "*", CLOSED, 0)],
            {("*", 40): 2, ("linux", 60): 1},
        ),
        ([granted(1, 30, "gpu")], [(60, "linux", PROVES, 3)], {}),
    ],
    ids=[
        "at its begin",
        "two",
        "unknown size",
        "stopped",
        "closed",
        "tripped again",
        "fuse of all pools",
        "another pool",
    ],
)
def test_a_replacement_is_of_the_batch_of_the_fuse_that_held_its_pool(losses, steps, found):
    """Several fuses begin batches at the same time, and only one of them is that of a replacement."""
    changes = [FuseStep(NOW - before, pool, position, batch=batch) for before, pool, position, batch in steps]
    expected = {(("linux", each) if isinstance(each, int) else each): number for each, number in found.items()}
    counted = granted_by_batch(incident_of("i", losses, changes))
    assert counted == {(pool, NOW - before): number for (pool, before), number in expected.items()}
