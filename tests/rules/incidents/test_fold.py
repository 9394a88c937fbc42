"""How losses and fuse changes are grouped into incidents."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.incidents.fold import (
    INCIDENT_KEPT_SECONDS,
    MOST_INCIDENTS,
    MOST_LOSSES,
    current,
    observed,
    outdated,
    places_of,
    with_losses,
)
from ghapp.incidents.incident import FuseStep, LossEnd, LossIncident, RunnerLoss
from ghapp.remediation.fuse import Fuse, FuseCounts, FuseReason, Position
from ghapp.remediation.healing import LATE_SUCCESSOR_SECONDS
from tests.rules.builders import NOW, lost, present

OPEN, ENDED = LossEnd.OPEN, LossEnd.SUCCESSOR_ONLINE
TRIPPED = Fuse(Position.PROVING, NOW, 3, 3, reason=FuseReason.MASS_LOSS, batch_at=NOW, tripped_for=FuseReason.MASS_LOSS)


def one(runner, begin, end=None, pool="linux", late=None):
    """Runner `runner` was lost from `begin` to `end` (seconds from NOW); its successor is late from `late` on."""
    ended_at = None if end is None else NOW + end
    accepted_at = None if late is None else NOW + late - LATE_SUCCESSOR_SECONDS
    found = OPEN if end is None else ENDED
    return RunnerLoss(
        runner, f"linux-{runner}", pool, NOW + begin, accepted_at=accepted_at, end=found, ended_at=ended_at
    )


def step(at, position, pool="*", reason=FuseReason.NONE):
    return FuseStep(NOW + at, pool, position, reason)


def groups(incidents):
    """The runners of each incident."""
    return sorted(sorted(loss.runner_id for loss in each.losses) for each in incidents.values() if not each.merged_into)


def fold(*losses, steps=(), known=None):
    return with_losses(known or {}, losses, steps)


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ([one(1, 0, 10), one(2, 9, 20)], [[1, 2]]),
        ([one(1, 0, 10), one(2, 10, 20)], [[1], [2]]),
        ([one(1, 0, 10), one(2, 0, 10)], [[1, 2]]),
        ([one(1, 0, 0), one(2, 0, 10)], [[1, 2]]),
        ([one(1, 0), one(2, 10_000)], [[1, 2]]),
        ([one(1, 0, 10), one(2, 8, 15), one(3, 14, 20)], [[1, 2, 3]]),
        ([one(1, 0, 30), one(2, 5, 10), one(3, 20, 25)], [[1, 2, 3]]),
        ([one(1, 0, 10), one(2, 0, 10, "other")], [[1], [2]]),
        ([one(1, 0, 10), one(1, 10, 20)], [[1], [1]]),
        ([one(1, 0, late=10), one(2, 10, 20)], [[1], [2]]),
        ([one(1, 0, late=10), one(2, 9, 20)], [[1, 2]]),
        ([one(1, 0, 10, late=20), one(2, 15)], [[1], [2]]),
    ],
    ids=[
        *("overlap", "touch", "same time", "no length", "open", "chain", "within", "two pools", "one runner twice"),
        *("a late successor", "one that is not late yet", "one that came in time"),
    ],
)
def test_losses_of_a_pool_that_overlap_are_one_incident(losses, expected):
    assert groups(fold(*losses)) == expected


def test_an_incident_begins_with_its_first_loss_and_ends_with_its_last():
    (found,) = fold(one(2, 5, 30), one(1, 0, 10)).values()
    assert (found.id, found.pool, found.began, found.ended) == (f"{int(NOW)}-1", "linux", NOW, NOW + 30)
    assert not found.is_mass_loss


def test_an_incident_is_open_while_one_of_its_losses_is_open():
    (found,) = fold(one(1, 0, 10), one(2, 5)).values()
    assert found.is_open


def test_a_later_loss_joins_the_open_incident():
    known = fold(one(1, 0))
    assert groups(fold(one(2, 500), known=known)) == [[1, 2]]


def test_a_loss_that_connects_two_incidents_merges_them_and_both_addresses_stay():
    first = fold(one(1, 0, 10))
    both = fold(one(2, 20, 30), known=first)
    assert groups(both) == [[1], [2]]
    merged = fold(one(3, 5, 25), known=both)
    assert groups(merged) == [[1, 2, 3]]
    old, late = f"{int(NOW)}-1", f"{int(NOW) + 20}-2"
    assert merged[late].merged_into == old
    assert current(merged, late) == merged[old]
    assert not merged[late].is_open


@pytest.mark.parametrize("identifier", ["1-1", "circle"])
def test_an_unknown_id_is_no_incident(identifier):
    circle = LossIncident("circle", "linux", NOW, NOW, merged_into="circle")
    assert current({"circle": circle}, identifier) is None


def test_a_known_loss_is_updated_in_place():
    known = fold(one(1, 0))
    (found,) = fold(one(1, 0, 40), known=known).values()
    assert (found.ended, len(found.losses)) == (NOW + 40, 1)


def test_the_first_record_of_a_loss_decides_when_it_ended():
    known = fold(one(1, 0, 40))
    assert fold(one(1, 0, 90), known=known) == known


def test_a_loss_that_is_open_again_opens_its_incident():
    (found,) = fold(one(1, 0), known=fold(one(1, 0, 40))).values()
    assert found.is_open


def test_a_loss_whose_record_was_deleted_is_not_reopened_and_may_get_another_end():
    known = fold(one(1, 0)._replace(end=LossEnd.AGED_OUT, ended_at=NOW + 40))
    assert fold(one(1, 0), known=known) == known
    (found,) = fold(one(1, 0, 50), known=known).values()
    assert (found.losses[0].end, found.ended) == (ENDED, NOW + 50)


def test_the_fuse_of_the_whole_installation_makes_losses_of_all_pools_one_incident():
    pools = [one(1, 0, 100, "a"), one(2, 5, 50, "b"), one(3, 60, 90, "c")]
    trip, close = step(8, Position.PROVING), step(80, Position.CLOSED)
    (found,) = fold(*pools, steps=[trip, close]).values()
    assert (found.pool, found.is_mass_loss, len(found.losses)) == ("*", True, 3)


@pytest.mark.parametrize(("begin", "is_one"), [(79, True), (80, False)])
def test_the_installations_fuse_joins_losses_only_while_it_is_not_closed(begin, is_one):
    steps = [step(8, Position.PROVING), step(80, Position.CLOSED)]
    found = fold(one(1, 0, 70, "a"), one(2, begin, 90, "b"), steps=steps)
    assert len(groups(found)) == (1 if is_one else 2)


def test_an_incident_is_open_until_its_fuse_closes():
    known = fold(one(1, 0, 10), steps=[step(5, Position.PROVING, "linux")])
    assert known[f"{int(NOW)}-1"].is_open
    stopped = fold(steps=[step(20, Position.STOPPED, "linux")], known=known)
    assert stopped[f"{int(NOW)}-1"].is_open
    closed = fold(steps=[step(30, Position.CLOSED, "linux")], known=stopped)
    assert closed[f"{int(NOW)}-1"].ended == NOW + 30


def test_a_fuse_without_a_loss_is_no_incident():
    assert fold(steps=[step(0, Position.PROVING, "linux")]) == {}


# Fuses, as shown by their records.


def seen(known, fuse, at=0.0, counts=None, found=(), runners=None):
    fuses = [({"linux": fuse}, {} if counts is None else {"linux": counts})]
    return observed(known, list(found), runners or {1: lost(1)}, fuses, NOW + at)


def steps_of(incidents):
    (found,) = incidents.values()
    return [(each.at - NOW, each.position, each.reason, each.batch) for each in found.steps]


LOST = one(1, -10)
PROVING, STOPPED, CLOSED = Position.PROVING, Position.STOPPED, Position.CLOSED
TRIP = (0, PROVING, FuseReason.MASS_LOSS, 3)


def test_a_trip_is_recorded_with_its_batch_and_counts_once():
    known = seen({}, TRIPPED, counts=FuseCounts(lost=12, expected=40), found=[LOST])
    assert steps_of(known) == [TRIP]
    (found,) = known.values()
    assert (found.steps[0].lost, found.steps[0].expected) == (12, 40)
    assert seen(known, TRIPPED, at=60, found=[LOST]) == known


def test_each_further_batch_is_recorded_once():
    known = seen({}, TRIPPED, found=[LOST])
    doubled = Fuse(PROVING, NOW, 6, 9, reason=FuseReason.BATCH_ONLINE, batch_at=NOW + 60, tripped_for=TRIPPED.reason)
    known = seen(known, doubled, at=60, found=[LOST])
    assert steps_of(known) == [TRIP, (60, PROVING, FuseReason.BATCH_ONLINE, 6)]
    assert seen(known, doubled, at=90, found=[LOST]) == known


def test_a_fuse_that_stopped_unrecorded_shows_when_it_had_tripped():
    stopped = Fuse(
        STOPPED,
        NOW,
        6,
        9,
        reason=FuseReason.BATCH_NEVER_ONLINE,
        batch_at=NOW + 60,
        stopped_at=NOW + 400,
        tripped_for=FuseReason.MASS_LOSS,
    )
    known = seen({}, stopped, at=400, found=[LOST])
    assert steps_of(known) == [
        (0, PROVING, FuseReason.MASS_LOSS, 0),
        (60, PROVING, FuseReason.BATCH_ONLINE, 6),
        (400, STOPPED, FuseReason.BATCH_NEVER_ONLINE, 0),
    ]
    assert seen(known, stopped, at=500, found=[LOST]) == known


def test_the_admin_who_resumed_the_fuse_is_named():
    known = seen({}, TRIPPED, found=[LOST])
    known = seen(
        known, Fuse(STOPPED, NOW, 3, 3, reason=FuseReason.BATCH_NEVER_ONLINE, stopped_at=NOW + 9), found=[LOST]
    )
    resumed = Fuse(PROVING, NOW + 50, 3, 3, reason=FuseReason.RESUMED, by="mona", batch_at=NOW + 50)
    (found,) = seen(known, resumed, at=50, found=[LOST]).values()
    assert [(each.position, each.by) for each in found.steps] == [(PROVING, ""), (STOPPED, ""), (PROVING, "mona")]
    assert found.steps[-1].reason is FuseReason.RESUMED


def test_a_closed_fuse_ends_the_incident_and_one_closed_before_any_record_adds_nothing():
    known = seen({}, TRIPPED, found=[LOST])
    closed = Fuse(closed_at=NOW + 90, reason=FuseReason.HEALED)
    ended = seen(known, closed, at=90, found=[one(1, -10, 80)])
    assert steps_of(ended)[-1] == (90, CLOSED, FuseReason.HEALED, 0)
    assert ended[f"{int(NOW) - 10}-1"].ended == NOW + 90
    assert seen(ended, closed, at=200) == ended
    assert steps_of(seen({}, closed, found=[LOST])) == []


def test_a_fuse_that_closed_and_tripped_again_unrecorded_shows_both():
    known = seen({}, TRIPPED, found=[LOST])
    again = Fuse(PROVING, NOW + 100, 3, 3, closed_at=NOW + 90, reason=FuseReason.LOSS_ON_WATCH, batch_at=NOW + 100)
    assert [each[:2] for each in steps_of(seen(known, again, at=120, found=[LOST]))] == [
        (0, PROVING),
        (90, CLOSED),
        (100, PROVING),
    ]


def test_a_fuse_that_trips_again_is_dated_then_and_continues_with_its_batch():
    returned = Fuse(CLOSED, NOW, 6, 9, closed_at=NOW + 90, reason=FuseReason.REGISTRATIONS_RETURNED, batch_at=NOW + 60)
    known = seen(seen({}, TRIPPED, found=[LOST]), returned, at=90, found=[LOST])
    again = replace(
        returned, position=PROVING, since=NOW + 130, reason=FuseReason.MASS_LOSS, tripped_for=FuseReason.MASS_LOSS
    )
    known = seen(known, again, at=140, found=[LOST])
    assert steps_of(known)[-1] == (130, PROVING, FuseReason.MASS_LOSS, 6)
    assert seen(known, again, at=190, found=[LOST]) == known


def test_an_unreadable_fuse_is_one_change():
    unreadable = Fuse(STOPPED, reason=FuseReason.UNREADABLE)
    known = seen({}, unreadable, at=5, found=[LOST])
    assert steps_of(known) == [(5, STOPPED, FuseReason.UNREADABLE, 0)]
    assert seen(known, unreadable, at=65, found=[LOST]) == known


DOUBLED = Fuse(PROVING, NOW, 6, 9, reason=FuseReason.BATCH_ONLINE, batch_at=NOW + 60, tripped_for=TRIPPED.reason)
STOPPED_LATER = Fuse(STOPPED, NOW, 6, 9, batch_at=NOW + 60, stopped_at=NOW + 400, reason=FuseReason.BATCH_NEVER_ONLINE)
RESUMED = Fuse(PROVING, NOW + 500, 3, 3, reason=FuseReason.RESUMED, by="mona", batch_at=NOW + 500)
HEALED = Fuse(closed_at=NOW + 600, reason=FuseReason.HEALED)
AGAIN = Fuse(PROVING, NOW + 650, 3, 3, closed_at=NOW + 600, reason=FuseReason.LOSS_ON_WATCH, batch_at=NOW + 650)
HISTORY = [TRIPPED, DOUBLED, STOPPED_LATER, RESUMED, HEALED, AGAIN]
AT = [0, 60, 400, 500, 600, 650]


@pytest.mark.parametrize("old", range(len(HISTORY) - 1))
@pytest.mark.parametrize("new", range(1, len(HISTORY)))
def test_a_fuse_that_was_read_before_the_last_recorded_change_adds_nothing(old, new):
    known = {}
    for at, fuse in list(zip(AT, HISTORY, strict=True))[: new + 1]:
        known = seen(known, fuse, at=at, found=[LOST])
    assert len(steps_of(known)) == new + 1
    assert seen(known, HISTORY[min(old, new)], at=700, found=[LOST]) == known


# Losses without evidence.


def test_an_open_loss_ends_when_its_runner_returned_or_its_record_was_deleted():
    known = fold(one(1, 0), one(2, 0), one(3, 0))
    found = observed(known, [one(3, 0)], {1: present(1, back_at=NOW + 5), 3: lost(3)}, [], NOW + 9)
    ends = {each.runner_id: (each.end, each.ended_at) for each in found[f"{int(NOW)}-1"].losses}
    assert ends == {1: (LossEnd.RETURNED, NOW + 5), 2: (LossEnd.AGED_OUT, NOW + 9), 3: (OPEN, None)}


# Bounds.


def test_an_incident_records_a_limited_number_of_losses():
    found = fold(*(one(at, at / 1000) for at in range(MOST_LOSSES + 1)))
    (incident,) = found.values()
    assert len(incident.losses) == MOST_LOSSES
    last = one(MOST_LOSSES, MOST_LOSSES / 1000)
    assert places_of(found, [last]) == {}


@pytest.mark.parametrize(("age", "is_deleted"), [(INCIDENT_KEPT_SECONDS, False), (INCIDENT_KEPT_SECONDS + 1, True)])
def test_an_incident_is_kept_for_a_month_after_its_end(age, is_deleted):
    known = fold(one(1, -INCIDENT_KEPT_SECONDS * 2, -age), one(2, -INCIDENT_KEPT_SECONDS * 2, None, "other"))
    assert len(outdated(known, NOW)) == is_deleted


def test_beyond_the_limit_the_oldest_that_ended_are_deleted_and_never_an_open_one():
    known = fold(*(one(at, at * 10, at * 10 + 5) for at in range(MOST_INCIDENTS + 1)), one(-1, -50, None, "other"))
    assert outdated(known, NOW + 10) == [f"{int(NOW)}-0", f"{int(NOW) + 10}-1"]


# Order and repetition.

FACTS = st.lists(
    st.builds(
        lambda runner, begin, length, pool, late: one(
            runner,
            begin * 8,
            None if length is None else begin * 8 + min(length, 7) + (length > 7) * 20,
            pool,
            None if late is None else begin * 8 + late,
        ),
        st.integers(1, 40),
        st.integers(0, 12),
        st.one_of(st.none(), st.integers(0, 12)),
        st.sampled_from(["a", "b"]),
        st.one_of(st.none(), st.integers(0, 20)),
    ),
    max_size=8,
    unique_by=lambda loss: loss.runner_id,
)


def connected(losses):
    """The same rule, written by hand: the components of losses that overlap."""
    left, found = list(losses), []
    while left:
        group, grown = [left.pop()], True
        while grown:
            near = [each for each in left if any(each.pool == mine.pool and overlap(each, mine) for mine in group)]
            group += near
            left = [each for each in left if each not in near]
            grown = bool(near)
        found.append(sorted(each.runner_id for each in group))
    return sorted(found)


def overlap(one_, other):
    ends = [min(each.ended_at or inf, (each.accepted_at or inf) + LATE_SUCCESSOR_SECONDS) for each in (one_, other)]
    return one_.first_at == other.first_at or (one_.first_at < ends[1] and other.first_at < ends[0])


@given(FACTS, st.randoms(use_true_random=False), st.integers(1, 4))
def test_any_order_any_repetition_and_any_portions_give_the_same_incidents(facts, random, portion):
    expected = connected(facts)
    repeated = facts * 2
    random.shuffle(repeated)
    known = {}
    for at in range(0, len(repeated), portion):
        known = with_losses(known, repeated[at : at + portion])
        assert with_losses(known, repeated[: at + portion]) == known
    assert groups(known) == expected
    for incident in known.values():
        assert current(known, incident.id) is not None


@given(FACTS, st.integers(0, 90), st.integers(0, 90))
def test_the_whole_installations_fuse_joins_only_incidents_that_overlap_with_it(facts, begin, length):
    steps = [step(begin, Position.PROVING), step(begin + length + 1, Position.CLOSED)]
    together, apart = with_losses({}, facts, steps), {}
    for each in facts:
        apart = with_losses(apart, [each])
    apart = with_losses(apart, [], steps)
    assert groups(together) == groups(apart)
    at = {loss.runner_id: each for each in together.values() for loss in each.losses}
    fuse = one(0, begin, begin + length + 1)
    touched = [each for each in facts if overlap(each, fuse)]
    assert all(at[mine.runner_id] is at[other.runner_id] for mine, other in pairwise(touched))
