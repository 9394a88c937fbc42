"""The status of the reaper, and how long it is reported."""

import pytest

from ghapp.leaks.reaper_status import (
    OVERDUE_SECONDS,
    ReaperStatus,
    examples,
    is_overdue,
    kept_by_guard,
    reaper_status,
)
from ghapp.leaks.tick import Guard, TickResult
from tests.rules.builders import MICROSECOND, NOW
from tests.rules.pods.builders import pod


def status_at(at=NOW, failing_since=None):
    return reaper_status(at, failing_since, NOW, reaped=4, deferred=3, would_reap=2, never_runners=1)


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
def test_the_reaper_is_overdue_three_minutes_after_its_last_tick(at, overdue):
    assert is_overdue(at, NOW) is overdue
    assert status_at(at) == (ReaperStatus(4) if overdue else ReaperStatus(4, 3, 2, never_runners=1))


@pytest.mark.parametrize(
    ("since", "held_up"),
    [(None, False), (NOW - OVERDUE_SECONDS, False), (NOW - OVERDUE_SECONDS - MICROSECOND, True)],
    ids=["no failure", "a short failure", "a lasting failure"],
)
def test_only_a_lasting_failure_is_reported(since, held_up):
    assert status_at(failing_since=since).held_up_since == (since if held_up else None)


def test_kept_pods_are_counted_by_guard_and_the_oldest_five_are_named_as_examples():
    pods = [pod(name=f"linux-{number}", uid=f"uid-{number}", created_at=NOW - number) for number in range(9)]
    guards = [Guard.UNNAMED] * 6 + [Guard.SESSION_OPEN]
    reaping = TickResult(kept=tuple(zip(pods[:7], guards, strict=True)), held=((pods[7], Guard.MASS_LEAK),))
    counts = kept_by_guard(reaping)
    assert counts == {"Unnamed": 6, "SessionOpen": 1, "MassLeak": 1}
    named = examples(reaping)
    oldest = tuple((f"runners/linux-{number}", NOW - number) for number in (5, 4, 3, 2, 1))
    assert named == {"Unnamed": oldest, "MassLeak": (("runners/linux-7", NOW - 7),)}
    found = reaper_status(
        NOW, None, NOW, reaped=0, deferred=0, would_reap=0, never_runners=0, held=1, kept=counts, examples=named
    )
    assert found == ReaperStatus(held=1, kept={"Unnamed": 6, "MassLeak": 1}, examples=named)


def test_an_overdue_reaper_reports_no_old_failure():
    assert status_at(at=NOW - 3600, failing_since=NOW - 7200) == ReaperStatus(4)
