"""Foreign text in tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ghapp.report.markdown import LONGEST_WORD, NOTHING, block, code, cut, heading, row

GFM = MarkdownIt("commonmark", {"html": True}).enable("table")
EVIL = st.text(st.sampled_from("|`\\\n\r\t<>&@#[]()*_~!-:;. \u202e\u2028a1") | st.characters(), max_size=40)


def cells(table):
    """The visible text of each cell of each row, and the kinds of tokens in the cell."""
    rows = []
    tokens = GFM.parse(table)
    assert [token.type for token in tokens if token.level == 0] == ["table_open", "table_close"], "nothing but a table"
    for token in tokens:
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            rows[-1].append([(child.type, child.content) for child in token.children])
    return rows


def seen(cell):
    return "".join(content for kind, content in cell if kind in {"text", "code_inline", "text_special"})


@given(EVIL, EVIL)
def test_no_text_ends_its_cell_or_its_row_or_leaves_its_code_span(first, second):
    table = "\n".join((heading("A", "B"), row(code(first), f"[{code(second)}](https://example.com/1)"), row("x", "y")))
    head, strange, last = cells(table)
    assert [len(each) for each in (head, strange, last)] == [2, 2, 2]
    assert (seen(last[0]), seen(last[1])) == ("x", "y")
    kinds = {kind for cell in strange for kind, _ in cell}
    assert kinds <= {"text", "text_special", "code_inline", "html_inline", "link_open", "link_close"}
    assert {content for cell in strange for kind, content in cell if kind == "html_inline"} <= {"<code>", "</code>"}


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=LONGEST_WORD))
def test_printable_text_is_shown_unchanged(word):
    (_, (cell,)) = cells("\n".join((heading("A"), row(code(word)))))
    assert seen(cell) == word


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("linux-4vcpu-x7k2p", "`linux-4vcpu-x7k2p`"),
        ("@octocat", "<code>&#64;octocat</code>"),
        ("a|b", "<code>a&#124;b</code>"),
        ("`", "<code>&#96;</code>"),
        ("a\n| b |", "<code>a&#32;&#124;&#32;b&#32;&#124;</code>"),
        ("<img src=x>", "<code>&#60;img&#32;src&#61;x&#62;</code>"),
        ("ä", "<code>&#228;</code>"),
        ("a\u202eb", "<code>a&#65533;b</code>"),
        ("", NOTHING),
        (" \n ", NOTHING),
    ],
)
def test_text_is_a_code_span_that_it_cannot_leave(word, shown):
    assert code(word) == shown


@pytest.mark.parametrize(("length", "shown"), [(99, 99), (100, 100), (101, 100), (5000, 100)])
def test_a_long_text_is_truncated(length, shown):
    (_, (cell,)) = cells("\n".join((heading("A"), row(code("a" * length)))))
    assert len(seen(cell)) == shown
    assert seen(cell).endswith("…") is (length > LONGEST_WORD)


ROWS = ["12345"] * 20
WHOLE = "\n".join(("head", *ROWS))
NOTE = "\n\n… and 20 more runners, which do not fit here."


def test_rows_that_are_not_given_are_counted():
    assert cut("head", ROWS[:3], 20, len(WHOLE), "runners").splitlines()[:4] == ["head", *ROWS[:3]]
    assert "17 more runners" in cut("head", ROWS[:3], 20, len(WHOLE), "runners")


def test_a_text_that_fits_is_not_cut():
    assert cut("head", ROWS, 20, len(WHOLE), "runners") == WHOLE
    assert cut("head", [], 0, 4, "runners") == "head"


@pytest.mark.parametrize(
    ("room", "shown"),
    [
        (len(WHOLE) - 1, 12),
        (len("head") + len(NOTE) + 6 * 3, 3),
        (len("head") + len(NOTE) + 6 * 3 - 1, 2),
        (len("head") + len(NOTE), 0),
    ],
)
def test_a_text_that_does_not_fit_is_cut_at_the_end_of_a_row_with_a_count(room, shown):
    text = cut("head", ROWS, 20, room, "runners")
    assert text == "\n".join(("head", *ROWS[:shown])) + NOTE.replace("20", str(20 - shown))


@given(st.lists(st.text(st.characters(exclude_characters="\n"), max_size=30), max_size=30), st.integers(60, 600))
def test_a_cut_text_fits_and_counts_each_omitted_row(rows, room):
    text = cut("head", rows, len(rows), room, "runners")
    assert len(text) <= room
    body, _, note = text.partition("\n\n… and ")
    shown = body.removeprefix("head").split("\n")[1:] if body != "head" else []
    left_out = int(note.split()[0]) if note else 0
    assert shown == rows[: len(shown)]
    assert len(shown) + left_out == len(rows)


def test_no_more_rows_are_made_than_can_be_shown():
    rows = iter(["12345"] * 10_000)
    cut("head", rows, 10_000, 100, "runners")
    assert len(list(rows)) == 10_000 - 17, "sixteen rows fit, and the seventeenth was made to find that out"


@given(st.lists(EVIL, max_size=8), st.booleans())
def test_no_line_ends_its_code_block(lines, middle):
    tokens = GFM.parse(block(lines, 10_000, middle=middle))
    assert [token.type for token in tokens] == ["fence"]
    assert len(tokens[0].content.splitlines()) == len(lines)


@pytest.mark.parametrize(
    ("room", "middle", "shown"),
    [
        (10, False, "abcde"),
        (9, False, "bcde"),
        (4, False, "de"),
        (9, True, "bcde"),
        (6, True, "bcd"),
        (5, True, "cd"),
        (1, True, ""),
        (0, False, ""),
    ],
)
def test_the_last_or_the_middle_lines_of_a_code_block_are_kept(room, middle, shown):
    assert block(list("abcde"), room, middle=middle).split("\n")[1:-1] == list(shown)


def test_a_long_line_of_a_code_block_is_truncated():
    assert block(["x" * 500, "y" * 501], 2000).split("\n")[1:3] == ["x" * 500, "y" * 499 + "…"]
