"""What CONTRIBUTING.md names of the code exists: the modules of its ways through it, and all files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
WAYS = TEXT.partition("The ways through the code:")[2].partition("\n## ")[0]


def named(text, pattern):
    """The paths in backticks, without patterns of several."""
    return {each for each in re.findall(rf"`({pattern})`", text) if "/" in each}


PLACES = sorted(named(WAYS, r"[\w./]+") | named(TEXT, r"[\w./]+\.py"))


@pytest.mark.parametrize("place", PLACES)
def test_a_place_that_is_named_exists(place):
    known = [ROOT / place, ROOT / "ghapp" / place]
    assert any(each.exists() or each.with_suffix(".py").is_file() for each in known)


def test_there_are_ways():
    assert len(PLACES) > 60
