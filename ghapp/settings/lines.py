"""Finds the line of the configuration file that a mistake is about. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

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
        if wanted.isdecimal() and 1 <= int(wanted) <= len(pools):
            return [pools[int(wanted) - 1]], of_it
    return (), ""


def _is_named(section: _Section, name: str) -> bool:
    wanted = re.compile(rf"""\s*name\s*=\s*(["']){re.escape(name)}\1""")
    return any(key == "name" and wanted.match(text) for key, _, text in section.keys)
