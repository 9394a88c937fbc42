"""Each package has a docstring with its design; those of the rules and of the jobs name each of their modules."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = sorted(each.relative_to(ROOT) for name in ("ghapp", "jobs") for each in (ROOT / name).rglob("__init__.py"))

CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
(RULES,) = [each["source_modules"] for each in CONTRACTS if each["name"] == "rules import rules alone"]
GUIDED = [ROOT / each.replace(".", "/") for each in RULES] + [
    each.parent for each in (ROOT / "jobs").rglob("__init__.py")
]

IN_MANY = {"api", "commands", "doctor", "documents", "metrics", "page_views", "pages", "texts"}
"""What shows and serves a subject has the same names in each: CONTRIBUTING.md has them."""


def docstring(package: Path) -> str:
    return ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""


@pytest.mark.parametrize("package", PACKAGES, ids=lambda each: str(each.parent))
def test_a_package_has_a_docstring(package):
    assert docstring(ROOT / package.parent)


@pytest.mark.parametrize("package", GUIDED, ids=lambda each: str(each.relative_to(ROOT)))
def test_who_looks_for_a_module_of_rules_or_of_jobs_finds_it_in_the_docstring_of_its_package(package):
    modules = {each.stem for each in package.glob("*.py")} - {"__init__", "store", *IN_MANY}
    assert modules - set(re.findall(r"`(\w+)", docstring(package))) == set()
