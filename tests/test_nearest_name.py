"""The words after an unknown name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.wording import MOST_NAMED, meant

MANY = [f"pool-{number}" for number in range(MOST_NAMED + 2)]


@pytest.mark.parametrize(
    ("name", "known", "text"),
    [
        ("linux", [], "known are none"),
        ("linxu", ["mac", "linux"], "did you mean linux? known are linux, mac"),
        ("LINXU", ["Linux"], "did you mean Linux? known are Linux"),
        ("oom", ["guest-oom-or-kill", "host-oom"], "did you mean host-oom? known are guest-oom-or-kill, host-oom"),
        (
            "LOST",
            ["host-oom", "lost-communication"],
            "did you mean lost-communication? known are host-oom, lost-communication",
        ),
        ("gu", ["guest-oom-or-kill"], "known are guest-oom-or-kill"),
        ("gue", ["guest-oom-or-kill"], "did you mean guest-oom-or-kill? known are guest-oom-or-kill"),
        ("windows", ["mac", "linux"], "known are linux, mac"),
        ("x", MANY[:MOST_NAMED], f"known are {', '.join(MANY[:MOST_NAMED])}"),
        ("x", MANY, f"known are {', '.join(MANY[:MOST_NAMED])} and 2 more"),
    ],
)
def test_the_nearest_and_a_few_known_names_are_named(name, known, text):
    assert meant(name, known, "known are") == text


@given(st.text(), st.lists(st.text()))
def test_any_names_make_one_sentence(name, known):
    assert "known are " in meant(name, known, "known are")
