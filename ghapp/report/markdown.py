"""Strangers' words in GitHub's Markdown: shown as they are, and never obeyed.

Whoever registers a runner chooses its name and labels. In a table they could end a cell, begin another row, add
HTML, mention people, or refer to issues; in a code span of harmless characters they can do none of it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

LONGEST_WORD = 100
"""Characters shown of one name or label. GitHub allows 64 in a runner's name."""

LONGEST_LINE = 500
"""Characters shown of one line of a log."""

NOTHING = "–"

_HARMLESS = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ._:;/@#+=,()'…-]*[A-Za-z0-9.)…])?")
"""What a code span in a table can hold: no pipe, backtick, backslash or angle bracket."""


@lru_cache(4096)
def code(text: str, most: int = LONGEST_WORD) -> str:
    """The text as code, on one line, at most `most` characters of it; a dash when nothing of it can be seen."""
    shown = _visible(text)
    if not shown:
        return NOTHING
    shown = _cut(shown, most)
    if _HARMLESS.fullmatch(shown):
        return f"`{shown}`"
    return f"<code>{''.join(map(_literal, shown))}</code>"


def row(*cells: str) -> str:
    """One row of a table; cells are Markdown that holds no pipe and no line break."""
    return f"| {' | '.join(cells)} |"


def heading(*columns: str, numbers: Sequence[str] = ()) -> str:
    """A table's first two lines; columns of `numbers` are set to the right."""
    return row(*columns) + "\n" + row(*("---:" if column in numbers else "---" for column in columns))


def cut(head: str, rows: Iterable[str], count: int, room: int, what: str) -> str:
    """As many whole rows under a head as fit, and how many were left out.

    Args:
        head: what comes before the first row; it and the note on what was left out must fit.
        rows: without line breaks; no more of them is made than can be shown.
        count: how many there are.
        room: characters that the result may have.
        what: the rows' plural, for the note.
    """
    note = len(_left_out(count, what))
    shown, length, beside_note = [head], len(head), 1
    for each in rows:
        length += 1 + len(each)
        if length > room:
            return "\n".join(shown[:beside_note]) + _left_out(count - (beside_note - 1), what)
        shown.append(each)
        if length + note <= room:
            beside_note = len(shown)
    return "\n".join(shown)


def block(lines: Sequence[str], room: int, *, middle: bool = False) -> str:
    """Lines as a block of code that none of them can end, as many whole ones as there is room for.

    Args:
        lines: each is shown on one line, and `LONGEST_LINE` characters of it.
        room: characters that the lines may have, their breaks included.
        middle: leave out the first and the last alike; else the first.
    """
    shown = [_cut(_visible(line), LONGEST_LINE) for line in lines]
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


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _left_out(count: int, what: str) -> str:
    return f"\n\n… and {count} more {what}, left out for want of room."


def _visible(text: str) -> str:
    """Without line breaks, control characters and what turns the direction of writing."""
    seen = ("\N{REPLACEMENT CHARACTER}" if unicodedata.category(each)[0] == "C" else each for each in _one_line(text))
    return "".join(seen)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _literal(character: str) -> str:
    plain = character.isascii() and character.isalnum()
    return character if plain else f"&#{ord(character)};"
