"""Which mutants are tried: those of rules, and none of what is never evaluated."""

import json

from tests.manifests.rendered import ROOT
from tests.mutation.__main__ import options_of
from tests.mutation.mutants import SAME, Mutant, annotations, read, rules_of

SOURCE = """
def halved(
    value: int | None,
) -> float | None:
    return None if value is None else value / 2 | 0
"""


def row(operator, line, column, occurrence=0):
    change = {"operator_name": operator, "occurrence": occurrence, "start_pos": [line, column]}
    return json.dumps([{"mutations": [change | {"definition_name": "halved"}]}, None])


def test_what_changes_no_meaning_is_no_mutant():
    either = [row("BitOr", 3, 15), row("BitOr", 4, 11, 1), row("BitOr", 5, 48, 2), row("Div", 5, 44)]
    either += [row(each, 5, 22) for each in SAME]
    found = read(either, "ghapp/runners/halves.py", annotations(SOURCE))
    assert found == [
        Mutant("ghapp/runners/halves.py", "BitOr", 2, 5, "halved"),
        Mutant("ghapp/runners/halves.py", "Div", 0, 5, "halved"),
    ]


def test_rules_are_tried_and_what_shows_and_stores_them_is_not():
    names = {each.stem for each in rules_of(ROOT / "ghapp" / "runners")}
    assert {"verdict", "observations", "absence"} <= names
    assert not {"store", "texts", "pages", "api", "commands", "__init__"} & names


def test_packages_may_follow_the_options():
    options = options_of(["cosmic-ray", "--mutants", "4", "leaks", "runners"])
    assert (options.mutants, options.packages) == (4, ["leaks", "runners"])
