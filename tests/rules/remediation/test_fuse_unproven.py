"""The fuse in dry-run mode: it shows what it would allow, and does not stay tripped forever."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.remediation.decision import is_as_planned
from ghapp.remediation.fuse import (
    Fuse,
    FuseCounts,
    FuseLimits,
    FuseReason,
    Position,
    changed_at,
    next_fuse,
    resume,
)
from tests.rules.builders import MICROSECOND, NOW, lost, mass_loss, proving

LIMITS = FuseLimits()
UNPROVEN = Fuse(closed_at=NOW - 86_400.0, reason=FuseReason.UNPROVEN)


def turned(fuse, counted, *, acting=False, now=NOW):
    return next_fuse(fuse, counted, now, LIMITS, acting=acting)


def test_a_fuse_trips_in_dry_run_as_in_act():
    tripped = proving(reason=FuseReason.MASS_LOSS, tripped_for=FuseReason.MASS_LOSS, batch_at=NOW)
    assert turned(Fuse(), mass_loss()) == turned(Fuse(), mass_loss(), acting=True) == tripped


@pytest.mark.parametrize(
    ("counted", "closes"),
    [
        ({"lost": 40, "expected": 200, "waiting": 197}, False),
        ({"lost": 39, "expected": 200, "waiting": 197}, True),
        ({"lost": 200, "waiting": 0}, True),
        ({"lost": 200, "waiting": 1}, False),
    ],
    ids=["still a mass loss", "one fewer", "no runner waits", "one runner waits"],
)
def test_a_dry_run_fuse_closes_when_the_mass_loss_has_ended(counted, closes):
    fuse = proving(since=NOW - 900)
    after = turned(fuse, mass_loss(**counted))
    closed = replace(fuse, position=Position.CLOSED, closed_at=NOW, reason=FuseReason.UNPROVEN)
    assert after == (closed if closes else fuse)


@pytest.mark.parametrize(
    ("left", "reason"),
    [
        ({}, FuseReason.REGISTRATIONS_RETURNED),
        ({"waiting": 1}, FuseReason.UNPROVEN),
        ({"pending": 1}, FuseReason.UNPROVEN),
        ({"overdue": 1}, FuseReason.UNPROVEN),
    ],
    ids=["no other loss", "one waits", "one would be requested", "one would have been requested for long"],
)
def test_a_dry_run_fuse_closes_as_soon_as_registrations_return_and_heals_no_other_loss(left, reason):
    """Else the losses that wait would have a first batch of their own, or no fuse at all, once the mode is act."""
    after = turned(proving(), FuseCounts(since_return=0.0, lost=3, expected=200, **left))
    assert (after.position, after.closed_at, after.reason) == (Position.CLOSED, NOW, reason)
    assert turned(after, FuseCounts(lost=1, expected=200, waiting=1), acting=True).position is (
        Position.PROVING if left else Position.CLOSED
    )


def test_a_dry_run_fuse_does_not_close_and_trip_again_while_some_registrations_return():
    """Each change is an event: one of each in every sweep."""
    stays = turned(proving(), mass_loss(since_return=0.0))
    assert stays.position is Position.PROVING
    closed = turned(stays, mass_loss(since_return=0.0, lost=3, waiting=3))
    assert turned(closed, mass_loss(since_return=0.0, lost=3, waiting=3)) is closed


def test_an_acting_fuse_is_not_closed_by_time_alone():
    fuse = proving(since=NOW - 86_400)
    assert turned(fuse, mass_loss(lost=1), acting=True) is fuse


@pytest.mark.parametrize(
    ("acting", "position"), [(False, Position.CLOSED), (True, Position.PROVING)], ids=["dry-run", "act"]
)
def test_an_unproven_fuse_trips_at_one_loss_once_the_mode_is_act(acting, position):
    assert turned(UNPROVEN, FuseCounts(lost=1, expected=200, waiting=1), acting=acting).position is position


def test_another_mass_loss_trips_a_dry_run_fuse_again():
    assert turned(UNPROVEN, mass_loss()).reason is FuseReason.MASS_LOSS


COUNTS = st.builds(FuseCounts, *[st.integers(0, 300)] * 5)


@given(COUNTS, st.booleans())
def test_a_stopped_fuse_waits_for_a_person_in_every_mode(counted, acting):
    stopped = proving(position=Position.STOPPED)
    assert turned(stopped, counted, acting=acting) is stopped


def test_each_state_change_has_its_own_time():
    tripped = proving(since=NOW)
    again = resume(proving(position=Position.STOPPED), NOW + MICROSECOND, LIMITS, "mona")
    assert changed_at(tripped) != changed_at(again)
    assert changed_at(Fuse()) is None
    assert changed_at(UNPROVEN) == UNPROVEN.closed_at
    stopped = proving(since=NOW, position=Position.STOPPED, stopped_at=NOW + 60)
    assert changed_at(stopped) == NOW + 60
    assert changed_at(replace(stopped, stopped_at=None)) == NOW


@pytest.mark.parametrize(
    ("change", "holds"),
    [
        ({"state": "invalidated", "state_since": NOW}, True),
        ({"confirmed_at": None}, False),
        ({"absent_since": None}, False),
        ({"retired_at": NOW}, False),
        ({"reregistered_as": 2}, False),
        ({"job_id": 7, "job_started_at": NOW}, False),
        ({"last_delivery_at": NOW}, False),
        ({"granted_at": NOW}, False),
        ({"busy": True}, False),
    ],
    ids=lambda change: next(iter(change)) if isinstance(change, dict) else "",
)
def test_a_plan_is_valid_only_for_an_unchanged_record(change, holds):
    assert is_as_planned(lost(), lost()._replace(**change)) is holds
