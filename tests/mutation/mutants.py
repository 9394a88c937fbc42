"""The mutants of a package: which there are, and what the tests of its rules say of one."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from tests.packaging.built import NOT_OURS

FURNITURE = ("api", "commands", "doctor", "documents", "metrics", "page_views", "pages", "store", "texts")
"""Modules of a subject that hold no rules."""

ALSO = ("tests/rules/test_numbers.py", "tests/rules/test_found_by_simulation.py")
"""Tests of several subjects' rules."""

SAME = ("core/ReplaceComparisonOperator_Is_Eq", "core/ReplaceComparisonOperator_IsNot_NotEq")
"""Operators whose mutants mean the same: rules compare by `is` with None and with members of enumerations alone."""

TIMEOUT_SECONDS = 120.0
"""A mutant may loop forever; the tests of a package take some ten seconds."""


class Outcome(StrEnum):
    """What became of a mutant."""

    KILLED = "killed"
    SURVIVED = "survived"
    INCOMPETENT = "incompetent"
    """It could not be made, or not be tried."""


class Mutant(NamedTuple):
    """One change of one module.

    Attributes:
        module: its path in the checkout.
        operator: cosmic-ray's operator.
        occurrence: which place of the module it changes.
        line: where that is.
        place: the function that has it; empty outside of functions.
    """

    module: str
    operator: str
    occurrence: int
    line: int
    place: str


class Trial(NamedTuple):
    """A mutant that was tried: what became of it, and the change as a diff."""

    mutant: Mutant
    outcome: Outcome
    diff: str


def rules_of(package: Path) -> list[Path]:
    """Returns the modules of a package that hold rules, by name."""
    return sorted(each for each in package.glob("*.py") if each.stem not in (*FURNITURE, "__init__"))


def annotations(source: str) -> set[tuple[int, int]]:
    """Returns the places (line, column) of operators in annotations, which are never evaluated."""
    tree, places = ast.parse(source), set[tuple[int, int]]()
    for node in ast.walk(tree):
        found = [getattr(node, name, None) for name in ("annotation", "returns")]
        for each in (annotation for annotation in found if isinstance(annotation, ast.AST)):
            lines = range(each.lineno, (each.end_lineno or each.lineno) + 1)
            for line in lines:
                begin = each.col_offset if line == each.lineno else 0
                end = each.end_col_offset if line == each.end_lineno else 1_000
                places |= {(line, column) for column in range(begin, end or 0)}
    return places


def mutants_in(cosmic_ray: str, checkout: Path, module: Path, scratch: Path) -> list[Mutant]:
    """Returns the mutants of a module, as cosmic-ray numbers them, without those that change no meaning."""
    configuration, session = scratch / "session.toml", scratch / "session.sqlite"
    configuration.write_text(
        f'[cosmic-ray]\nmodule-path = ["{module}"]\ntimeout = {TIMEOUT_SECONDS}\nexcluded-modules = []\n'
        'test-command = "true"\n[cosmic-ray.distributor]\nname = "local"\n'
    )
    session.unlink(missing_ok=True)
    subprocess.run([cosmic_ray, "init", configuration, session], cwd=scratch, check=True)
    rows = subprocess.run(
        [cosmic_ray, "dump", session], cwd=scratch, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return read(rows, str(module.relative_to(checkout)), annotations(module.read_text()))


def read(rows: Iterable[str], module: str, unevaluated: set[tuple[int, int]]) -> list[Mutant]:
    """Reads cosmic-ray's dump of one module."""
    found = (change for row in rows for change in json.loads(row)[0]["mutations"])
    return [
        Mutant(module, each["operator_name"], each["occurrence"], each["start_pos"][0], each["definition_name"] or "")
        for each in found
        if tuple(each["start_pos"]) not in unevaluated and each["operator_name"] not in SAME
    ]


def copy_of(checkout: Path, folder: Path) -> Path:
    """Copies what tests of rules need, for one mutant after the other."""
    copy = folder / "checkout"
    copy.mkdir(parents=True)
    for name in ("pyproject.toml", "ghapp", "jobs", "tests"):
        if (checkout / name).is_dir():
            shutil.copytree(checkout / name, copy / name, ignore=NOT_OURS)
        else:
            shutil.copy(checkout / name, copy)
    return copy


def tests_of(module: str) -> list[str]:
    """Returns the tests of the rules of a module's package."""
    return [f"tests/rules/{Path(module).parent.name}", *ALSO]


def try_mutant(cosmic_ray: str, copy: Path, mutant: Mutant, tests: Sequence[str]) -> Trial:
    """Applies a mutant in a copy, runs the tests, and takes the mutant back."""
    module = copy / mutant.module
    before = module.read_bytes()
    try:
        arguments = [mutant.module, mutant.operator, str(mutant.occurrence)]
        applied = subprocess.run([cosmic_ray, "apply", *arguments], cwd=copy, capture_output=True, check=False)
        if applied.returncode != 0 or module.read_bytes() == before:
            return Trial(mutant, Outcome.INCOMPETENT, applied.stderr.decode(errors="replace")[-500:])
        return Trial(mutant, _outcome(copy, tests), _changed_lines(before, module.read_bytes()))
    finally:
        module.write_bytes(before)


def _outcome(copy: Path, tests: Sequence[str]) -> Outcome:
    command = [sys.executable, "-B", "-m", "pytest", "-x", "-n", "0", "-p", "no:cacheprovider", *tests]
    try:
        passed = subprocess.run(command, cwd=copy, capture_output=True, check=False, timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        return Outcome.KILLED
    return Outcome.SURVIVED if passed.returncode == 0 else Outcome.KILLED


def _changed_lines(before: bytes, after: bytes) -> str:
    pairs = zip(before.decode().splitlines(), after.decode().splitlines(), strict=False)
    return "\n".join(f"- {old.strip()}\n+ {new.strip()}" for old, new in pairs if old != new)
