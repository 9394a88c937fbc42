"""Which transitions of a runner are reported, and when its record may be deleted: exact boundaries."""

import pytest

from ghapp.runners.deletion_progress import Deletion
from ghapp.runners.evidence import PastLoss
from ghapp.runners.observations import first_observation
from ghapp.runners.transitions import (
    ANSWERABLE_SECONDS,
    WAITING_SECONDS,
    Transition,
    is_expendable,
    may_be_forgotten,
    transition,
)
from ghapp.runners.verdict import Limits, judge
from tests.rules.builders import MICROSECOND, NOW, lost, online, present, survey, suspect

LIMITS = Limits()


def forgotten(evidence, at):
    return may_be_forgotten(evidence, judge(evidence, survey(), at, LIMITS), at)


@pytest.mark.parametrize(
    ("evidence", "since", "seconds"),
    [
        (lost(), NOW, WAITING_SECONDS),
        (lost(would_remediate_at=NOW + 5), NOW, WAITING_SECONDS),
        (lost(not_needed_at=NOW + 5), NOW + 5, WAITING_SECONDS),
        (lost(granted_at=NOW + 5), NOW + 5, WAITING_SECONDS),
        (suspect(removed_at=NOW + 5), NOW + 5, WAITING_SECONDS),
        (suspect(removed_at=NOW + 5, replaced_at=NOW + 9), NOW + 9, ANSWERABLE_SECONDS),
        (lost(granted_at=NOW, replaced_at=NOW + 9, deletion=Deletion(accepted_at=NOW + 9)), NOW + 9, WAITING_SECONDS),
        (lost(granted_at=NOW + 5, replaced_at=NOW + 99), NOW + 99, ANSWERABLE_SECONDS),
        (present(retired_at=NOW), NOW, ANSWERABLE_SECONDS),
        (first_observation(1, "linux-1", NOW), NOW, ANSWERABLE_SECONDS),
    ],
    ids=[
        "a loss that waits",
        "a loss that dry-run saw",
        "a loss that was written off",
        "granted",
        "removed for being offline",
        "removed for being offline, and replaced",
        "its object still exists",
        "replaced",
        "retired",
        "known by a delivery alone",
    ],
)
def test_a_record_is_kept_for_its_retention_time_and_then_forgotten(evidence, since, seconds):
    assert not any(forgotten(evidence, since + kept) for kept in (0.0, seconds - 0.001, seconds))
    assert forgotten(evidence, since + seconds + 0.001)


def test_a_waiting_loss_is_kept_over_a_long_weekend():
    assert WAITING_SECONDS >= 5 * 86_400
    assert ANSWERABLE_SECONDS == 86_400


def test_a_registered_runner_is_never_forgotten():
    assert not forgotten(present(), NOW + 10**8)
    assert not forgotten(online(), NOW + 10**8)


@pytest.mark.parametrize(
    ("evidence", "what"),
    [
        (present(), Transition.OFFLINE),
        (present(state="offline"), None),
        (online(state="offline"), Transition.RECOVERED),
        (online(), None),
        (lost(), None),
    ],
    ids=["offline", "already reported", "recovered", "always healthy", "reported by its replacement"],
)
def test_an_offline_period_is_reported_at_its_start_and_its_end(evidence, what):
    assert transition(evidence, judge(evidence, survey(), NOW + MICROSECOND, LIMITS).state) is what


@pytest.mark.parametrize(
    ("granted_at", "counted_since", "may"),
    [(NOW, NOW, False), (NOW, NOW - 9, False), (NOW, NOW + 0.1, True), (NOW, None, True)],
)
def test_what_an_open_fuse_counts_is_kept(granted_at, counted_since, may):
    """A paused fuse would permit as many again when the records of its batch were deleted."""
    done = lost(granted_at=granted_at, removed_at=NOW, replaced_at=NOW)
    later = NOW + 2 * ANSWERABLE_SECONDS
    verdict = judge(done, survey(), later, LIMITS)
    assert may_be_forgotten(done, verdict, later, counted_since=counted_since) is may
    assert may_be_forgotten(done, verdict, NOW + WAITING_SECONDS, counted_since=counted_since) is may
    assert may_be_forgotten(done, verdict, NOW + WAITING_SECONDS + MICROSECOND, counted_since=counted_since)


@pytest.mark.parametrize(
    ("evidence", "may"),
    [
        (present(retired_at=NOW), True),
        (first_observation(1, "linux-1", NOW), True),
        (online(), False),
        (lost(), False),
        (suspect(), False),
        (present(), False),
        (present(first_seen=NOW, was_online=False), False),
        (online(observed_at=NOW - 3600, listed=False), False),
        (present(retired_at=NOW, confirmed_at=NOW), False),
        (present(retired_at=NOW, granted_at=NOW), False),
        (present(retired_at=NOW, removed_at=NOW), False),
        (present(retired_at=NOW, last_replaced_at=NOW), False),
        (present(retired_at=NOW, not_needed_at=NOW), False),
        (present(retired_at=NOW, past_loss=PastLoss(NOW - 90, NOW)), False),
    ],
    ids=[
        "retired", "known by a delivery alone", "healthy", "a loss that waits", "suspect", "offline", "starting",
        "not observed lately", "its loss was confirmed", "granted", "removed",
        "replaced before it returned", "written off", "its loss is not recorded yet",
    ],
)  # fmt: skip
def test_of_too_many_records_only_those_are_deleted_early_from_which_nothing_is_decided(evidence, may):
    assert is_expendable(evidence, judge(evidence, survey(), NOW, LIMITS)) is may
