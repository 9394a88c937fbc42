"""The commands of the Makefile that CI does not run still start."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).parents[1] / "Makefile"
MODULES = sorted(set(re.findall(r"-m (tests(?:\.\w+)+)", MAKEFILE.read_text())))


def test_the_makefile_runs_modules_of_the_tests() -> None:
    assert {"tests.bench", "tests.chaos", "tests.simulation", "tests.packaging.wheels"} <= set(MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_each_module_that_the_makefile_runs_can_be_imported(module: str) -> None:
    """A name that moved breaks `make bench` without breaking a test; this import fails then."""
    if hasattr(importlib.import_module(module), "__path__"):
        importlib.import_module(f"{module}.__main__")
