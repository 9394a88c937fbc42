"""The ways through the code in CONTRIBUTING.md lead to modules that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WAYS = (ROOT / "CONTRIBUTING.md").read_text().partition("The ways through the code:")[2].partition("\n## ")[0]
MODULES = sorted({each for each in re.findall(r"`([\w*./]+)`", WAYS) if "/" in each and "*" not in each})


@pytest.mark.parametrize("module", MODULES)
def test_a_way_leads_to_a_module(module):
    places = [ROOT / module, ROOT / "ghapp" / module]
    assert any(place.is_dir() or place.with_suffix(".py").is_file() for place in places)


def test_there_are_ways():
    assert len(MODULES) > 30
