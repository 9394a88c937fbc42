"""docs/rules.md links each rule to what exists, and names each mutation of the simulation."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.manifests.rendered import ROOT
from tests.simulation.mutations import MUTATIONS

DOCS = ROOT / "docs"
RULES, SHORTEST_REASON = 16, 40
LINKS = ("Function", "Table test", "Mutation", "Story")
BEYOND = "Beyond the rules"

HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
BULLET = re.compile(r"^- \*\*([^*]+)\*\*: ((?:.+\n?)+?)(?=^- |^$|\Z)", re.MULTILINE)
FILE = re.compile(r"\[`([^`]+)`\]\(([^)]+)\)")
NAME = re.compile(r"`([^`]+)`")


def sections_of(page: str) -> dict[str, dict[str, list[str]]]:
    """The bullets of each section by their labels, each on one line."""
    _, *parts = HEADING.split(page)
    return {title: bullets_of(text) for title, text in zip(parts[::2], parts[1::2], strict=True)}


def bullets_of(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for label, bullet in BULLET.findall(text):
        found.setdefault(label, []).append(" ".join(bullet.split()))
    return found


SECTIONS = sections_of((DOCS / "rules.md").read_text())
NUMBERED = [title for title in SECTIONS if title != BEYOND]


def targets(bullet: str) -> Iterator[tuple[str, str, list[str]]]:
    """Each linked file of a bullet: its text, its address, and the names after it."""
    _, *parts = FILE.split(bullet)
    for text, address, names in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        yield text, address, NAME.findall(names)


def mutations(section: str) -> list[str]:
    return [name for bullet in SECTIONS[section].get("Mutation", ()) for name in NAME.findall(bullet)]


@cache
def defined_in(path: Path) -> frozenset[str]:
    """The functions, classes and methods of a module, a method after its class and a point."""
    return frozenset(_defined(ast.parse(path.read_text()).body, ""))


def _defined(body: list[ast.stmt], before: str) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield f"{before}{node.name}"
        if isinstance(node, ast.ClassDef):
            yield from _defined(node.body, f"{before}{node.name}.")


def wrong_in(label: str, bullet: str) -> list[str]:
    """What does not exist of the links of a bullet, or is no such link."""
    linked, wrong = list(targets(bullet)), []
    if not linked:
        wrong.append(f"{label}: no link to a file")
    for text, address, names in linked:
        path = (DOCS / address).resolve()
        if not path.is_file():
            wrong.append(f"{address}: no such file")
            continue
        if not address.endswith(f"/{text}"):
            wrong.append(f"{text}: leads to {address}")
        if not names:
            wrong.append(f"{address}: names nothing")
        known = {name.replace(".", "::") for name in defined_in(path)} if label != "Function" else defined_in(path)
        wrong += [f"{address}: {name} is not defined there" for name in names if name not in known]
        if kind_of(path) != label:
            wrong.append(f"{address}: not where a {label.lower()} is")
        if label != "Function":
            wrong += [f"{name}: no test" for name in names if not name.rpartition(":")[2].startswith("test_")]
    return wrong


def kind_of(path: Path) -> str:
    if not path.is_relative_to(ROOT / "tests"):
        return "Function"
    return "Story" if path.is_relative_to(ROOT / "tests" / "stories") else "Table test"


def test_there_is_a_section_for_each_rule_in_order():
    assert [title.partition(". ")[0] for title in NUMBERED] == [str(number) for number in range(1, RULES + 1)]
    assert list(SECTIONS)[RULES:] == [BEYOND]


@pytest.mark.parametrize("section", NUMBERED)
def test_a_rule_has_its_function_table_test_mutation_and_story(section):
    bullets = SECTIONS[section]
    assert {label: len(each) for label, each in bullets.items()} == dict.fromkeys(LINKS, 1)
    assert [wrong for label in LINKS if label != "Mutation" for wrong in wrong_in(label, bullets[label][0])] == []
    (mutation,) = bullets["Mutation"]
    if mutation.startswith("none"):
        assert len(mutation) > SHORTEST_REASON, "why the simulation cannot break it"
    else:
        assert mutations(section)


def test_each_mutation_is_named_by_one_section_and_each_that_is_named_exists():
    named = [name for section in SECTIONS for name in mutations(section)]
    assert sorted(named) == sorted(MUTATIONS)


@pytest.mark.parametrize(
    ("label", "bullet", "wrong"),
    [
        ("Function", "[`evidence.py`](../ghapp/runners/evidence.py) `covered_seconds`, `Evidence.is_busy`", 0),
        ("Function", "none", 1),
        ("Function", "[`evidence.py`](../ghapp/runners/evidence.py)", 1),
        ("Function", "[`evidence.py`](../ghapp/runners/evidence.py) `uncovered_seconds`", 1),
        ("Function", "[`evidence.py`](../ghapp/pools/evidence.py) `covered_seconds`", 1),
        ("Function", "[`verdict.py`](../ghapp/runners/evidence.py) `covered_seconds`", 1),
        ("Function", "[`test_rules.py`](../tests/language/test_rules.py) `targets`", 1),
        ("Story", "[`test_fuse.py`](../tests/stories/remediation/test_fuse.py) `test_a_pause_wins_over_everything`", 0),
        ("Story", "[`test_fuse.py`](../tests/stories/remediation/test_fuse.py) `test_a_pause_wins`", 1),
        ("Story", "[`test_fuse.py`](../tests/stories/remediation/test_fuse.py) `fuse`", 1),
        ("Story", "[`evidence.py`](../ghapp/runners/evidence.py) `covered_seconds`", 2),
        (
            "Table test",
            "[`test_fuse.py`](../tests/stories/remediation/test_fuse.py) `test_a_pause_wins_over_everything`",
            1,
        ),
    ],
)
def test_a_wrong_link_is_found(label, bullet, wrong):
    assert len(wrong_in(label, bullet)) == wrong
