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
        """Checks that there are no mistakes.

        Args:
            toml: the text of the configuration file, of which each mistake names the line where it is found.

        Raises:
            ConfigurationError: with all of them, or the first ones and the number of the others.
        """
        if self._texts:
            texts = [_with_line(toml, each) for each in self._texts]
            hidden_count = len(texts) - MOST_NAMED
            more = [f"… and {counted(hidden_count, 'more mistake')}"] if hidden_count > 0 else []
            raise ConfigurationError(*texts[:MOST_NAMED], *more)


def _with_line(toml: str, mistake: str) -> str:
    place, _, rest = mistake.partition(": ")
    line = line_of(toml, place)
    return mistake if line is None or not rest else f"{place}: line {line}: {rest}"


_OF_TABLE = re.compile(r"\[(?P<table>[^\[\]]+)\](?: (?P<key>\S+))?")
_OF_POOL = re.compile(r"\[\[(?P<table>\w+)\]\] (?P<rest>.+)")
_HEADER = re.compile(r"\s*(\[\[?)([^\[\]]+)\]")
_KEY = re.compile(r"""\s*(["']?)([\w.-]+)\1\s*[.=]""")


class _Section(NamedTuple):
    """A table of the file: its header with brackets, and the keys in it, each with the number of its line and text."""

    header: str
    line: int
    keys: list[tuple[str, int, str]]


def line_of(toml: str, place: str) -> int | None:
    """Returns the number of a line, from 1 on; None if it is not found.

    Args:
        toml: the file's text.
        place: as mistakes begin: `[sweep] concurrency`, `[[pools]] linux labels`, `[[pools]] 2 name` of the second
            pool, which has no name. Of a key that is missing, the line of its table's header is returned.
    """
    if '"""' in toml or "'''" in toml:  # what looks like a header may be a part of a text
        return None
    sections = list(_sections(toml))
    if of_pool := _OF_POOL.fullmatch(place):
        pools = [each for each in sections if each.header == f"[[{of_pool['table']}]]"]
        named, key = _named(pools, of_pool["rest"])
    elif of_table := _OF_TABLE.fullmatch(place):
        named, key = (
            [each for each in sections if each.header == f"[{_bare(of_table['table'])}]"],
            of_table["key"] or "",
        )
    else:
        return None
    if len(named) != 1:
        return None
    return next((line for name, line, _ in named[0].keys if name == key), named[0].line)


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


def _named(pools: Sequence[_Section], rest: str) -> tuple[Sequence[_Section], str]:
    """Returns the pools that are meant, and the key; `rest` is a pool's name, or its place, and perhaps a key."""
    name, _, key = rest.rpartition(" ")
    for wanted, of_it in ((rest, ""), (name, key)):
        if named := [each for each in pools if _is_named(each, wanted)]:
            return named, of_it
        if wanted.isdecimal() and len(wanted) <= MOST_DIGITS and 1 <= int(wanted) <= len(pools):
            return [pools[int(wanted) - 1]], of_it
    return (), ""


def _is_named(section: _Section, name: str) -> bool:
    wanted = re.compile(rf"""\s*name\s*=\s*(["']){re.escape(name)}\1""")
    return any(key == "name" and wanted.match(text) for key, _, text in section.keys)
