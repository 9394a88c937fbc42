"""Validates values of the TOML file. Each error names the key, and what it takes."""

from __future__ import annotations

import dataclasses
import difflib
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal, Union

from ghapp.addresses import shown
from ghapp.errors import ConfigurationError
from ghapp.gate.shard_status import is_shard
from ghapp.settings.mistakes import Mistakes

LONGEST_SECONDS = 365 * 86_400
MOST = 1_000_000
FRACTIONS = {"share", "fraction"}

_INVALID: Any = object()
"""In place of a value that has a mistake."""

NAMES = {
    "org": (r"[\w.-]+(/[\w.-]+)?", "a login, as in the organization's URL, OWNER/REPOSITORY or enterprises/SLUG"),
    "repository": (r"[\w.-]+/[\w.-]+", "owner/name"),
    "repositories": (r"[\w.-]+/[\w.-]*\*[\w.*-]*", "owner/* or another pattern of names, as owner/service-*"),
    "enterprise": (r"[A-Za-z0-9][\w-]{0,99}", "an enterprise's slug, as in github.com/enterprises/SLUG"),
    "deploy_repository": (r"[\w.-]+/[\w.-]+", "owner/name"),
    "name": (r"(?!\*$)[^/\x00-\x1f]+", "a name without a slash, and not *, which stands for all pools"),
    "namespace": (r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", "the name of a Kubernetes namespace"),
    "minimum": (r"[0-9]{1,9}(\.[0-9]{1,9}){1,3}", "a version of the runner, such as 2.336.0"),
    "owner_label": (r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", "a Kubernetes label's key"),
}
"""By key: the pattern of its values, and its description."""


def checked(shape: type[Any], row: Mapping[str, Any], where: str, mistakes: Mistakes) -> dict[str, Any]:
    """Returns a table's valid values by key, each converted for the field of that name in `shape`."""
    hints = typing.get_type_hints(shape)
    found: dict[str, Any] = {}
    for key, value in row.items():
        name = f"{where} {key}"
        if key not in hints:
            meant = nearest_key(key, hints)  # it is misspelt, and not reported as missing, too
            mistakes.add(f"{name}: unknown key{did_you_mean(key, hints)}", name, *(f"{where} {each}" for each in meant))
            continue
        converted = mistakes.read(name, _INVALID, _value, value, hints[key], key, name, mistakes)
        if converted is not _INVALID:
            found[key] = converted
    return found


def _value(value: Any, hint: Any, key: str, where: str, mistakes: Mistakes) -> Any:
    origin = typing.get_origin(hint)
    if origin in (Union, types.UnionType):
        hint = next(each for each in typing.get_args(hint) if each is not types.NoneType)
        return _value(value, hint, key, where, mistakes)
    if origin is Literal:
        choices = typing.get_args(hint)
        expected = "one of " + ", ".join(choices) if len(choices) > 1 else choices[0]
        return require(value in choices, value, where, expected)
    if origin is Mapping:
        return _groups(value, where)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        require(isinstance(value, dict), value, where, 'a table such as { mode = "button" }')
        return hint(**checked(hint, value, where, mistakes))
    if origin is tuple:
        strings = isinstance(value, list) and all(isinstance(each, str) for each in value)
        require(strings, value, where, "a list of strings")
        item = typing.get_args(hint)[0]
        is_choice = typing.get_origin(item) is Literal
        return tuple(_value(each, item, key, where, mistakes) if is_choice else each for each in value)
    return _SCALARS[hint](value, key, where)


def _number(value: Any, key: str, where: str) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if key in FRACTIONS:
        return float(
            require(is_number and 0 < value <= 1, value, where, _bare(value, "a fraction above 0 and up to 1"))
        )
    expected = _bare(value, "1 second or more, up to a year")
    return float(require(is_number and 1 <= value <= LONGEST_SECONDS, value, where, expected))


def _count(value: Any, _key: str, where: str) -> int:
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return int(
        require(is_count and 1 <= value <= MOST, value, where, _bare(value, f"a whole number from 1 to {MOST:,}"))
    )


def _bare(value: Any, expected: str) -> str:
    """Returns what a number must be, for one in quotes with the cure: its value alone looks valid."""
    return f"{expected}, without quotes" if isinstance(value, str) else expected


def string(value: Any, key: str, where: str) -> str:
    """Returns a non-empty string that matches the pattern of `key`, if `NAMES` has one."""
    text = str(require(isinstance(value, str) and value != "", value, where, "a string"))
    if key in NAMES:
        pattern, expected = NAMES[key]
        require(re.fullmatch(pattern, text, re.ASCII), text, where, expected)
    return text


def _flag(value: Any, _key: str, where: str) -> bool:
    return bool(require(isinstance(value, bool), value, where, "true or false"))


def _groups(value: Any, where: str) -> dict[str, int]:
    expected = "a table of shards and the ids of their runner groups, such as { pink = 12, purple = 13 }"
    rows = require(isinstance(value, dict), value, where, expected)
    for shard, group in rows.items():
        is_id = isinstance(group, int) and not isinstance(group, bool) and group >= 1
        require(is_shard(shard) and is_id, value, where, expected)
    return dict(rows)


_SCALARS: Mapping[Any, Callable[[Any, str, str], Any]] = {float: _number, int: _count, str: string, bool: _flag}


def require(ok: Any, value: Any, key: str, expected: str) -> Any:
    """Returns `value` if it is `ok`; else raises an error that says what was `expected` at that `key`."""
    if not ok:
        raise ConfigurationError(f"{key}: {shown(value)} is not valid; it takes {expected}")
    return value


def optional_table(tables: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Returns a table; an empty one if it is missing."""
    return table(tables.get(name, {}), name)


def table(value: Any, where: str) -> dict[str, Any]:
    """Returns a value that must be a table."""
    if not isinstance(value, dict):
        raise ConfigurationError(f"[{where}]: must be a table")
    return value


def rows(tables: Mapping[str, Any], name: str) -> list[Any]:
    """Returns the rows of an array of tables; none if it is missing."""
    found = tables.get(name, [])
    if not isinstance(found, list):
        raise ConfigurationError(f"[[{name}]]: must be an array of tables, written with two brackets")
    return found


def did_you_mean(name: str, known: typing.Iterable[str]) -> str:
    """Returns the end of an error message: the nearest known name, or all of them."""
    near = nearest_key(name, known)
    return f"; did you mean {near[0]}?" if near else f"; known are {', '.join(sorted(known))}"


def nearest_key(name: str, known: typing.Iterable[str]) -> list[str]:
    """Returns the known name that a person may have meant, alone; nothing if none is like it."""
    return difflib.get_close_matches(name, sorted(known), n=1)
