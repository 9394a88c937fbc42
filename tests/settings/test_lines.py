"""The line of a mistake in the configuration file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.settings.mistakes import line_of

FILE = """# [sweep] in a comment
[sweep]
interval_second = 4
# concurrency = 3
concurrency = "ten"

[[pools]]
org = "acme"
name = "linux"
labels = []
rerun = { mode = "x" }

[[pools]]
name = 'gpu [a]'
org = "acme"

[ orgs . "acme" . fuse ]
fraction = 3
"""


@pytest.mark.parametrize(
    ("place", "line"),
    [
        ("[sweep] interval_second", 3),
        ("[sweep] concurrency", 5),
        ("[sweep] missing", 2),
        ("[sweep]", 2),
        ("[orgs.acme.fuse] fraction", 18),
        ("[[pools]] linux labels", 10),
        ("[[pools]] linux rerun", 11),
        ("[[pools]] linux replacer", 7),
        ("[[pools]] gpu [a] labels", 13),
        ("[[pools]] gpu [a]", 13),
        ("[[pools]] linux", 7),
        ("[[pools]] 2 name", 14),
        ("[[pools]] 2 labels", 13),
        ("[[pools]] 1", 7),
        ("[[pools]] 3 name", None),
        ("[[pools]] 0 name", None),
        (f"[[pools]] {'9' * 5000} labels", None),
        ("[[pools]] unknown labels", None),
        ("[fuse] fraction", None),
        ("GHAPP_REDIS_URL", None),
        ("", None),
    ],
)
def test_a_mistake_is_found_at_its_key_or_at_its_table(place, line):
    assert line_of(FILE, place) == line


def test_two_pools_of_one_name_have_no_line():
    assert line_of(FILE.replace("'gpu [a]'", '"linux"'), "[[pools]] linux labels") is None


def test_a_file_with_texts_of_several_lines_has_no_line():
    assert line_of(FILE + "why = '''\n[sweep]\n'''\n", "[sweep] interval_second") is None


@given(st.text(), st.text())
def test_any_file_and_any_place_are_read(toml, place):
    line = line_of(toml, place)
    assert line is None or 1 <= line <= max(1, len(toml.splitlines()))
