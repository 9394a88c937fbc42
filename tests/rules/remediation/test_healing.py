"""How long healing takes: a lost runner is matched with the new runner of its replacement."""

from __future__ import annotations

import pytest

from ghapp.remediation.healing import (
    BOOTS_SECONDS,
    FEWEST_BOOTS,
    HEALED_WITHIN_SECONDS,
    LATE_AT_LEAST_SECONDS,
    LATE_SUCCESSOR_SECONDS,
    Heal,
    heals,
    hidden_successors,
    lost_since,
    may_be_succeeded,
)
from ghapp.runners.evidence import LIST_LASTS_SECONDS, Evidence, Survey

NOW, LOST_AT, ACCEPTED_AT = 1_000.0, 500.0, 600.0


def lost(number=1, **changes):
    worst = Evidence(number, f"r{number}", 0.0, registered=True, absent_since=LOST_AT, first_404_at=510.0)
    return worst._replace(**{"replaced_at": ACCEPTED_AT, **changes})


def newcomer(number=9, first_seen=700.0, **changes):
    online = {"registered": True, "listed": True, "online": True, "was_online": True}
    return Evidence(number, f"r{number}", first_seen, **online)._replace(**changes)


def left(number, left_at, **changes):
    """A runner that left after its job."""
    return newcomer(number, 0.0, listed=False, job_ended_at=left_at)._replace(**changes)


@pytest.mark.parametrize(
    ("changes", "is_successor"),
    [
        ({}, True),
        ({"first_seen": ACCEPTED_AT}, False),
        ({"first_seen": ACCEPTED_AT + HEALED_WITHIN_SECONDS}, True),
        ({"first_seen": ACCEPTED_AT + HEALED_WITHIN_SECONDS + 0.1}, False),
        ({"online": False}, False),
        ({"registered": False}, False),
        ({"succeeds": 7}, False),
        ({"id": 1}, False),
    ],
)
def test_a_new_runner_online_after_the_request_is_the_successor(changes, is_successor):
    came = newcomer()._replace(**changes)
    assert heals([lost(1), came], NOW) == ([Heal(1, came.id, 500.0, NOW)] if is_successor else [])


def test_the_successor_is_dated_by_the_start_of_its_job():
    assert heals([lost(), newcomer(job_started_at=750.0)], NOW) == [Heal(1, 9, 250.0, 750.0)]


def test_a_loss_is_counted_once_and_only_if_a_replacement_was_accepted():
    assert heals([lost(successor=9), newcomer()], NOW) == []
    assert heals([lost(replaced_at=None), newcomer()], NOW) == []


def test_the_oldest_loss_gets_the_oldest_new_runner_and_each_is_one_successor():
    second = lost(2)._replace(replaced_at=650.0)
    assert heals([second, lost(), newcomer(9), newcomer(8, 690.0)], NOW) == [
        Heal(1, 8, 500.0, NOW),
        Heal(2, 9, 500.0, NOW),
    ]
    assert heals([second, lost(), newcomer(9)], NOW) == [Heal(1, 9, 500.0, NOW)]


@pytest.mark.parametrize(("left_at", "is_successor"), [(700.0, False), (700.1, True), (-2_900.0, True)])
def test_a_new_runner_in_place_of_one_that_left_after_its_job_is_no_successor(left_at, is_successor):
    gone = left(3, left_at)
    assert bool(heals([lost(), gone, newcomer()], NOW)) is is_successor
    assert bool(heals([lost(), gone, newcomer(), newcomer(10, 710.0)], NOW)) is True


@pytest.mark.parametrize(("left_at", "is_successor"), [(599.9, True), (600.0, True), (600.1, False)])
def test_a_departure_explains_no_new_runner_an_hour_later(left_at, is_successor):
    """One that no earlier newcomer took is too old for a later one."""
    gone, explained, late = [left(2, 590.0), left(3, left_at)], newcomer(9), newcomer(10, 600.0 + HEALED_WITHIN_SECONDS)
    found = heals([lost(), *gone, explained, late], late.first_seen + 100)
    assert [each.successor for each in found] == ([10] if is_successor else [])


def test_an_old_loss_takes_no_new_runner_of_a_later_loss():
    old = lost(1)._replace(replaced_at=-4_000.0)
    assert heals([old, lost(2), newcomer()], NOW) == [Heal(2, 9, 500.0, NOW)]


def test_a_runner_replaced_while_offline_counts_from_its_replacement():
    offline = lost(absent_since=None, first_404_at=None, offline_since=400.0)
    assert heals([offline, newcomer()], NOW) == [Heal(1, 9, 600.0, NOW)]


@pytest.mark.parametrize(
    ("changes", "began"),
    [
        ({"confirmed_at": 540.0, "offline_since": 100.0}, 500.0),
        ({"offline_since": 100.0}, 100.0),
        ({"first_404_at": 480.0}, 480.0),
        ({"absent_since": None, "first_404_at": None, "granted_at": 590.0}, 590.0),
        ({"absent_since": None, "first_404_at": None}, ACCEPTED_AT),
    ],
    ids=[
        "invalidated, and offline before",
        "replaced while offline",
        "a GET first",
        "returned and granted",
        "returned",
    ],
)
def test_a_loss_began_when_its_runner_was_first_missing(changes, began):
    assert lost_since(lost(**changes)) == began


def test_each_departure_explains_one_new_runner():
    gone = [left(each, 650.0 + each) for each in (2, 3)]
    came = [newcomer(11, 655.0), newcomer(12, 656.0), newcomer(13, 657.0)]
    assert heals([lost(), *gone, *came], NOW) == [Heal(1, 13, 500.0, NOW)]


@pytest.mark.parametrize("registered", [True, False], ids=["listed between", "of jobs so short that no list had them"])
def test_a_fleet_whose_runners_come_and_leave_hides_no_successor(registered):
    """What explains a runner that left again explains no other."""
    seen = {"registered": registered, "online": registered}
    turns = [left(10 + turn, 620.0 + 20 * turn, first_seen=605.0 + 20 * turn, **seen) for turn in range(6)]
    present, successor = newcomer(30, 725.0), newcomer(31, 730.0)
    assert heals([lost(), left(2, 604.0), *turns, present], NOW) == []
    assert [each.successor for each in heals([lost(), left(2, 604.0), *turns, present, successor], NOW)] == [31]


LATE = ACCEPTED_AT + LATE_SUCCESSOR_SECONDS + 1.0


def healed(number, accepted_at=ACCEPTED_AT, took=LATE_SUCCESSOR_SECONDS):
    return lost(number, replaced_at=accepted_at, successor=100 + number, healed_at=accepted_at + took)


def losses_in_churn(late=1, healed_count=2, came=1, took=LATE_SUCCESSOR_SECONDS):
    """Losses of which the last ones have no successor, in a pool where each newcomer follows a departure."""
    others = [healed(10 + each, took=took) for each in range(healed_count)]
    losses = [lost(each) for each in range(1, 1 + late)] + others
    churn = [left(40 + each, 650.0) for each in range(came)] + [newcomer(60 + each, 660.0) for each in range(came)]
    return losses + churn


def hidden(members, now=LATE, **survey):
    return hidden_successors(members, Survey(**{"swept_at": now, **survey}), now)


@pytest.mark.parametrize(
    ("pool", "is_hidden"),
    [
        ({}, True),
        ({"healed_count": 1}, False),
        ({"came": 0}, False),
        ({"came": 2}, True),
        ({"late": 3, "healed_count": 6, "came": 3}, True),
        ({"late": 3, "healed_count": 5, "came": 3}, False),
        ({"late": 3, "healed_count": 6, "came": 2}, False),
    ],
    ids=[
        "hidden",
        "too few healed",
        "no newcomer",
        "more newcomers",
        "three hidden",
        "three and too few healed",
        "three and too few came",
    ],
)
def test_a_late_successor_is_hidden_once_most_others_healed_and_newcomers_came_that_may_be_it(pool, is_hidden):
    members = losses_in_churn(**pool)
    assert heals(members, LATE) == []
    assert hidden(members) == ([each.id for each in members if each.id < 10] if is_hidden else [])


@pytest.mark.parametrize(
    ("took", "late_after"),
    [(5.0, LATE_AT_LEAST_SECONDS), (60.0, 120.0), (100.0, 200.0), (150.0, 300.0), (151.0, LATE_SUCCESSOR_SECONDS)],
    ids=["two minutes at least", "two minutes", "twice the slowest", "five minutes", "five minutes at most"],
)
def test_a_successor_is_hidden_only_when_it_is_late(took, late_after):
    """It is late once it takes twice as long as the slowest of the others, after two minutes at least and five at most."""
    members = losses_in_churn(took=took)
    assert hidden(members, ACCEPTED_AT + late_after) == []
    assert hidden(members, ACCEPTED_AT + late_after + 0.1) == [1]


def test_how_long_a_successor_takes_is_seen_in_the_slowest_of_the_others():
    members = [*losses_in_churn(healed_count=2, took=5.0), healed(12, took=100.0)]
    assert hidden(members, ACCEPTED_AT + 200.0) == []
    assert hidden(members, ACCEPTED_AT + 200.1) == [1]


def test_time_without_a_complete_list_makes_no_successor_late():
    assert hidden(losses_in_churn(), blind=((ACCEPTED_AT + 10.0, ACCEPTED_AT + 20.0),)) == []


@pytest.mark.parametrize(
    ("accepted_at", "is_hidden"), [(ACCEPTED_AT - LATE_SUCCESSOR_SECONDS, True), (ACCEPTED_AT - 300.1, False)]
)
def test_losses_of_another_time_do_not_show_that_the_controller_replaces(accepted_at, is_hidden):
    earlier = [healed(10, accepted_at), healed(11, accepted_at)]
    assert bool(hidden([*losses_in_churn(healed_count=0), *earlier])) is is_hidden


def test_a_newcomer_from_before_the_last_late_request_may_not_be_its_successor():
    second = lost(2, replaced_at=660.0)
    members = [*losses_in_churn(healed_count=4, came=2), second]
    assert hidden(members, 660.0 + LATE_SUCCESSOR_SECONDS + 1.0) == []


@pytest.mark.parametrize(
    ("came", "lost_id"),
    [(ACCEPTED_AT + LATE_SUCCESSOR_SECONDS, 1), (ACCEPTED_AT + LATE_SUCCESSOR_SECONDS + 0.1, 2)],
    ids=["its own slow one", "too late for it"],
)
def test_the_slow_successor_of_a_hidden_loss_is_not_taken_for_that_of_a_later_one(came, lost_id):
    """Of nodes that boot cold and warm, the warm ones show that a successor is late before the cold ones are there."""
    hidden_loss, later = lost(1, hidden_at=ACCEPTED_AT + 61.0), lost(2, replaced_at=ACCEPTED_AT + 10.0)
    assert [each.lost for each in heals([hidden_loss, later, newcomer(first_seen=came)], NOW)] == [lost_id]


def test_a_hidden_loss_is_looked_at_until_a_list_has_shown_its_slowest_successor():
    until = ACCEPTED_AT + LATE_SUCCESSOR_SECONDS + LIST_LASTS_SECONDS
    hidden_loss = lost(hidden_at=ACCEPTED_AT + 61.0)
    assert [may_be_succeeded(hidden_loss, at) for at in (until, until + 0.1)] == [True, False]
    assert may_be_succeeded(lost(), until + 0.1)
    assert not may_be_succeeded(lost(successor=9), until)
    assert not may_be_succeeded(lost(replaced_at=None), until)


def test_departures_are_compared_with_new_runners_in_one_pass():
    """A fleet of ephemeral runners has thousands of both at each sweep while a loss has no successor."""

    class Time(float):
        compared = 0

        def __lt__(self, other):
            Time.compared += 1
            return float(self) < float(other)

        def __le__(self, other):
            Time.compared += 1
            return float(self) <= float(other)

        def __gt__(self, other):
            Time.compared += 1
            return float(self) > float(other)

        def __ge__(self, other):
            Time.compared += 1
            return float(self) >= float(other)

    count = 400
    gone = [left(each, Time(each)) for each in range(1, count)]
    came = [newcomer(1_000 + each, 20_000.0) for each in range(count)]
    assert heals([lost(9_000), *gone, *came], 30_000.0) == []
    assert 0 < Time.compared < 20 * count


def busy_pool(until, boot=50.0, apart=10.0):
    """A runner leaves each ten seconds, and its newcomer comes fifty seconds later: five are always under way."""
    times = [place * apart for place in range(1, int(until / apart) + 1)]
    return [
        *(left(10_000 + number, at, first_seen=-9_000.0) for number, at in enumerate(times)),
        *(newcomer(20_000 + number, at + boot) for number, at in enumerate(times) if at + boot <= until),
    ]


LOST = [lost(1), lost(2), lost(3)]


def test_departures_that_await_their_newcomers_do_not_hide_all_successors():
    """Machines boot in 50 s; five more than that, and churn of 25 s at most hides three of eight."""
    losses = [lost(number) for number in range(1, 9)]
    came = [newcomer(30_000 + number, 700.0 + number) for number in range(8)]
    assert len(heals([*losses, *busy_pool(900.0), *came], 900.0)) == 6


def test_machines_that_boot_faster_than_before_heal_no_loss():
    faster = [newcomer(40_000 + number, 620.0 + 10.0 * number + 26.0) for number in range(20)]
    known = [each for each in busy_pool(900.0) if each.job_ended_at is not None or each.first_seen <= 640.0]
    assert heals([*LOST, *known, *faster], 900.0) == []


@pytest.mark.parametrize("stops_at", [500.0, 700.0])
def test_newcomers_of_departures_heal_no_loss_even_where_jobs_stop(stops_at):
    """No departure follows then, so that those under way have their newcomers, and none is left."""
    leaving = [each for each in busy_pool(900.0) if (each.job_ended_at or each.first_seen - 50.0) <= stops_at]
    assert heals([*LOST, *leaving], 900.0) == []


def test_a_pool_of_which_few_newcomers_are_known_explains_them_by_any_departure():
    known = [*(left(50 + number, 100.0 * number) for number in range(7))]
    came = [newcomer(100 + number, 100.0 * number + 50.0) for number in range(6)]
    assert heals([*LOST, *known, *came, newcomer(200, 601.0)], NOW) == []


REQUESTED_AT = 10_000.0
TEN = [REQUESTED_AT - 100.0 * number for number in range(FEWEST_BOOTS)]


@pytest.mark.parametrize(
    ("times", "is_known"),
    [
        (TEN, True),
        (TEN[1:], False),
        ([*TEN[1:], REQUESTED_AT + 0.1], False),
        ([*TEN[1:], REQUESTED_AT - BOOTS_SECONDS + 0.1], True),
        ([*TEN[1:], REQUESTED_AT - BOOTS_SECONDS], False),
    ],
    ids=[
        "ten, the last one as the request was accepted",
        "nine",
        "one of ten after the request",
        "one of ten within half an hour before it",
        "one of ten half an hour before it",
    ],
)
def test_how_soon_newcomers_follow_departures_is_seen_in_ten_of_the_half_hour_before_the_request(times, is_known):
    """They came after 50 s. One that came 20 s after a departure is a successor then."""
    left_before = [left(100 + number, at - 50.0, first_seen=0.5) for number, at in enumerate(times)]
    came_before = [newcomer(200 + number, at) for number, at in enumerate(times)]
    since = [left(300, REQUESTED_AT + 200.0, first_seen=0.5), newcomer(400, REQUESTED_AT + 220.0)]
    found = heals([lost(replaced_at=REQUESTED_AT), *left_before, *came_before, *since], REQUESTED_AT + 300.0)
    assert [each.successor for each in found] == ([400] if is_known else [])
