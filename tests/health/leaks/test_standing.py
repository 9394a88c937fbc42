"""What is told of a reaper, and for how long."""

import pytest

from ghapp.health.leaks.standing import OVERDUE_SECONDS, LeakStanding, is_overdue, standing
from tests.health.builders import MICROSECOND, NOW


def told(at=NOW, trouble_since=None):
    return standing(at, trouble_since, NOW, reaped=4, deferred=3, told=2, strangers=1)


@pytest.mark.parametrize(
    ("at", "overdue"),
    [
        (NOW, False),
        (NOW - OVERDUE_SECONDS, False),
        (NOW - OVERDUE_SECONDS - MICROSECOND, True),
        (NOW + OVERDUE_SECONDS, False),
        (NOW + OVERDUE_SECONDS + MICROSECOND, True),
        (None, True),
    ],
    ids=["now", "three minutes ago", "longer ago", "a clock that differs", "a clock that jumped", "never"],
)
def test_what_happens_each_minute_is_overdue_after_three(at, overdue):
    assert is_overdue(at, NOW) is overdue
    assert told(at) == (LeakStanding(4) if overdue else LeakStanding(4, 3, 2, strangers=1))


@pytest.mark.parametrize(
    ("since", "held_up"),
    [(None, False), (NOW - OVERDUE_SECONDS, False), (NOW - OVERDUE_SECONDS - MICROSECOND, True)],
    ids=["no trouble", "a passing one", "one that lasts"],
)
def test_only_trouble_that_lasts_is_told(since, held_up):
    assert told(trouble_since=since).held_up_since == (since if held_up else None)


def test_of_a_reaper_that_has_stopped_no_old_trouble_is_told():
    assert told(at=NOW - 3600, trouble_since=NOW - 7200) == LeakStanding(4)
