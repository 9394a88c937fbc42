"""Text of outsiders, made harmless for the place where it is shown. Pure.

People who may register a runner, push a workflow or create a pod choose names, labels, branches, log lines and
messages. What each place shows of them comes through here:

- terminals and log lines on a terminal: `visible`, `visible_lines`; as cells and lines of tables, `ghapp.terminal`;
- HTML: the templates escape, and `visible_lines` is applied to each of their values (`ghapp.web.pages.layout`);
- Markdown of check runs: `ghapp.report.markdown`, on `visible`;
- notifications, whatever their receiver reads as markup: `without_markup`;
- commands to copy into a shell: `shell_command`; a configuration to copy into a file: `toml_string`.

JSON is escaped by its encoder. Records keep the text as it came.
"""

from __future__ import annotations

import json
import re
import shlex

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
"""Shown for a character that has no shape of its own."""

LONGEST_WORD = 100
"""Characters shown of one name or label. GitHub allows 64 in a runner's name."""

_SHAPELESS = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0d\uffa0\U000e0100-\U000e01ef"
_SYMBOLS = "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u27ff\u2900-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
_HIDDEN = re.compile(rf"[{_SHAPELESS}]|(?<![{_SYMBOLS}])[\ufe0e\ufe0f](?!\u20e3)")
"""Letters and marks without a shape. Python calls them printable; two names that differ in them look alike. After a
symbol, a variation selector makes it an emoji, as many names of jobs have one.
"""


READ_AT_MOST = 20
"""Characters that are read for each one that is shown: a text may begin with much white space."""


def visible(text: str, most: int | None = None) -> str:
    """Returns text on one line, each character of which is seen.

    White space of any kind becomes a space. Control characters, such as those that begin an escape sequence, and
    characters that have no width or change the writing direction become `REPLACEMENT`.

    Args:
        text: of anybody.
        most: maximum number of characters; a longer text ends with `…`.
    """
    return cut_to(_seen(text if most is None else text[: most + 1], ""), most)


def visible_lines(text: str) -> str:
    """Returns the same for a text of several lines: line breaks and tabs stay."""
    return _seen(text, "\n\t")


def one_line(text: str, most: int | None = None) -> str:
    """Returns the same for a sentence: each run of white space is one space, and there is none at its ends.

    Of a text that is much longer than `most`, only the beginning is read.
    """
    read = text if most is None else text[: READ_AT_MOST * most]
    shown = " ".join(visible(read).split())
    return cut_to(shown if len(read) == len(text) else f"{shown}…", most)


def cut_to(text: str, most: int | None) -> str:
    """Returns a text of at most `most` characters; a longer one ends with `…`. None: the text as it is."""
    return text if most is None or len(text) <= most else text[: most - 1] + "…"


def _seen(text: str, kept: str) -> str:
    bare = text
    for each in kept:
        bare = bare.replace(each, "")
    if bare.isprintable() and (bare.isascii() or _HIDDEN.search(bare) is None):
        return text
    return "".join(each if each in kept else _shape(each) for each in _HIDDEN.sub(REPLACEMENT, text))


def _shape(character: str) -> str:
    if character.isspace():
        return " "
    return character if character.isprintable() else REPLACEMENT


def _has_shape(character: str) -> bool:
    return visible(character) == character


_LOOKALIKES = str.maketrans("@<>[]`*~|\\&#", "＠‹›［］ˋ∗∼¦＼＆＃")
"""What begins a mention, a link, an image, HTML, code, a quote or emphasis for any receiver, and what is shown for it.

An escape would be right for one receiver, and be shown or be taken away by another.
"""

_LOOSE_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
_SCHEME = re.compile(r":(?=//)|(?<=mailto):|(?<=tel):", re.IGNORECASE)
_DOMAIN_DOT = re.compile(r"(?<=\w)[.\u3002\uff0e\uff61](?=\w*[^\W\d])")
"""A dot as in a host's name: programs turn bare ones into links. Numbers of versions keep theirs."""


def without_markup(text: str, most: int = LONGEST_WORD) -> str:
    """Returns text on one line that is text to every receiver of notifications: no mention, no link, no markup.

    Receivers read Markdown, HTML, the markup of Slack, Teams, Discord or Mattermost, or text in which they look for
    addresses. Characters with a meaning in any of these are replaced by others that look like them, and the dot of a
    host's name by `[.]`.
    """
    line = one_line(text, most).translate(_LOOKALIKES)
    return _DOMAIN_DOT.sub("[.]", _SCHEME.sub("\N{RATIO}", _LOOSE_UNDERSCORE.sub("\N{FULLWIDTH LOW LINE}", line)))


def shell_command(*words: str) -> str:
    """Returns a command to copy into a shell; each word is that word to the shell, whatever it contains."""
    return " ".join(map(_shell_word, words))


def _shell_word(word: str) -> str:
    """Returns the word, quoted if it needs to be; as `$'…'` of visible characters if it has others."""
    if visible(word) == word:
        return shlex.quote(word)
    return f"$'{''.join(_shell_character(each) for each in word)}'"


def _shell_character(character: str) -> str:
    if character in "'\\":
        return f"\\{character}"
    return character if _has_shape(character) else _code_point(character, r"\x{:02x}")


def toml_string(text: str) -> str:
    """Returns a TOML string. TOML's escapes are those of JSON; characters that are not seen are escaped, too."""
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(each if _has_shape(each) else _code_point(each, r"\u{:04x}") for each in quoted)


def _code_point(character: str, ascii_form: str) -> str:
    """Returns the escape of a character, in the form that shells and TOML share beyond ASCII."""
    code = ord(character)
    if character.isascii():
        return ascii_form.format(code)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004 - four digits
