"""Collects the mistakes of a configuration, so that one start names all of them.

What has a mistake is read as its default, and checks that depend on it are left out: they would report what is not
written there. A mistake begins with its place, of which `line_of` finds the line in the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, ParamSpec, TypeVar

from ghapp.errors import ConfigurationError
from ghapp.wording import counted

MOST_NAMED = 20
"""Mistakes in a message; those beyond are counted."""

MOST_DIGITS = 9
"""Of the place of a pool in the file. A name may be a number of any length, of which Python reads 4,300 digits."""

T = TypeVar("T")
P = ParamSpec("P")


class Mistakes:
    """The mistakes found so far, in the order of reading."""

    def __init__(self) -> None:
        self._texts: dict[str, None] = {}
        self._keys: set[str] = set()

    def read(self, key: str, default: T, parse: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Returns what `parse` returns; `default` if that raises a mistake, which is then of `key`."""
        try:
            return parse(*args, **kwargs)
        except ConfigurationError as error:
            for mistake in error.mistakes:
                self.add(mistake, key)
            return default

    def add(self, text: str, *keys: str) -> None:
        """Adds a mistake of these keys; one that was found before counts once."""
        self._texts[text] = None
        self._keys.update(keys)

    def has_any(self, keys: Iterable[str]) -> bool:
        """True if one of these keys has a mistake."""
        return not self._keys.isdisjoint(keys)

    def require_none(self, toml: str) -> None:
        """Checks that there are no mistakes. Those of the file are in the order of its lines, and come first.

        Args:
            toml: the text of the configuration file, of which each mistake names the line where it is found.

        Raises:
            ConfigurationError: with all of them, or the first ones and the number of the others.
        """
        if self._texts:
            found = [_located(toml, each) for each in self._texts]
            found.sort(key=lambda each: (each.line is None, each.line))
            texts = [each.text for each in found]
            hidden_count = len(texts) - MOST_NAMED
            more = [f"… and {counted(hidden_count, 'more mistake')}"] if hidden_count > 0 else []
            raise ConfigurationError(*texts[:MOST_NAMED], *more)


class _Located(NamedTuple):
    """A mistake, and the line where it is; None if that is not found, or it is not of the file."""

    text: str
    line: int | None


def _located(toml: str, mistake: str) -> _Located:
    place, _, rest = mistake.partition(": ")
    found = _find(toml, place)
    if found is None or not rest:
        return _Located(mistake, None)
    return _Located(f"{found.place}: line {found.line}: {rest}", found.line)


_OF_TABLE = re.compile(r"\[(?P<table>[^\[\]]+)\](?: (?P<key>\S+))?")
_OF_POOL = re.compile(r"\[\[(?P<table>\w+)\]\] (?P<rest>.+)")
_HEADER = re.compile(r"\s*(\[\[?)([^\[\]]+)\]")
_KEY = re.compile(r"""\s*(["']?)([\w.-]+)\1\s*[.=]""")


class _Section(NamedTuple):
    """A table of the file: its header with brackets, and the keys in it, each with the number of its line and text."""

    header: str
    line: int
    keys: list[tuple[str, int, str]]


class _Place(NamedTuple):
    """A place as people read it, with the name of a pool that has one, and its line."""

    place: str
    line: int


def line_of(toml: str, place: str) -> int | None:
    """Returns the number of a line, from 1 on; None if it is not found.

    Args:
        toml: the file's text.
        place: as mistakes begin: `[sweep] concurrency`, `[[pools]] linux labels`, `[[pools]] 2 name` of the second
            pool, which has no name or one that others have, too. Of a key that is missing, the line of its table's
            header is returned.
    """
    found = _find(toml, place)
    return None if found is None else found.line


def _find(toml: str, place: str) -> _Place | None:
    if '"""' in toml or "'''" in toml:  # what looks like a header may be a part of a text
        return None
    sections = list(_sections(toml))
    if of_pool := _OF_POOL.fullmatch(place):
        header = f"[[{of_pool['table']}]]"
        named, wanted, keys = _named([each for each in sections if each.header == header], of_pool["rest"])
        if len(named) == 1:
            place = " ".join((header, _name_of(named[0]) or wanted, *keys))
    elif of_table := _OF_TABLE.fullmatch(place):
        named = [each for each in sections if each.header == f"[{_bare(of_table['table'])}]"]
        keys = [of_table["key"] or ""]
    else:
        return None
    if len(named) != 1:
        return None
    line = next((line for name, line, _ in named[0].keys if [name] == keys[:1]), named[0].line)
    return _Place(place, line)


def _sections(toml: str) -> Iterator[_Section]:
    section = _Section("", 1, [])
    for number, text in enumerate(toml.splitlines(), 1):
        if header := _HEADER.match(text):
            yield section
            brackets = header[1]
            section = _Section(f"{brackets}{_bare(header[2])}{']' * len(brackets)}", number, [])
        elif key := _KEY.match(text):
            section.keys.append((key[2].partition(".")[0], number, text))
    yield section


def _bare(table: str) -> str:
    """Returns a table's name without quotes and spaces around its parts."""
    return ".".join(part.strip().strip("\"'") for part in table.split("."))


def _named(pools: Sequence[_Section], rest: str) -> tuple[Sequence[_Section], str, list[str]]:
    """Returns the pools that are meant, their name or place, and the keys after it; a key may have keys of its own."""
    words = rest.split(" ")
    for count in range(len(words), 0, -1):
        wanted, keys = " ".join(words[:count]), words[count:]
        if named := [each for each in pools if _name_of(each) == wanted]:
            return named, wanted, keys
        if wanted.isdecimal() and len(wanted) <= MOST_DIGITS and 1 <= int(wanted) <= len(pools):
            return [pools[int(wanted) - 1]], wanted, keys
    return (), rest, []


_NAME = re.compile(r"""\s*(["']?)name\1\s*=\s*(["'])(.*?)\2""")


def _name_of(section: _Section) -> str:
    """Returns a pool's name as it is written; empty without one."""
    found = (_NAME.match(text) for key, _, text in section.keys if key == "name")
    return next((name[3] for name in found if name), "")
