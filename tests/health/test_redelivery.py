"""Which deliveries are requested again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.health.redelivery import Attempt, Redeliveries, to_redeliver
from tests.health.builders import MICROSECOND, NOW

OLD = NOW - 7200


def failed(attempt_id=1, guid="a", at=OLD, status=503):
    return Attempt(attempt_id, guid, at, status)


def test_without_failed_deliveries_nothing_is_requested():
    assert to_redeliver([failed(status=202)], set(), NOW) == Redeliveries((), None)
    assert to_redeliver([], set(), NOW) == Redeliveries((), None)


@pytest.mark.parametrize("status", [0, 301, 401, 403, 404, 500, 503], ids=str)
def test_a_failed_delivery_is_requested_again(status):
    assert to_redeliver([failed(status=status)], set(), NOW) == Redeliveries((1,), OLD)


@pytest.mark.parametrize("status", [400, 413], ids=str)
def test_a_delivery_refused_for_its_content_is_not_requested_again(status):
    assert to_redeliver([failed(status=status)], set(), NOW) == Redeliveries((), None)


def test_a_delivery_with_one_successful_attempt_is_not_requested_again():
    assert to_redeliver([failed(1), failed(2, status=202), failed(3)], set(), NOW) == Redeliveries((), None)


def test_a_stored_delivery_is_not_requested_though_github_got_no_response():
    assert to_redeliver([failed(guid="a"), failed(2, "b")], {"a"}, NOW) == Redeliveries((2,), OLD)


def test_a_delivery_is_requested_once_by_its_last_attempt_oldest_first():
    tries = [failed(3, "b", OLD + 60), failed(2, "a", OLD + 30), failed(1, "a", OLD)]
    assert to_redeliver(tries, set(), NOW) == Redeliveries((2, 3), OLD)


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
