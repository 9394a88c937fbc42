"""Which newcomers prove a batch: those that the pool's own churn does not explain."""

from __future__ import annotations

import pytest

from ghapp.remediation.churn import CHURN_SECONDS, DEPARTURES_SECONDS, newcomers
from ghapp.remediation.fuse import FuseLimits
from ghapp.runners.verdict import State
from tests.rules.builders import LONG_AGO, MICROSECOND, NOW, lost, online, survey, suspect

LIMITS = FuseLimits()
SEEN = survey(swept_at=NOW + 7200)


def newcomer(number, at, state=State.HEALTHY, **changes):
    return online(1000 + number, first_seen=NOW + at, **changes), state


def departed(number, at, came_at=None, **changes):
    came = LONG_AGO if came_at is None else NOW + came_at
    return online(number, **{"ephemeral": True, "first_seen": came, "retired_at": NOW + at, **changes}), State.RETIRED


def counted(members, seen=SEEN):
    return newcomers(members, NOW, seen, LIMITS).unexplained


def test_a_runner_missing_from_earlier_lists_is_no_successor():
    members = [(online(50), State.HEALTHY), (online(49, first_seen=NOW + 60), State.HEALTHY)]
    assert counted(members) == 0
    assert counted([*members, (online(51, first_seen=NOW + 60), State.HEALTHY)]) == 1


@pytest.mark.parametrize(("came", "is_known"), [(0.0, True), (MICROSECOND, False)])
def test_what_was_seen_when_the_request_was_accepted_is_known_by_then(came, is_known):
    """A lower id that is listed later was missing from lists until then."""
    members = [(online(50, first_seen=NOW + came), State.HEALTHY), (online(49, first_seen=NOW + 60), State.HEALTHY)]
    assert counted(members) == (0 if is_known else 2)


@pytest.mark.parametrize(("ephemeral", "unexplained"), [(True, 1), (None, 1), (False, 0)])
def test_an_ephemeral_runner_left_at_the_end_of_its_job_and_a_persistent_one_when_it_was_missing(
    ephemeral, unexplained
):
    """The job ended too long before the newcomer came, and the runner went missing just before that."""
    ends = {"retired_at": None, "job_ended_at": NOW - 310, "absent_since": NOW - 10}
    assert counted([departed(1, 0, ephemeral=ephemeral, **ends), newcomer(1, 1.0)]) == unexplained


def test_a_runner_that_only_deliveries_have_named_counts_neither_as_newcomer_nor_as_departure():
    unlisted = {"registered": False, "listed": False}
    assert counted([newcomer(1, 60, **unlisted)]) == 0
    assert counted([departed(1, -30, -60, **unlisted), newcomer(1, 60)]) == 1


def test_a_successor_that_is_lost_again_proves_nothing():
    assert counted([newcomer(1, 60), newcomer(2, 60, State.RETIRED)]) == 2
    assert counted([(lost(1001, first_seen=NOW + 60), State.INVALIDATED)]) == 0


@pytest.mark.parametrize(
    ("left", "arrived", "unexplained"),
    [
        ([], [1.0], 1),
        ([], [0.0], 0),
        ([-300.0], [MICROSECOND], 1),
        ([-300.0], [0.0, 1.0], 1),
        ([-299.0], [1.0], 0),
        ([-10.0], [-5.0, 1.0], 1),
        ([2.0], [1.0], 1),
        ([-1.0, -1.0], [1.0, 2.0, 3.0], 1),
    ],
    ids=[
        "no departure",
        "seen when it was accepted",
        "too long after",
        "one each",
        "just in time",
        "its successor had come before",
        "left later",
        "two left and three came",
    ],
)
def test_each_departure_explains_one_newcomer(left, arrived, unexplained):
    members = [departed(number, at) for number, at in enumerate(left)]
    members += [newcomer(number, at) for number, at in enumerate(arrived)]
    assert counted(members) == unexplained


def slow_churn(boot, before=1800):
    """One runner leaves every two minutes, in a pool whose machines boot in `boot` seconds."""
    left = range(-before, 600 + boot, 120)
    return [
        *(departed(number, at) for number, at in enumerate(left)),
        *(newcomer(number, at + boot) for number, at in enumerate(range(-before, 600, 120))),
    ]


@pytest.mark.parametrize("boot", [30, 300, 330, 600, 1100])
def test_newcomers_of_departures_prove_nothing_however_long_machines_boot(boot):
    assert counted(slow_churn(boot)) == 0
    assert counted([*slow_churn(boot), *(newcomer(500 + number, 61) for number in range(12))]) >= 2


@pytest.mark.parametrize(
    ("took", "takes", "unexplained"),
    [
        (150.0, 300.0, 0),
        (150.0, 300.0 + MICROSECOND, 1),
        (150.0 + MICROSECOND, 300.0 + MICROSECOND, 0),
        (150.0 + MICROSECOND, 600.0, 0),
        (150.0 + MICROSECOND, 600.0 + MICROSECOND, 1),
        (600.0, 1200.0 + MICROSECOND, 1),
        (600.0 + MICROSECOND, 2400.0, 0),
    ],
)
def test_a_departure_explains_a_newcomer_that_is_listed_a_sweep_later_than_those_before(took, takes, unexplained):
    before = [departed(1, -3000), newcomer(1, -3000 + took)]
    assert counted([*before, departed(2, -1), newcomer(2, takes - 1)]) == unexplained


@pytest.mark.parametrize(
    ("came", "counts"),
    [(-CHURN_SECONDS, False), (-CHURN_SECONDS + MICROSECOND, True), (0.0, True)],
    ids=["an hour before", "within the hour", "as the request was accepted"],
)
def test_for_how_long_departures_explain_newcomers_is_seen_in_the_hour_up_to_the_batch(came, counts):
    """One took 151 s, so that the next one may take 600 s."""
    members = [departed(1, came - 151), newcomer(1, came), departed(2, 1), newcomer(2, 601)]
    assert counted(members) == (0 if counts else 1)


@pytest.mark.parametrize(
    ("after", "counts"),
    [(-MICROSECOND, False), (0.0, False), (MICROSECOND, True)],
    ids=["before that", "two hours before", "within two hours"],
)
@pytest.mark.parametrize("kind", ["departure", "request"])
def test_what_explains_the_newcomers_of_that_hour_is_two_hours_old_at_most(kind, after, counts):
    """It explains one that came an hour later or less, without the time that no list covers: then the next may, too."""
    at = after - DEPARTURES_SECONDS
    request = lost(1, granted_at=NOW + at, replaced_at=NOW + at), State.INVALIDATED
    members = [departed(1, at) if kind == "departure" else request, newcomer(1, -3000), departed(2, -1)]
    seen = survey(swept_at=NOW + 7200, blind=((NOW - 7100, NOW - 6000),))
    assert counted([*members, newcomer(2, 599)], seen) == (0 if counts else 1)


@pytest.mark.parametrize(
    ("state", "missing", "unexplained"),
    [
        (State.SUSPECT, 0.0, 1),
        (State.SUSPECT, MICROSECOND, 0),
        (State.SUSPECT, 60.0, 0),
        (State.SUSPECT, 60.0 + MICROSECOND, 1),
        (State.INVALIDATED, MICROSECOND, 1),
    ],
    ids=["as it was accepted", "just after", "as the newcomer came", "after the newcomer", "and is confirmed lost"],
)
def test_a_runner_missing_since_the_batch_explains_a_newcomer_until_it_is_confirmed_lost(state, missing, unexplained):
    """It may have left after a job that no delivery has named so far. One that was missing before is of the loss."""
    absent = suspect(1, absent_since=NOW + missing, first_404_at=NOW + missing + 30)
    assert counted([(absent, state), newcomer(1, 60)]) == unexplained


@pytest.mark.parametrize(
    ("came", "changes", "unexplained"),
    [
        (60, {}, 0),
        (60, {"granted_at": NOW - 20}, 1),
        (-400, {}, 1),
        (-400, {"retired_at": NOW - 10, "reregistered_as": None}, 0),
    ],
    ids=["again", "its replacement was granted", "had come before", "left instead"],
)
def test_a_machine_that_registers_again_explains_that_registration_and_no_other(came, changes, unexplained):
    """Lists may show both for a while: then the earlier registration is missed after the later one has come."""
    earlier = online(1, name="again", listed=False, absent_since=NOW - 10)._replace(reregistered_as=1001)
    members = [(earlier._replace(**changes), State.RETIRED), newcomer(1, came, name="again")]
    assert counted([*members, newcomer(2, 60)] if came < 0 else members) == unexplained


def test_departures_of_a_shrinking_fleet_do_not_explain_successors_for_longer_than_newcomers_took():
    shrinking = [departed(number, -3000 + 50 * number) for number in range(50)]
    quick = [newcomer(number, -2990 + 100 * number) for number in range(25)]
    assert counted([*shrinking, *quick, *(newcomer(100 + number, 60) for number in range(3))]) == 3


def test_the_successors_of_earlier_batches_do_not_stretch_the_time():
    earlier = [
        (lost(number, granted_at=NOW - 900, removed_at=NOW - 890, replaced_at=NOW - 880), State.INVALIDATED)
        for number in range(3)
    ]
    came = [newcomer(number, -800) for number in range(3)]
    leaving = [departed(100 + number, -400) for number in range(3)]
    assert counted([*earlier, *came, *leaving, newcomer(9, 60)]) == 1


@pytest.mark.parametrize(("blind", "found"), [((), 1), (((NOW + 10, NOW + 1210),), 0)])
def test_time_that_no_list_covers_does_not_count(blind, found):
    members = [departed(1, 5), newcomer(1, 1215)]
    assert counted(members, survey(swept_at=NOW + 1215, blind=blind)) == found


def test_the_first_newcomers_of_the_hour_do_not_take_the_departures_of_later_ones():
    """Each half minute one leaves and is followed 50 s later; the last ones come after the batch."""
    left = [-CHURN_SECONDS - 100.0 + 30.0 * number for number in range(123)]
    members = [departed(number, at) for number, at in enumerate(left)]
    came = [newcomer(number, at + 50.0) for number, at in enumerate(left)]
    assert sum(each.first_seen > NOW for each, _ in came) == 1
    assert counted([*members, *came]) == 0


def test_departures_count_for_an_hour_before_the_batch():
    members = [departed(1, -CHURN_SECONDS + 1), newcomer(1, -CHURN_SECONDS + 900), departed(2, -1)]
    assert counted([*members, newcomer(2, 1)]) == 0


@pytest.mark.parametrize(
    ("came_at", "requested_at", "unexplained"),
    [(-30.0, None, 1), (0.0, None, 1), (-30.0, -50.0, 3), (0.0, -MICROSECOND, 3), (0.0, 0.0, 1)],
    ids=[
        "it grew",
        "it grew as the request was accepted",
        "a request had a successor",
        "a request of a moment before had one",
        "the batch's own request explains nothing from before it",
    ],
)
def test_departures_explain_once_more_what_came_beside_the_growth_of_their_pool(came_at, requested_at, unexplained):
    """Two left, three came at once, and the two newcomers of those that left may come after the batch."""
    members = [departed(number, -40.0) for number in range(2)]
    members += [newcomer(number, at) for number, at in enumerate([came_at] * 3 + [20.0, 21.0, 22.0])]
    if requested_at is not None:
        at = NOW + requested_at
        members.append((lost(90, granted_at=at, replaced_at=at), State.INVALIDATED))
    assert counted(members) == unexplained
