"""Which deliveries are requested again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.deliveries.redelivery import (
    TRIAL_SECONDS,
    Attempt,
    LastRequest,
    by_installation,
    may_request,
    to_redeliver,
)
from tests.rules.builders import MICROSECOND, NOW

OLD = NOW - 7200


def failed(attempt_id=1, guid="a", at=OLD, status=503, event="workflow_job", action="queued", installation=7):
    return Attempt(attempt_id, guid, at, status, event, action, installation)


def selected(attempts, kept=(), now=NOW):
    """What is requested, and since when deliveries are missing."""
    found = to_redeliver(attempts, set(kept), now)
    return found.ask, found.since


def test_without_failed_deliveries_nothing_is_requested():
    assert selected([failed(status=202)]) == ((), None)
    assert selected([]) == ((), None)


@pytest.mark.parametrize("status", [0, 301, 401, 403, 404, 500, 503], ids=str)
def test_a_failed_delivery_is_requested_again(status):
    assert selected([failed(status=status)]) == ((1,), OLD)


@pytest.mark.parametrize("status", [400, 413], ids=str)
def test_a_delivery_that_is_rejected_for_its_content_is_missing_and_is_requested_once_more(status):
    rejected, again = failed(status=status), failed(2, at=OLD + 60, status=status)
    assert selected([rejected]) == ((1,), OLD)
    assert selected([rejected, again]) == ((), OLD)
    assert selected([rejected, again._replace(status=503)]) == ((2,), OLD), "only one attempt was rejected"
    assert selected([rejected, again, failed(3, at=OLD + 120)]) == ((), OLD)
    assert selected([rejected, again._replace(status=202)]) == ((), None)


def test_a_delivery_with_one_successful_attempt_is_not_requested_again():
    assert selected([failed(1), failed(2, status=202), failed(3)]) == ((), None)


def test_a_stored_delivery_is_not_requested_though_github_got_no_response():
    assert selected([failed(guid="a"), failed(2, "b")], {"a"}) == ((2,), OLD)


def test_a_delivery_is_requested_once_by_its_last_attempt():
    tries = [failed(3, "b", OLD + 60), failed(2, "a", OLD + 30), failed(1, "a", OLD)]
    assert selected(tries) == ((2, 3), OLD)


@pytest.mark.parametrize(
    ("tries", "waited", "requested"),
    [
        (1, 30.0, True),
        (1, 30.0 - MICROSECOND, False),
        (3, 120.0, True),
        (3, 120.0 - MICROSECOND, False),
        (8, 3600.0, True),
        (8, 3600.0 - MICROSECOND, False),
        (50, 3600.0, True),
    ],
)
def test_the_wait_doubles_after_each_attempt_up_to_an_hour(tries, waited, requested):
    last = NOW - waited
    found = to_redeliver([failed(each, at=last - (tries - each)) for each in range(1, tries + 1)], set(), last + waited)
    assert bool(found.ask) is requested
    assert found.since == last - (tries - 1), "the failure lasts until the delivery arrives"


def test_ends_of_jobs_come_first_then_their_starts_newest_first_and_all_others_oldest_first():
    attempts = [
        failed(1, "1", OLD, event="installation", action="deleted"),
        failed(2, "2", OLD + 1),
        failed(3, "3", OLD + 2, action="completed"),
        failed(4, "4", OLD + 3, action="in_progress"),
        failed(5, "5", OLD + 4, action="completed"),
        failed(6, "6", OLD + 5, action="in_progress"),
        failed(7, "7", OLD + 6, event="check_run", action="completed"),
        failed(8, "8", OLD + 7, event="", action=""),
    ]
    assert to_redeliver(attempts, set(), NOW).ask == (5, 3, 6, 4, 1, 2, 7, 8)


@pytest.mark.parametrize(
    ("last", "most"),
    [
        (None, 16),
        (LastRequest(NOW, "1-0"), 16),
        (LastRequest(NOW, "2-0"), 0),
        (LastRequest(NOW - TRIAL_SECONDS + MICROSECOND, "2-0"), 0),
        (LastRequest(NOW - TRIAL_SECONDS, "2-0"), 1),
        (LastRequest(NOW + MICROSECOND, "2-0"), 1),
    ],
    ids=["none before", "one came since", "none came yet", "within a minute", "a minute ago", "in the future"],
)
def test_while_no_delivery_arrives_one_a_minute_is_requested(last, most):
    assert may_request(last, "2-0", NOW, 16) == most


def test_missing_deliveries_about_jobs_are_grouped_by_installation():
    attempts = [
        failed(1, "1", OLD, installation=7),
        failed(2, "2", OLD + 1, installation=8),
        failed(3, "3", OLD + 2, event="check_run", installation=7),
        failed(4, "4", OLD + 3, event="", installation=0),
        failed(5, "5", OLD - 1, installation=7),
    ]
    found = by_installation(to_redeliver(attempts, {"2"}, NOW).missing)
    assert {key: [each.id for each in several] for key, several in found.items()} == {7: [5, 1], 0: [4]}


ATTEMPTS = st.lists(
    st.builds(
        Attempt, st.integers(1, 99), st.sampled_from("abcd"), st.floats(OLD, NOW), st.sampled_from([0, 202, 503])
    ),
    unique_by=lambda attempt: attempt.id,
)


@given(ATTEMPTS, st.sets(st.sampled_from("abcd")))
def test_no_delivery_is_requested_twice_or_after_it_was_stored_or_succeeded(attempts, kept):
    guids = {each.id: each.guid for each in attempts}
    requested = [guids[each] for each in to_redeliver(attempts, kept, NOW).ask]
    came = {each.guid for each in attempts if each.succeeded}
    assert len(requested) == len(set(requested))
    assert not set(requested) & (kept | came)


@given(ATTEMPTS, st.randoms())
def test_the_order_of_the_record_does_not_matter(attempts, random):
    shuffled = random.sample(attempts, len(attempts))
    assert to_redeliver(shuffled, set(), NOW).since == to_redeliver(attempts, set(), NOW).since
