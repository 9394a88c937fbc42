"""How complete deliveries are, and which absences wait for them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.runners.delivery_lag import (
    HOLD_SECONDS,
    LATE_DELIVERY_SECONDS,
    LATEST_SECONDS,
    MARGIN_SECONDS,
    MOST_LATE,
    OVERDUE_LASTS_SECONDS,
    UNNAMED_SECONDS,
    DeliveryArrivals,
    DeliveryFacts,
    DeliveryGap,
    DeliveryLog,
    GapCause,
    LateArrival,
    LogReading,
    MissingDeliveries,
    arrivals_after,
    completeness,
    confirmation_deferred,
    expected_at,
    has_waited,
    in_words,
    left_in_gap,
    log_after,
    log_after_failure,
    was_confirmed_without_deliveries,
)
from ghapp.runners.evidence import LIST_LASTS_SECONDS
from ghapp.runners.observations import LIST_LAG_SECONDS
from ghapp.runners.verdict import Limits, Reason, State, judge
from tests.rules.builders import LONG_AGO, MICROSECOND, NOW, lost, online, present, survey
from tests.rules.builders import suspect as persistent_suspect

ORG, ANOTHER = 7, 8
AT = NOW - 60
"""When the runner was first missing."""


def suspect(**changes):
    """An ephemeral runner that a list lacks since a minute ago, with a first 404 half a minute ago."""
    return persistent_suspect(ephemeral=True, absent_since=AT, first_404_at=NOW - 30)._replace(**changes)


def facts(**changes):
    """Complete deliveries: the last one a second ago, the log just read."""
    complete = DeliveryFacts(ORG, DeliveryArrivals(NOW - 1), DeliveryLog(NOW - 1))
    return complete._replace(**changes)


def late(seconds, at=NOW):
    return facts(arrivals=arrivals_after(DeliveryArrivals(), [(at, at - seconds)], NOW))


def missing(since=AT - 100, until=AT + 10, number=3, installation=ORG):
    return facts(log=DeliveryLog(NOW - 1, (MissingDeliveries(installation, since, until, number),)))


def gap(since=0.0, until=None):
    return (DeliveryGap(since, until, GapCause.FAILED, ""),)


def causes(known, now=NOW):
    return [each.cause for each in completeness(known, now)]


def test_deliveries_without_any_fact_against_them_are_complete():
    assert completeness(facts(), NOW) == ()
    assert completeness(DeliveryFacts(ORG), NOW) == (), "nothing has come, and nothing is known to be missing"
    assert in_words(()) == ""


@pytest.mark.parametrize(
    ("age", "is_late"),
    [
        (LATE_DELIVERY_SECONDS, True),
        (LATE_DELIVERY_SECONDS - MICROSECOND, False),
        (HOLD_SECONDS, True),
        (HOLD_SECONDS + MICROSECOND, False),
        (2 * 86_400, False),
        (0.0, False),
        (-1.0, False),
        (-86_400.0, False),
    ],
    ids=["late", "in time", "an hour", "over an hour", "a redelivery after days", "at once", "ahead", "a day ahead"],
)
def test_a_delivery_is_late_by_its_own_date_unless_that_is_of_long_ago_or_of_the_future(age, is_late):
    assert bool(completeness(late(age), NOW)) is is_late


def overdue(*ages):
    """What is known after deliveries of these ages arrived, a minute apart, the last one now."""
    times = [NOW - 60 * (len(ages) - 1 - number) for number in range(len(ages))]
    new = [(at, at - age) for at, age in zip(times, ages, strict=True)]
    return arrivals_after(DeliveryArrivals(), new, NOW)


HOUR_AND_MORE = HOLD_SECONDS + MICROSECOND


@pytest.mark.parametrize(
    ("ages", "is_late"),
    [
        ([7200.0] * 3, True),
        ([7200.0] * 2, False),
        ([HOUR_AND_MORE, HOUR_AND_MORE, HOUR_AND_MORE], True),
        ([LATEST_SECONDS] * 3, True),
        ([LATEST_SECONDS + 1] * 3, False),
        ([5.0, 7200.0, 7200.0, 7200.0], True),
        ([7200.0, 7200.0, 7200.0, 5.0], False),
        ([7200.0, 5.0, 7200.0, 7200.0], False),
        ([7200.0, 7200.0, 7200.0, -5.0], False),
    ],
    ids=[
        "all two hours late", "too few", "just over an hour", "three days", "older than GitHub repeats",
        "in time before", "in time again", "in time in between", "ahead of its date again",
    ],
)  # fmt: skip
def test_deliveries_that_are_all_more_than_an_hour_late_are_late(ages, is_late):
    assert causes(facts(arrivals=overdue(*ages))) == ([GapCause.LATE] if is_late else [])


def test_the_delay_of_deliveries_that_are_hours_late_is_reported():
    assert (
        in_words(completeness(facts(arrivals=overdue(7300.0, 7200.0, 7250.0)), NOW))
        == "deliveries arrive 2 h 1 min late"
    )


@pytest.mark.parametrize(("after", "lasts"), [(-MICROSECOND, True), (0.0, False)])
def test_that_they_are_hours_late_is_known_for_six_hours(after, lasts):
    known = overdue(7200.0, 7200.0, 7200.0)
    first_at = NOW - 120
    assert bool(completeness(facts(arrivals=known), first_at + OVERDUE_LASTS_SECONDS + after)) is lasts


@given(
    st.lists(st.tuples(st.floats(NOW - 600, NOW), st.sampled_from([5.0, 300.0, 4000.0, 9000.0])), max_size=30),
    st.randoms(),
)
def test_batches_of_deliveries_in_any_order_show_the_same_delay(samples, random):
    new = [(at, at - age) for at, age in samples]
    shuffled = random.sample(new, len(new))
    by_one = DeliveryArrivals()
    for each in shuffled:
        by_one = arrivals_after(by_one, [each], NOW)
    assert by_one._replace(late=()) == arrivals_after(DeliveryArrivals(), new, NOW)._replace(late=())


def test_a_delivery_without_a_date_has_come_and_says_nothing_of_the_delay():
    assert arrivals_after(DeliveryArrivals(), [(NOW - 5, None)], NOW) == DeliveryArrivals(NOW - 5)


def test_deliveries_are_missing_from_as_long_ago_as_the_latest_one_was_late():
    (found,) = completeness(late(120), NOW)
    assert found == DeliveryGap(NOW - 125, None, GapCause.LATE, "deliveries arrive 2 min late")


@pytest.mark.parametrize(("after", "lasts"), [(125.0, True), (125.0 + MICROSECOND, False)], ids=["before", "after"])
def test_a_late_arrival_counts_until_none_that_is_as_late_can_be_on_its_way(after, lasts):
    assert bool(completeness(late(120), NOW + after)) is lasts


def test_a_fresh_delivery_ends_no_delay_for_not_all_are_equally_late():
    after = arrivals_after(late(120).arrivals, [(NOW + 1, NOW)], NOW + 1)
    assert causes(facts(arrivals=after), NOW + 1) == [GapCause.LATE]


@pytest.mark.parametrize("before", [70.0, 300.0], ids=["less late", "as late"])
def test_when_a_later_delivery_is_at_least_as_late_it_alone_counts(before):
    known = arrivals_after(DeliveryArrivals(), [(NOW - 30, NOW - 30 - before), (NOW, NOW - 300)], NOW)
    assert known.late == (LateArrival(NOW, 300),)


@pytest.mark.parametrize(
    ("age", "is_punctual", "is_overdue"),
    [
        (HOLD_SECONDS, True, False),
        (HOUR_AND_MORE, False, True),
        (LATEST_SECONDS, False, True),
        (LATEST_SECONDS + MICROSECOND, False, False),
    ],
    ids=["an hour", "over an hour", "three days", "older than GitHub repeats"],
)
def test_a_delivery_is_overdue_once_it_is_more_than_an_hour_late(age, is_punctual, is_overdue):
    known = overdue(age)
    assert (known.punctual_at, bool(known.overdue)) == (NOW if is_punctual else None, is_overdue)


@pytest.mark.parametrize(("at", "is_kept"), [(NOW, True), (NOW + MICROSECOND, False)], ids=["now", "in the future"])
def test_when_the_last_punctual_delivery_arrived_is_kept_unless_it_is_in_the_future(at, is_kept):
    assert arrivals_after(DeliveryArrivals(punctual_at=at), [], NOW).punctual_at == (at if is_kept else None)


def test_when_delays_shrink_the_greater_one_counts_for_its_time_and_the_lesser_one_after_it():
    known = arrivals_after(DeliveryArrivals(), [(NOW - 200, NOW - 500), (NOW, NOW - 60)], NOW)
    assert [each.seconds for each in known.late] == [300, 60]
    assert completeness(facts(arrivals=known), NOW)[0].since == NOW - 305
    assert completeness(facts(arrivals=known), NOW + 30) == completeness(facts(arrivals=known), NOW + 30)
    assert arrivals_after(known, [], NOW + 106).late == ()
    assert completeness(facts(arrivals=known), NOW + 64)[0].since == NOW + 64 - 305


@pytest.mark.parametrize(
    "known", [DeliveryArrivals(NOW + 3600), DeliveryArrivals(NOW + 3600, (LateArrival(NOW + 3600, 300),))]
)
def test_what_a_clock_dated_that_ran_ahead_is_forgotten(known):
    assert completeness(facts(arrivals=known), NOW) == ()
    assert expected_at([online(busy=True, observed_at=NOW - 60)], known, None, NOW) is None
    assert arrivals_after(known, [(NOW - 5, None)], NOW) == DeliveryArrivals(NOW - 5)


@pytest.mark.parametrize(("count", "kept"), [(MOST_LATE, MOST_LATE), (MOST_LATE + 1, MOST_LATE)])
def test_so_many_late_arrivals_are_kept_apart_and_of_more_the_two_least_late_become_one(count, kept):
    samples = [(NOW - each, NOW - each - LATE_DELIVERY_SECONDS - 60 * each) for each in range(count)]
    late = arrivals_after(DeliveryArrivals(), samples, NOW).late
    assert len(late) == kept
    assert max(each.seconds for each in late) == LATE_DELIVERY_SECONDS + 60 * (count - 1)
    assert [each.at for each in late] == [NOW - each for each in reversed(range(kept))]


@given(st.lists(st.tuples(st.floats(NOW - 600, NOW), st.floats(0, 700)), max_size=30), st.randoms())
def test_the_order_of_deliveries_changes_nothing_and_the_greatest_delay_is_never_lost(samples, random):
    new = [(at, at - age) for at, age in samples]
    known = arrivals_after(DeliveryArrivals(), new, NOW)
    assert arrivals_after(DeliveryArrivals(), random.sample(new, len(new)), NOW) == known
    assert len(known.late) <= MOST_LATE
    greatest = max(
        (a - b for a, b in new if a - b >= LATE_DELIVERY_SECONDS and a + (a - b) + MARGIN_SECONDS >= NOW), default=None
    )
    found = [each.seconds for each in known.late]
    assert (max(found) if found else None) == (None if greatest is None else pytest.approx(greatest))


@pytest.mark.parametrize(
    ("waited", "is_behind"),
    [(LATE_DELIVERY_SECONDS, True), (LATE_DELIVERY_SECONDS - MICROSECOND, False)],
    ids=["long", "briefly"],
)
def test_deliveries_that_wait_in_the_inbox_have_not_come(waited, is_behind):
    assert causes(facts(backlog_seconds=waited)) == ([GapCause.BACKLOG] if is_behind else [])


def test_of_a_backlog_of_late_deliveries_both_delays_count_together():
    known = late(120)._replace(backlog_seconds=600)
    assert min(each.since for each in completeness(known, NOW)) == NOW - 725


def test_failed_deliveries_are_a_gap_of_their_own_time():
    (found,) = completeness(missing(), NOW)
    assert found[:3] == (AT - 105, AT + 15, GapCause.FAILED)
    assert found.text == "3 failed and have not come since"


def test_failures_that_were_not_read_are_a_gap_of_every_installation():
    (found,) = completeness(missing(number=0, installation=0), NOW)
    assert found.text == "more have failed than GitHub's log was read for"
    assert completeness(missing(installation=ANOTHER), NOW) == ()


@pytest.mark.parametrize(
    ("at", "since", "until"),
    [(NOW, NOW - MARGIN_SECONDS, NOW + MARGIN_SECONDS), (NOW + MICROSECOND, 0.0, None)],
    ids=["now", "in the future"],
)
def test_a_failure_in_the_future_has_no_date_and_may_be_of_any_time(at, since, until):
    assert completeness(missing(at, at), NOW)[0][:2] == (since, until)


@pytest.mark.parametrize(
    ("read_at", "since"),
    [(NOW - 90, NOW - 95), (NOW, NOW - 5), (None, 0.0), (NOW + MICROSECOND, 0.0)],
    ids=["once read", "read now", "never read", "read in the future"],
)
def test_a_log_that_cannot_be_read_hides_what_failed_since(read_at, since):
    log = log_after_failure(DeliveryLog(read_at), "GitHub answered 502", NOW)
    (found,) = completeness(facts(log=log), NOW)
    assert found == DeliveryGap(
        since, None, GapCause.UNREADABLE, "GitHub's delivery log cannot be read: GitHub answered 502"
    )


def test_a_failure_of_the_log_keeps_its_begin_unless_that_is_in_the_future():
    first = log_after_failure(DeliveryLog(NOW - 90), "a", NOW)
    assert log_after_failure(first, "b", NOW + 60) == first._replace(failure="b")
    assert log_after_failure(first, "b", NOW - 60).failing_since == NOW - 60


AT_WORK = online(busy=True, observed_at=NOW)
LAST = DeliveryArrivals(NOW - MICROSECOND)


@pytest.mark.parametrize(
    ("runner", "arrivals", "is_expected"),
    [
        (AT_WORK, LAST, True),
        (AT_WORK, DeliveryArrivals(NOW), False),
        (AT_WORK._replace(busy=False), LAST, False),
        (AT_WORK._replace(listed=False), LAST, False),
        (AT_WORK._replace(job_id=9, job_started_at=NOW - 20), LAST, False),
        (AT_WORK._replace(ephemeral=True, job_id=9, job_ended_at=LONG_AGO), LAST, False),
        (AT_WORK._replace(job_id=9, job_ended_at=NOW - LIST_LAG_SECONDS), LAST, False),
        (AT_WORK._replace(job_id=9, job_ended_at=NOW - 30), LAST, False),
        (AT_WORK._replace(job_id=9, job_ended_at=NOW - LIST_LAG_SECONDS - MICROSECOND), LAST, True),
        (AT_WORK._replace(observed_at=None), LAST, False),
        (AT_WORK._replace(observed_at=NOW + 60), LAST, False),
        (AT_WORK._replace(observed_at=(LAST.last_at or 0.0) - 60), LAST, False),
        (AT_WORK, DeliveryArrivals(), False),
        (AT_WORK, DeliveryArrivals(NOW - HOLD_SECONDS - MICROSECOND), True),
        (AT_WORK, DeliveryArrivals(LONG_AGO), True),
        (AT_WORK, DeliveryArrivals(NOW + MICROSECOND), False),
    ],
    ids=[
        "newly at work", "a delivery came since", "idle", "not listed", "its job is known", "its only job has ended",
        "its last job ended as long ago as lists lag", "its last job ended a moment ago", "its last job ended before", "never observed",
        "observed in the future", "observed before the last one", "no deliveries come", "the last over an hour ago", "the last a day ago",
        "the last in the future",
    ],
)  # fmt: skip
def test_a_delivery_must_come_if_a_runner_began_to_work_since_the_last_one(runner, arrivals, is_expected):
    assert expected_at([present(2), runner], arrivals, None, NOW) == (NOW if is_expected else None)


def test_a_delivery_is_expected_since_the_first_runner_that_began_to_work_until_one_arrives():
    later = AT_WORK._replace(observed_at=NOW + 60)
    assert expected_at([later, AT_WORK], LAST, None, NOW + 60) == NOW
    assert expected_at([later], LAST, NOW, NOW + 60) == NOW, "the runner has left since"
    assert expected_at([], DeliveryArrivals(NOW), NOW, NOW + 60) is None
    assert expected_at([later], DeliveryArrivals(NOW), NOW, NOW + 60) == NOW + 60
    assert expected_at([], LAST, NOW + 60, NOW + 60) == NOW + 60
    assert expected_at([], LAST, NOW + 60 + MICROSECOND, NOW + 60) is None, "a date in the future"


@pytest.mark.parametrize(
    ("expected", "last_at", "is_silent"),
    [
        (NOW - UNNAMED_SECONDS, AT, True),
        (NOW - UNNAMED_SECONDS + MICROSECOND, AT, False),
        (AT, AT, False),
        (AT - 1, AT, False),
        (AT, None, False),
        (None, AT, False),
    ],
    ids=["for long", "it may be on its way", "one came", "one came after it", "none ever came", "none is expected"],
)
def test_silence_is_a_gap_from_the_last_arrival_on(expected, last_at, is_silent):
    found = completeness(facts(arrivals=DeliveryArrivals(last_at), expected_at=expected), NOW)
    assert [each[:3] for each in found] == ([(AT - MARGIN_SECONDS, None, GapCause.SILENT)] if is_silent else [])
    assert all("no delivery has come for" in each.text for each in found)


LEFT_AFTER = AT - LIST_LASTS_SECONDS


@pytest.mark.parametrize(
    ("gaps", "awaits"),
    [
        ((), False),
        (gap(), True),
        (gap(AT), True),
        (gap(AT + MICROSECOND), False),
        (gap(0.0, LEFT_AFTER), True),
        (gap(0.0, LEFT_AFTER - MICROSECOND), False),
        (gap(AT - 5, AT - 4), True),
        ((*gap(0.0, 1.0), *gap(AT)), True),
    ],
    ids=[
        "complete", "for ever", "until it was missing", "only since then", "ended as it was listed", "ended before",
        "in between", "the second of two",
    ],
)  # fmt: skip
def test_an_absence_waits_for_deliveries_of_the_time_in_which_the_runner_left(gaps, awaits):
    assert left_in_gap(suspect(), gaps, survey()) is awaits


@pytest.mark.parametrize("ephemeral", [True, None, False], ids=str)
def test_a_runner_of_any_kind_waits(ephemeral):
    """A persistent one may have begun a job, whose delivery would show that it works without its registration."""
    assert left_in_gap(suspect(ephemeral=ephemeral), gap(), survey())


def test_a_runner_left_after_the_last_list_that_had_it():
    runner = suspect(last_shown_at=AT - 5)
    assert left_in_gap(runner, gap(0.0, AT - 5), survey())
    assert not left_in_gap(runner, gap(0.0, AT - 5 - MICROSECOND), survey())
    assert not left_in_gap(suspect(last_shown_at=AT), gap(0.0, AT - MICROSECOND), survey())
    after_it = suspect(last_shown_at=AT + MICROSECOND)
    assert left_in_gap(after_it, gap(0.0, LEFT_AFTER), survey()), "a date after it was missed"


def test_a_runner_that_may_have_left_in_a_blind_span_waits_for_deliveries_of_that_span():
    blind = survey(blind=((AT - 7200, AT),))
    assert left_in_gap(suspect(), gap(0.0, AT - 7200), blind)
    assert not left_in_gap(suspect(), gap(0.0, AT - 7200 - MICROSECOND), blind)
    assert not left_in_gap(suspect(), gap(0.0, AT - 7200), survey(blind=((AT - 9000, AT - 8000),)))
    before, later = (
        survey(blind=((AT - 7200, LEFT_AFTER),)),
        survey(blind=((LEFT_AFTER - 60, LEFT_AFTER - MICROSECOND),)),
    )
    assert left_in_gap(suspect(), gap(0.0, AT - 7200), before), "no list showed when it was still there"
    assert not left_in_gap(suspect(), gap(0.0, LEFT_AFTER - 60), later), "a later list returned it"


@pytest.mark.parametrize(
    ("waited", "is_enough"),
    [(HOLD_SECONDS - MICROSECOND, False), (HOLD_SECONDS, True)],
    ids=["under an hour", "an hour"],
)
def test_an_absence_waits_at_most_an_hour_that_lists_cover(waited, is_enough):
    now, runner = AT + waited, suspect()
    assert has_waited(runner, survey(swept_at=now), now) is is_enough
    blind = survey(swept_at=now, blind=((AT + 1, AT + 61),))
    assert not has_waited(runner, blind, now), "the minute that no list covers does not count"
    assert has_waited(runner, blind, now + 61)


def test_a_deferred_confirmation_is_recorded_once_for_an_absence():
    first = confirmation_deferred(suspect(), NOW)
    assert first.deliveries_behind_at == NOW
    assert confirmation_deferred(first, NOW) is first
    assert confirmation_deferred(first, NOW + 60) is first
    as_it_began = suspect(deliveries_behind_at=AT)
    assert confirmation_deferred(as_it_began, NOW) is as_it_began
    again = suspect(deliveries_behind_at=AT - MICROSECOND)
    assert confirmation_deferred(again, NOW).deliveries_behind_at == NOW, "the earlier one was of another absence"
    ahead = suspect(deliveries_behind_at=NOW + MICROSECOND)
    assert confirmation_deferred(ahead, NOW).deliveries_behind_at == NOW, "a date in the future"
    assert confirmation_deferred(None, NOW) is None
    assert confirmation_deferred(present(), NOW) == present()


@pytest.mark.parametrize(
    ("deferred_at", "reason"),
    [
        (AT, Reason.DELIVERIES_BEHIND),
        (AT + 30, Reason.DELIVERIES_BEHIND),
        (AT - MICROSECOND, Reason.AWAITING_CONFIRMATION),
        (None, Reason.AWAITING_CONFIRMATION),
    ],
    ids=["as it began", "this absence", "an earlier one", "never"],
)
def test_a_suspect_whose_confirmation_is_deferred_says_why(deferred_at, reason):
    verdict = judge(suspect(deliveries_behind_at=deferred_at), survey(), NOW, Limits())
    assert verdict[:3] == (State.SUSPECT, reason, AT)


@pytest.mark.parametrize(
    ("changes", "without"),
    [
        ({"deliveries_behind_at": AT, "confirmed_at": AT + HOLD_SECONDS}, True),
        ({"deliveries_behind_at": AT, "confirmed_at": AT + HOLD_SECONDS - 1}, False),
        ({"deliveries_behind_at": AT - 1, "confirmed_at": AT + HOLD_SECONDS}, False),
        ({"deliveries_behind_at": AT, "confirmed_at": None}, False),
        ({"deliveries_behind_at": None}, False),
    ],
    ids=["after an hour", "deliveries came", "of an earlier absence", "not confirmed", "never deferred"],
)
def test_a_loss_that_was_confirmed_without_deliveries_is_known(changes, without):
    assert was_confirmed_without_deliveries(lost(ephemeral=True, absent_since=AT, **changes)) is without


def of(installation, since=AT, until=AT, number=1):
    return MissingDeliveries(installation, since, until, number)


def reading(*missing, until=None, at=NOW, newest=True, begins=True):
    return LogReading(at, missing, LONG_AGO, until, newest, begins)


UNREAD = MissingDeliveries(0, LONG_AGO, AT, 0)


def test_a_read_of_the_whole_log_replaces_what_was_missing():
    known = DeliveryLog(NOW - 60, (of(ORG), UNREAD), NOW - 30, "502", None, (of(ORG),))
    assert log_after(known, reading(of(ANOTHER))) == DeliveryLog(NOW, (of(ANOTHER),), complete_at=NOW)
    assert log_after(known, reading(begins=False)) == DeliveryLog(NOW, complete_at=NOW)


def test_failures_before_those_of_a_first_read_are_unknown_until_a_reading_reaches_the_oldest():
    first = log_after(DeliveryLog(), reading(of(ORG), until=AT))
    assert (first.missing, first.read_at, first.complete_at) == ((UNREAD, of(ORG)), NOW, None)
    last = log_after(first, reading(of(ORG, AT - 50, AT - 50), at=NOW + 6, newest=False, begins=False))
    assert last == DeliveryLog(NOW, (of(ORG, AT - 50, AT),), complete_at=NOW)


def test_what_a_whole_reading_found_is_missing_until_the_next_one_ends():
    known = DeliveryLog(NOW - 30, (of(ORG),), complete_at=NOW - 30)
    first = log_after(known, reading(until=AT))
    assert first.missing == (of(ORG),), "and nothing is unknown: all before that was read"
    again = log_after(first, reading(of(ANOTHER), until=AT, begins=False, at=NOW + 6))
    assert again.missing == (of(ORG), of(ANOTHER)), "a confirmation has read the newest end"
    last = log_after(again, reading(newest=False, begins=False, at=NOW + 12))
    assert last == DeliveryLog(NOW + 6, (of(ANOTHER),), complete_at=NOW + 6)


def test_failures_between_a_whole_reading_and_the_oldest_read_now_are_unknown():
    known = DeliveryLog(NOW - 3600, complete_at=AT - MICROSECOND)
    assert log_after(known, reading(until=AT)).missing == (UNREAD,)
    assert log_after(known._replace(complete_at=AT), reading(until=AT)).missing == ()
    assert log_after(known._replace(complete_at=NOW), reading(until=AT)).missing == ()
    ahead = known._replace(complete_at=NOW + MICROSECOND)
    assert log_after(ahead, reading(until=AT)).missing == (UNREAD,), "a date in the future"
