"""Text of outsiders for each place: what it must never be, and that it stays what it was as far as that can be."""

from __future__ import annotations

import io
import subprocess
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from ghapp.terminal.tables import LONGEST_CELL, copyable, new_table, plain
from ghapp.untrusted_text import (
    REPLACEMENT,
    one_line,
    shell_command,
    toml_string,
    visible,
    visible_lines,
    without_markup,
)
from tests.support.nasty_names import GFM, NASTY, not_seen, tags

ANY = st.text(
    st.sampled_from("\x1b\x9b\n\r\t\u2028\u202e\u200b\u3164[]<>@`|\\_*.:/a1 é") | st.characters(), max_size=40
)


def test_there_are_forty_names_and_each_is_another_one():
    assert len({*NASTY}) == len(NASTY) >= 40


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("linux-4vcpu-x7k2p", "linux-4vcpu-x7k2p"),
        ("", ""),
        ("a  b ", "a  b "),
        ("größe 日本 🚀", "größe 日本 🚀"),
        ("a\nb\tc\u2028d\xa0e", "a b c d e"),
        ("\x1b[31mred", f"{REPLACEMENT}[31mred"),
        ("\x9b\x7f\x00", REPLACEMENT * 3),
        ("a\u202eb\u200bc\ufeff", f"a{REPLACEMENT}b{REPLACEMENT}c{REPLACEMENT}"),
        ("\u3164\u2800\ufe0f", REPLACEMENT * 3),
        ("⚙\ufe0f build 🛠\ufe0f 1\ufe0f\u20e3", "⚙\ufe0f build 🛠\ufe0f 1\ufe0f\u20e3"),
        ("⚙\ufe0f\ufe0f a\ufe0f", f"⚙\ufe0f{REPLACEMENT} a{REPLACEMENT}"),
    ],
)
def test_what_is_not_seen_is_replaced_and_nothing_else(text, shown):
    assert visible(text) == shown


@given(ANY)
def test_visible_text_is_one_line_and_visible_already(text):
    shown = visible(text)
    assert len(shown) == len(text)
    assert len(shown.splitlines()) <= 1
    assert visible(shown) == shown
    assert shown.isprintable()
    assert visible_lines(text).replace("\n", " ").replace("\t", " ") == shown


@pytest.mark.parametrize(("length", "shown"), [(9, "x" * 9), (10, "x" * 10), (11, "x" * 9 + "…")])
def test_a_long_text_is_cut_to_its_bound(length, shown):
    assert visible("x" * length, 10) == one_line("x" * length, 10) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (" " * 199 + "x", "x"),
        (" " * 200 + "x", "…"),
        ("x " * 100, "x x x x x…"),
        ("x" + " " * 199, "x"),
        ("x" + " " * 200, "x…"),
        ("x" * 10**6, "x" * 9 + "…"),
    ],
)
def test_of_a_long_text_only_the_beginning_is_read(text, shown):
    assert one_line(text, 10) == shown


def test_a_sentence_has_single_spaces():
    assert one_line(" a\n\n b\x1b[31m\u202ec\r\n") == f"a b{REPLACEMENT}[31m{REPLACEMENT}c"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("gpu-large, my_label", "gpu-large, my_label"),
        ("ubuntu-24.04 v1.2.3 python3.11", "ubuntu-24.04 v1.2.3 python3.11"),
        ("acme/api a+b run-id=7", "acme/api a+b run-id=7"),
        ("<!channel>", "‹!channel›"),
        ("@everyone", "＠everyone"),
        ("[a](https://evil.com)", "［a］(https∶//evil[.]com)"),
        ("_a_ a_ _a", "＿a＿ a＿ ＿a"),
        ("node.js", "node[.]js"),
        ("mailto:a@b.c", "mailto∶a＠b[.]c"),
    ],
)
def test_a_notification_shows_ordinary_names_as_they_are_and_markup_as_text(text, shown):
    assert without_markup(text) == shown


@given(ANY)
def test_no_text_is_markup_to_any_receiver_of_notifications(text):
    shown = without_markup(text)
    assert not_seen(shown) == {}
    assert not {*shown} & {*"@<>`*~|\\&#"}
    assert "://" not in shown
    assert not tags(shown)
    (block, inline, _) = GFM.parse(f"Reason: {shown}.")
    assert (block.type, {each.type for each in inline.children}) == ("paragraph_open", {"text"})
    assert without_markup(shown) == shown.replace("[", "［").replace("]", "］")


@settings(max_examples=30)
@given(st.lists(ANY.filter(lambda text: "\x00" not in text and not any("\ud800" <= each <= "\udfff" for each in text))))
def test_a_command_is_visible_and_has_the_same_words_for_a_shell(words):
    command = shell_command("printf", "%s\\0", *words)
    assert not_seen(command) == {}
    done = subprocess.run(["bash", "-c", command], capture_output=True, env={"LC_ALL": "C.UTF-8"}, check=True)
    assert done.stdout.decode().split("\x00")[:-1] == (words or [""])


@pytest.mark.parametrize(
    ("word", "shown"), [("linux-4vcpu", "linux-4vcpu"), ("a b", "'a b'"), ("a\x1b'", "$'a\\x1b\\''")]
)
def test_a_command_quotes_only_what_must_be_quoted(word, shown):
    assert shell_command("ghapp", "resume", word) == f"ghapp resume {shown}"


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_toml_string_is_visible_and_the_same_text(text):
    assert not_seen(toml_string(text)) == {}
    assert tomllib.loads(f"a = {toml_string(text)}") == {"a": text}


@pytest.mark.parametrize(("length", "shown"), [(LONGEST_CELL, LONGEST_CELL), (LONGEST_CELL + 1, LONGEST_CELL)])
def test_a_long_name_makes_no_row_longer_than_the_bound(length, shown):
    table = new_table("a")
    table.add_row("x" * length)
    assert len(table.columns[0]._cells[0].plain) == shown


@pytest.mark.parametrize("text", NASTY[:-1], ids=range(len(NASTY) - 1))
def test_a_cell_and_a_line_of_a_terminal_show_the_text_itself(text):
    table = new_table("a", "b")
    table.add_row(text, plain(text, "red"))
    out = io.StringIO()
    console = Console(file=out, width=12_000, force_terminal=True, color_system=None)
    console.print(table)
    console.print(copyable(text))
    lines = out.getvalue().splitlines()
    assert len(lines) == 3
    assert not_seen(out.getvalue()) == {}
    assert lines[1].count(visible(text).strip()) >= 2
    assert visible(text).strip() in lines[2]
