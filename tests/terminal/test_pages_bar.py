"""The progress bar of `ghapp sweep`: names of outsiders are text of its one line."""

from __future__ import annotations

import re
from io import StringIO

import pytest
from rich.console import Console

from ghapp.terminal.pages_bar import LONGEST_NAME, pages_bar
from ghapp.untrusted_text import visible
from tests.support.nasty_names import NASTY, not_seen

CONTROL = re.compile("\x1b\\[[0-9;?]*[A-Za-z]|\r")
"""What moves the cursor and colours: of the bar itself."""

TWO_LINES = "\x1b[2K\x1b[1A\x1b[2K"
"""Deletes a line and the one above it."""


def drawn(name, *, width=200, is_shown=True):
    terminal = StringIO()
    console = Console(file=terminal, force_terminal=True, width=width, legacy_windows=False, _environ={})
    with pages_bar(name, console, is_shown=is_shown) as advance:
        advance(3, 12)
    return terminal.getvalue()


def test_the_bar_shows_the_pages_in_one_line_and_deletes_it():
    text = drawn("acme")
    assert "acme: pages" in text
    assert " 25%" in text
    assert text.endswith("\x1b[1A\x1b[2K")
    assert drawn("acme", is_shown=False) == ""


@pytest.mark.parametrize("name", NASTY)
def test_a_name_of_others_is_text_in_it(name):
    text = drawn(name)
    assert {*CONTROL.findall(text)} == {*CONTROL.findall(drawn("name"))}, "the controls are ours"
    shown = CONTROL.sub("", text)
    assert not_seen(shown) == {}
    assert f"{visible(name, LONGEST_NAME)}: pages" in shown
    assert " 25%" in shown


@pytest.mark.parametrize("width", [20, 40, 80])
@pytest.mark.parametrize("name", ["acme", NASTY[-1]])
def test_it_takes_one_line_of_a_narrow_terminal(name, width):
    assert TWO_LINES not in drawn(name, width=width)
