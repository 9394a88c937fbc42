"""Each package has a docstring with its design."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = sorted(each.relative_to(ROOT) for name in ("ghapp", "jobs") for each in (ROOT / name).rglob("__init__.py"))


@pytest.mark.parametrize("package", PACKAGES, ids=lambda each: str(each.parent))
def test_a_package_has_a_docstring(package):
    assert ast.get_docstring(ast.parse((ROOT / package).read_text()))
