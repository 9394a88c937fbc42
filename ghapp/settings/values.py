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

LONGEST_SECONDS = 365 * 86_400
MOST = 1_000_000
FRACTIONS = {"share", "fraction"}

NAMES = {
    "org": (r"[\w.-]+", "a login, as in the organization's URL"),
    "repository": (r"[\w.-]+/[\w.-]+", "owner/name"),
    "deploy_repository": (r"[\w.-]+/[\w.-]+", "owner/name"),
    "name": (r"(?!\*$)[^/\x00-\x1f]+", "a name without a slash, and not *, which stands for all pools"),
    "namespace": (r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", "the name of a Kubernetes namespace"),
    "minimum": (r"[0-9]{1,9}(\.[0-9]{1,9}){1,3}", "a version of the runner, such as 2.336.0"),
    "owner_label": (r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", "a Kubernetes label's key"),
}
"""By key: the pattern of its values, and its description."""


def checked(shape: type[Any], row: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Returns a table's values by key, each converted for the field of that name in `shape`."""
    hints = typing.get_type_hints(shape)
    for key in row:
        if key not in hints:
            raise ConfigurationError(f"{where} {key}: unknown key{did_you_mean(key, hints)}")
    return {key: _value(value, hints[key], key, f"{where} {key}") for key, value in row.items()}


def _value(value: Any, hint: Any, key: str, where: str) -> Any:
    origin = typing.get_origin(hint)
    if origin in (Union, types.UnionType):
        hint = next(each for each in typing.get_args(hint) if each is not types.NoneType)
        return _value(value, hint, key, where)
    if origin is Literal:
        choices = typing.get_args(hint)
        right = "one of " + ", ".join(choices) if len(choices) > 1 else choices[0]
        return require(value in choices, value, where, right)
    if origin is Mapping:
        return _groups(value, where)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        require(isinstance(value, dict), value, where, 'a table such as { mode = "button" }')
        return hint(**checked(hint, value, where))
    if origin is tuple:
        strings = isinstance(value, list) and all(isinstance(each, str) for each in value)
        require(strings, value, where, "a list of strings")
        item = typing.get_args(hint)[0]
        is_choice = typing.get_origin(item) is Literal
        return tuple(_value(each, item, key, where) if is_choice else each for each in value)
    return _SCALARS[hint](value, key, where)


def _number(value: Any, key: str, where: str) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if key in FRACTIONS:
        return float(
            require(is_number and 0 < value <= 1, value, where, _bare(value, "a fraction above 0 and up to 1"))
        )
    right = _bare(value, "1 second or more, up to a year")
    return float(require(is_number and 1 <= value <= LONGEST_SECONDS, value, where, right))


def _count(value: Any, _key: str, where: str) -> int:
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return int(
        require(is_count and 1 <= value <= MOST, value, where, _bare(value, f"a whole number from 1 to {MOST:,}"))
    )


def _bare(value: Any, right: str) -> str:
    """Returns what a number must be, for one in quotes with the cure: its value alone looks valid."""
    return f"{right}, without quotes" if isinstance(value, str) else right


def string(value: Any, key: str, where: str) -> str:
    """Returns a non-empty string that matches the pattern of `key`, if `NAMES` has one."""
    text = str(require(isinstance(value, str) and value != "", value, where, "a string"))
    if key in NAMES:
        pattern, right = NAMES[key]
        require(re.fullmatch(pattern, text, re.ASCII), text, where, right)
    return text


def _flag(value: Any, _key: str, where: str) -> bool:
    return bool(require(isinstance(value, bool), value, where, "true or false"))


def _groups(value: Any, where: str) -> dict[str, int]:
    right = "a table of shards and the ids of their runner groups, such as { pink = 12, purple = 13 }"
    rows = require(isinstance(value, dict), value, where, right)
    for shard, group in rows.items():
        is_id = isinstance(group, int) and not isinstance(group, bool) and group >= 1
        require(is_shard(shard) and is_id, value, where, right)
    return dict(rows)


_SCALARS: Mapping[Any, Callable[[Any, str, str], Any]] = {float: _number, int: _count, str: string, bool: _flag}


def require(is_valid: Any, value: Any, where: str, right: str) -> Any:
    """Returns `value` if it is valid; else raises an error that says what is `right`."""
    if not is_valid:
        raise ConfigurationError(f"{where}: {shown(value)} is not valid; it takes {right}")
    return value


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
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {near[0]}?" if near else f"; known are {', '.join(names)}"
