"""Renders untrusted text safely in GitHub's Markdown.

Users choose the names and labels of runners. Unescaped in a table, such text could end a cell, start another row, add
HTML, mention users or link issues. In a code span of safe characters it can do none of these.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from ghapp.untrusted_text import LONGEST_WORD, one_line

LONGEST_LINE = 500
"""Characters shown of one line of a log."""

NOTHING = "–"

_SAFE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ._:;/@#+=,()'…-]*[A-Za-z0-9.)…])?")
"""Text that a code span in a table can contain: no pipe, backtick, backslash or angle bracket."""


@lru_cache(4096)
def code(text: str, most: int = LONGEST_WORD) -> str:
    """Formats text as code on one line, at most `most` characters; returns a dash if no character is visible."""
    shown = one_line(text, most)
    if not shown:
        return NOTHING
    if _SAFE.fullmatch(shown):
        return f"`{shown}`"
    return f"<code>{''.join(map(_literal, shown))}</code>"


_WORD = re.compile(r"\(?(?:[0-9][0-9,.]*[0-9]|[A-Za-z0-9]+(?:['-][A-Za-z0-9]+)*'?)\)?[.,;:]?|–")
"""A word that is text to GitHub: no mention, no link, no markup."""

_REFERENCE = re.compile(r"\(?gh-[0-9]", re.IGNORECASE)


def prose(text: str, most: int = 1000) -> str:
    """Formats a sentence that has names of anybody; what stands between backticks, and each odd word, is code."""
    parts = one_line(text, most).split("`")
    shown = (code(part) if place % 2 else " ".join(map(_word, part.split(" "))) for place, part in enumerate(parts))
    return "".join(shown)


def _word(word: str) -> str:
    is_text = not word or (_WORD.fullmatch(word) and not _REFERENCE.match(word))
    return word if is_text else code(word, len(word))


def linked(text: str, page: str | None) -> str:
    """Returns Markdown as a link to a page; unchanged if its address is not known."""
    return text if page is None else f"[{text}]({page})"


def row(*cells: str) -> str:
    """Returns a table row; cells are Markdown without pipes and line breaks."""
    return f"| {' | '.join(cells)} |"


def heading(*columns: str, numbers: Sequence[str] = ()) -> str:
    """Returns a table's first two lines; columns in `numbers` are right-aligned."""
    return row(*columns) + "\n" + row(*("---:" if column in numbers else "---" for column in columns))


def cut(head: str, rows: Iterable[str], count: int, room: int, what: str, page: str | None = None) -> str:
    """Joins a head and as many whole rows as fit, with a note on how many rows were left out.

    Args:
        head: text before the first row; the head and the note must fit together.
        rows: lines without line breaks; the iterable is consumed only as far as rows fit, and may have fewer than
            `count`.
        count: total number of rows.
        room: maximum length of the result, in characters.
        what: plural noun for the rows, for the note.
        page: the address of the page that has all rows, for the note; None if it is not known.
    """
    note = len(_left_out(count, what, page))
    shown, length, beside_note = [head], len(head), 1
    for each in rows:
        length += 1 + len(each)
        if length > room:
            break
        shown.append(each)
        if length + note <= room:
            beside_note = len(shown)
    if len(shown) - 1 == count:
        return "\n".join(shown)
    return "\n".join(shown[:beside_note]) + _left_out(count - (beside_note - 1), what, page)


def block(lines: Sequence[str], room: int, *, middle: bool = False) -> str:
    """Renders lines as a fenced code block that no line can close, with as many whole lines as fit.

    Args:
        lines: each is rendered on one line and cut to `LONGEST_LINE` characters.
        room: maximum length of the lines including line breaks, in characters.
        middle: drop lines from both ends alike; otherwise drop the first lines.
    """
    shown = [one_line(line, LONGEST_LINE) for line in lines]
    first, last, length = 0, len(shown), sum(len(line) + 1 for line in shown)
    while length > room:
        if middle and first > len(shown) - last:
            last -= 1
            length -= len(shown[last]) + 1
        else:
            length -= len(shown[first]) + 1
            first += 1
    kept = shown[first:last]
    ticks = max((len(run) for line in kept for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, ticks + 1)
    return "\n".join((f"{fence}text", *kept, fence))


def _left_out(count: int, what: str, page: str | None) -> str:
    return f"\n\n… and {linked(f'{count} more {what}', page)}, which do not fit here."


def _literal(character: str) -> str:
    plain = character.isascii() and character.isalnum()
    return character if plain else f"&#{ord(character)};"
