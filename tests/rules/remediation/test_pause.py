"""When a pause is over, and which later requests change its end: exact boundaries."""

from __future__ import annotations

import pytest

from ghapp.remediation.pause import SHORTEST_PAUSE_SECONDS, Pause
from tests.rules.builders import MICROSECOND, NOW

END = NOW + 600.0


def pause(until: float | None = END, who: str = "mona") -> Pause:
    return Pause(who, "a move", NOW - 60, until)


@pytest.mark.parametrize(
    ("until", "is_over"),
    [(NOW, True), (NOW + MICROSECOND, False), (None, False)],
    ids=["at its end", "before its end", "until a person resumes"],
)
def test_a_pause_is_over_at_its_end(until, is_over):
    assert pause(until).is_over(NOW) is is_over


@pytest.mark.parametrize(
    ("running", "who", "asked", "after"),
    [
        (END, "lisa", END + SHORTEST_PAUSE_SECONDS, END + SHORTEST_PAUSE_SECONDS),
        (END, "lisa", END + SHORTEST_PAUSE_SECONDS - MICROSECOND, END),
        (END, "lisa", None, None),
        (END, "lisa", END - SHORTEST_PAUSE_SECONDS, END),
        (END, "olga", END - SHORTEST_PAUSE_SECONDS, END),
        (END, "mona", END - SHORTEST_PAUSE_SECONDS, END - SHORTEST_PAUSE_SECONDS),
        (END, "mona", END - SHORTEST_PAUSE_SECONDS + MICROSECOND, END),
        (None, "lisa", END, None),
        (None, "mona", END, END),
        (None, "mona", None, None),
    ],
    ids=[
        "a minute later",
        "less than a minute later",
        "until a person resumes",
        "earlier, by another person",
        "earlier, by a person whose name sorts later",
        "a minute earlier, by its starter",
        "less than a minute earlier",
        "an end, by another person",
        "an end, by its starter",
        "the same again",
    ],
)
def test_a_request_that_differs_by_a_minute_changes_the_end_of_a_pause(running, who, asked, after):
    assert pause(running).changed_by(pause(asked, who)).until == after
