"""The runners that remain lost after a sweep, in numbers and words."""

import pytest

from ghapp.remediation.pause import Pause
from ghapp.report.fleet import by_pool
from ghapp.report.remaining_losses import LONGEST_TEXT, MOST_LISTED, RemainingLoss, RemainingLosses, remaining_losses
from tests.report.fleets import fleet_of, healed, requested
from tests.rules.builders import NOW, lost, online, suspect


def losses(*runners, **changes):
    return remaining_losses(by_pool(fleet_of(*runners, **changes), NOW))


def test_runners_that_are_not_lost_or_whose_successors_are_online_do_not_remain():
    found = losses(online(1), suspect(2, absent_since=NOW - 1), healed(3, NOW - 5))
    assert found == RemainingLosses()
    assert found.in_words == ""


def test_losses_are_counted_by_what_happens_next_to_them_the_most_first():
    found = losses(lost(1), requested(2, NOW - 5), requested(3, NOW - 5), healed(4, NOW - 5))
    assert found.runners == 3
    assert [(each.runners, each.status, each.blocked_by) for each in found.groups] == [
        (2, "requested", ""),
        (1, "waiting", ""),
    ]
    assert found.groups[0].text == "no successor is online yet"
    assert found.groups[1].text == "its replacement is the next one"


def test_what_waits_for_a_person_comes_first_and_in_the_words_of_the_status():
    (group,) = losses(lost(1), lost(2), mode="dry-run").groups
    assert group[1:] == (2, "waiting", "dry-run", "nothing is replaced: remediation is in dry-run")


@pytest.mark.parametrize(
    ("groups", "runners", "words"),
    [
        ((("a", 1),), 1, "1 runner remains lost: 1 of a waiting (why)"),
        ((("a", 2), ("b", 1)), 3, "3 runners remain lost: 2 of a waiting (why), 1 of b waiting (why)"),
        (
            (("a", 2), ("b", 2), ("c", 2), ("d", 1)),
            1_007,
            "1,007 runners remain lost: 2 of a waiting (why), 2 of b waiting (why), 2 of c waiting (why), 1,001 more",
        ),
    ],
)
def test_words_are_bounded_and_their_numbers_add_up(groups, runners, words):
    known = tuple(RemainingLoss(pool, count, "waiting", "", "why") for pool, count in groups)
    assert RemainingLosses(runners, known).in_words == words


def test_groups_and_texts_are_bounded():
    runners = (lost(each, custom_labels=(f"p{each}",)) for each in range(MOST_LISTED + 5))
    found = losses(*runners, org_pause=Pause("mona", "x" * 500, NOW))
    assert (found.runners, len(found.groups)) == (MOST_LISTED + 5, MOST_LISTED)
    assert all(len(each.text) <= LONGEST_TEXT for each in found.groups)
