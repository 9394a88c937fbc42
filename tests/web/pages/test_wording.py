"""Which parts of a text pages show as code."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.report.documents import timestamp
from ghapp.untrusted_text import shell_command
from ghapp.web.pages.views.wording import coded, moment
from ghapp.wording import clock_time, time_of
from tests.web.conftest import NOW


def code_in(text):
    return [each.text for each in coded(text) if each.is_code]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", []),
        ("start `ghapp worker`", ["ghapp worker"]),
        ("`ghapp doctor` names it; see `a.toml`.", ["ghapp doctor", "a.toml"]),
        ("it never started (`kubectl describe pod`), or `x`/`y`", ["kubectl describe pod", "x", "y"]),
        ("see the controller of a`b", []),
        ("see the controller of a`b, and that of c`d", []),
        ("add a table for a`b: `ghapp init`", ["ghapp init"]),
        ("add a table for `b: `ghapp init`", ["ghapp init"]),
        ("add a table for b`: `ghapp init`", ["ghapp init"]),
        ("`", []),
        ("``", []),
        ("a ` b ` c", []),
        ("resume: `ghapp resume acme --pool 'a`b'`, then wait", ["ghapp resume acme --pool 'a`b'"]),
        ("`two\nlines`", ["two\nlines"]),
    ],
)
def test_code_is_between_backticks_that_are_not_within_a_word(text, code):
    assert code_in(text) == code


NAMES = st.from_regex(r"[a-z]{1,3}([`._-][a-z]{1,3}){0,3}", fullmatch=True)
"""A backtick beside a full stop reads as the end of code: nothing in a sentence distinguishes the two."""


@given(NAMES, NAMES)
def test_a_backtick_in_a_name_changes_neither_the_name_nor_what_is_code(name, other):
    command = shell_command("ghapp", "explain", other, "x")
    text = f"{name} is lost: see {other}, then `{command}`, or add {name}"
    assert code_in(text) == [command]
    assert "".join(f"`{each.text}`" if each.is_code else each.text for each in coded(text)) == text


@pytest.mark.parametrize(
    ("seconds", "lasting"),
    [(0, "just now"), (130, "for 2 min"), (86_400 * 2, "for 2 d"), (-30, "in 30 s")],
)
def test_what_goes_on_lasts_since_then(seconds, lasting):
    assert moment(NOW, NOW + seconds).lasting == lasting


@pytest.mark.parametrize(
    ("text", "links"),
    [
        ("wait; githubstatus.com has what GitHub reports", ["https://www.githubstatus.com"]),
        ("see githubstatus.com.", ["https://www.githubstatus.com"]),
        ("githubstatus.com", ["https://www.githubstatus.com"]),
        ("see `githubstatus.com`", []),
        ("see not-githubstatus.com, x.githubstatus.com, githubstatus.com.evil.example and githubstatus.com/x", []),
        ("see https://githubstatus.com and mona@githubstatus.com", []),
        ("paused: see https://evil.example", []),
    ],
)
def test_no_address_in_a_text_is_a_link_but_that_of_githubs_status(text, links):
    assert [each.address for each in coded(text) if each.address] == links
    assert "".join(f"`{each.text}`" if each.is_code else each.text for each in coded(text)) == text


@pytest.mark.parametrize(
    ("code", "is_command"),
    [
        ("ghapp doctor", True),
        ("kubectl -n runners delete pod a", True),
        ("gh run rerun --job 7", True),
        ("GHAPP_TOKEN=$(ghapp token create --org acme --scope claim)", True),
        ("ghapp", False),
        ("curl", False),
        ("runs-on", False),
        ("ghapp-1 x", False),
    ],
)
def test_what_a_person_may_want_to_copy_is_a_command(code, is_command):
    assert [each.is_command for each in coded(f"`{code}`")] == [is_command]
    assert [each.is_command for each in coded(code)] == [False]


@pytest.mark.parametrize("at", [NOW, NOW - 1e-6, NOW + 0.0004], ids=["whole", "inexact", "a little later"])
def test_a_page_a_text_and_a_document_show_one_second_of_a_time(at):
    """A time that is computed from GitHub's whole seconds may be a microsecond off."""
    assert (timestamp(at), moment(at, NOW).iso) == (timestamp(NOW), timestamp(NOW))
    assert (time_of(at), clock_time(at)) == (time_of(NOW), clock_time(NOW))
